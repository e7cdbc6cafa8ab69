// Module: a piece of a model that owns parameters, buffers and other modules.
//
// Names come from registration and are joined by dots: "hidden.0.weight". A module belongs to one rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/base/random.h"

namespace lockstep::nn {

// Writes the first values of a parameter, drawing from `stream`, which is keyed by the run's seed and
// the parameter's full name: the same weights on every rank and for every world size.
using Initializer = std::function<void(const Tensor& value, const base::RandomStream& stream)>;

struct NamedParameter {
  std::string name;
  Variable variable;
};

// State that is saved and compared but not trained (batch-norm statistics).
struct NamedBuffer {
  std::string name;
  Tensor tensor;
};

class Module {
 public:
  virtual ~Module() = default;
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Variable forward(const Variable& x) = 0;
  Variable operator()(const Variable& x) { return forward(x); }

  // In order of registration, depth first. A parameter reached by two names (tied weights) is listed
  // once, under the first.
  std::vector<NamedParameter> named_parameters() const;
  std::vector<NamedBuffer> named_buffers() const;
  std::int64_t parameter_count() const;

  // Fills every parameter by its initializer. Deterministic in (seed, name).
  void initialize(std::uint64_t seed);

  // Training mode (the default) or evaluation; dropout and batch norm ask.
  void train(bool on = true);
  bool training() const { return training_; }

 protected:
  Variable register_parameter(const std::string& name, const Tensor& value, Initializer initializer);
  // A second name for a parameter that another module owns (tied weights).
  void register_tied(const std::string& name, const Variable& parameter);
  Tensor register_buffer(const std::string& name, const Tensor& value);
  template <class M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module) {
    add_module(name, module);
    return module;
  }
  // This module's full name within the model; known after initialize() or named_parameters() of the root.
  const std::string& path() const { return path_; }

 private:
  struct Owned {
    std::string name;
    Variable variable;
    Initializer initializer;
  };
  void add_module(const std::string& name, std::shared_ptr<Module> module);
  void set_path(const std::string& path);

  std::string path_;
  bool training_ = true;
  std::vector<Owned> parameters_;
  std::vector<NamedBuffer> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
};

}  // namespace lockstep::nn
