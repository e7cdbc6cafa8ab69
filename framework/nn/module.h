// Module: a piece of a model that owns parameters, buffers and other modules.
//
// Names come from registration and are joined by dots: "hidden.0.weight". A module belongs to one
// rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/base/random.h"

namespace lockstep::nn {

// Writes the first values of a parameter, drawing from `stream`, which is keyed by the run's seed
// and the parameter's full name: the same weights on every rank and for every world size.
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
  Variable operator()(const Variable& x);  // forward(), as timelines see it

  // Depth first: a module's own, then those of its modules, each in order of registration. Names
  // are relative to this module. A parameter reached by two names (tied weights) is listed once,
  // under the first; so are the parameters and buffers of a module that is registered twice.
  std::vector<NamedParameter> named_parameters() const;
  std::vector<NamedBuffer> named_buffers() const;
  std::int64_t parameter_count() const;

  // Calls visit(name, module) for this module (its name is empty) and all below it, in the same
  // order.
  using Visitor = std::function<void(const std::string& name, Module& module)>;
  void for_each_module(const Visitor& visit);

  // Fills every parameter by its initializer. Call it on the root: a value is a function of the
  // seed, the parameter's name and the element's index alone.
  void initialize(std::uint64_t seed);

  // Training mode (the default) or evaluation, of this module and all below it; dropout and batch
  // norm ask.
  void train(bool on = true);
  bool training() const { return training_; }
  // This module's full name within the model it was registered in; empty for the root.
  const std::string& path() const { return path_; }

 protected:
  // Names are not empty, contain no dot and are unique within the module (UsageError).
  Variable register_parameter(const std::string& name, const Tensor& value,
                              Initializer initializer);
  // A second name for a parameter that another module owns (tied weights).
  void register_tied(const std::string& name, const Variable& parameter);
  Tensor register_buffer(const std::string& name, const Tensor& value);
  template <class M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module) {
    add_module(name, module);
    return module;
  }

 private:
  struct Owned {
    std::string name;
    Variable variable;
    Initializer initializer;  // empty for a tied name
  };
  struct Found {
    std::string name;
    const Owned* owned;  // the owner's, also when a tied name came first
  };
  void check_new_name(const std::string& name) const;
  void add_module(const std::string& name, std::shared_ptr<Module> module);
  // `Self` is Module or const Module; each module is visited once, under its first name.
  template <class Self, class Visit>
  static void walk(Self& module, const std::string& name, std::unordered_set<const Module*>& seen,
                   const Visit& visit);
  std::vector<Found> find_parameters() const;

  std::string path_;
  bool training_ = true;
  std::vector<Owned> parameters_;
  std::vector<NamedBuffer> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
};

}  // namespace lockstep::nn
