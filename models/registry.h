// The models that a configuration can name.
//
// A model declares its options beside its code; the registry lists them all, and train/config takes
// the tables into its schema, so that adding a model is one file and one line here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/option.h"
#include "framework/nn/module.h"

namespace lockstep::models {

// What the data set and the run say about a model's two ends.
struct ModelInput {
  Shape features;            // of one sample, without the batch axis
  std::int64_t classes = 0;  // extent of the output's last axis
  DType dtype = DType::float32;
};

struct ModelSpec {
  std::string name;  // `model.name` in the configuration
  std::string doc;
  std::vector<OptionSpec> options;  // the other keys of the `model` section
  // Builds the module; parameters are not initialised (Module::initialize does it). `options` is
  // complete.
  std::shared_ptr<nn::Module> (*make)(Context& context, const Options& options,
                                      const ModelInput& input);
};

// All models, sorted by name.
const std::vector<ModelSpec>& models();

// Throws ConfigError listing the known names.
const ModelSpec& find_model(std::string_view name);

// The model `name` with `options` checked and completed with defaults, its parameters initialised
// from `seed`. Throws ConfigError for an unknown name or option or a value out of range, naming it
// as a key of the `model` section.
std::shared_ptr<nn::Module> make_model(Context& context, std::string_view name,
                                       const Options& options, const ModelInput& input,
                                       std::uint64_t seed);

}  // namespace lockstep::models
