#include "models/registry.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/error.h"
#include "models/mlp.h"

namespace lockstep::models {

const std::vector<ModelSpec>& models() {
  static const std::vector<ModelSpec> all = {mlp_spec()};
  return all;
}

const ModelSpec& find_model(std::string_view name) {
  const auto found = std::ranges::find(models(), name, &ModelSpec::name);
  if (found == models().end()) {
    std::vector<std::string> known;
    for (const ModelSpec& model : models()) known.push_back(model.name);
    throw ConfigError(
        fmt::format("model.name: found {}, expected one of {}", name, fmt::join(known, ", ")));
  }
  return *found;
}

std::shared_ptr<nn::Module> make_model(Context& context, std::string_view name,
                                       const Options& options, const ModelInput& input,
                                       std::uint64_t seed) {
  const ModelSpec& model = find_model(name);
  if (input.features.count() < 1 || input.classes < 1) {
    throw UsageError(
        fmt::format("model {}: input of shape {} and {} classes, expected at least one "
                    "feature and one class",
                    name, base::to_string(input.features), input.classes));
  }
  const auto complete = [&] {
    try {
      return base::complete(model.options, options);
    } catch (const ConfigError& error) {
      throw ConfigError(std::string("model.") + error.what());
    }
  };
  std::shared_ptr<nn::Module> module = model.make(context, complete(), input);
  module->initialize(seed);
  return module;
}

}  // namespace lockstep::models
