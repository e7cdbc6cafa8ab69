#include "framework/nn/module.h"

#include <algorithm>
#include <unordered_map>

#include "framework/base/error.h"
#include "framework/device/recorder.h"
#include "framework/nn/identity.h"

namespace lockstep::nn {
namespace {

std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

}  // namespace

template <class Self, class Visit>
void Module::walk(Self& module, const std::string& name, std::unordered_set<const Module*>& seen,
                  const Visit& visit) {
  if (!seen.insert(&module).second) return;
  visit(name, module);
  for (const auto& [child_name, child] : module.modules_) {
    walk<Self>(*child, join(name, child_name), seen, visit);
  }
}

void Module::for_each_module(const Visitor& visit) {
  std::unordered_set<const Module*> seen;
  walk(*this, "", seen, visit);
}

Variable Module::operator()(const Variable& x) {
  const device::RecordedPart part(x.context(), path_);
  return forward(x);
}

std::vector<Module::Found> Module::find_parameters() const {
  std::vector<Found> found;
  std::unordered_map<const void*, std::size_t> places;
  std::unordered_set<const Module*> seen;
  walk(*this, "", seen, [&](const std::string& path, const Module& module) {
    for (const Owned& owned : module.parameters_) {
      const auto [place, is_new] = places.try_emplace(identity(owned.variable), found.size());
      if (is_new) {
        found.push_back({join(path, owned.name), &owned});
      } else if (owned.initializer) {
        found[place->second].owned = &owned;
      }
    }
  });
  return found;
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> parameters;
  for (const Found& found : find_parameters()) {
    parameters.push_back({found.name, found.owned->variable});
  }
  return parameters;
}

std::vector<NamedBuffer> Module::named_buffers() const {
  std::vector<NamedBuffer> buffers;
  std::unordered_set<const Module*> seen;
  walk(*this, "", seen, [&](const std::string& path, const Module& module) {
    for (const NamedBuffer& buffer : module.buffers_) {
      buffers.push_back({join(path, buffer.name), buffer.tensor});
    }
  });
  return buffers;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Found& found : find_parameters()) count += found.owned->variable.value().count();
  return count;
}

void Module::initialize(std::uint64_t seed) {
  for (const Found& found : find_parameters()) {
    if (!found.owned->initializer) {
      throw UsageError("initialize(): parameter " + found.name +
                       " is tied to one that no module below this one owns");
    }
    found.owned->initializer(found.owned->variable.value(),
                             base::RandomStream(seed, "init:" + found.name));
  }
}

void Module::train(bool on) {
  for_each_module([on](const std::string&, Module& module) { module.training_ = on; });
}

Variable Module::register_parameter(const std::string& name, const Tensor& value,
                                    Initializer initializer) {
  check_new_name(name);
  if (!value.defined() || !initializer) {
    throw UsageError("register_parameter(" + name + "): needs a defined tensor and an initializer");
  }
  if (!base::is_floating(value.dtype())) {
    throw UsageError("register_parameter(" + name + "): dtype is " +
                     std::string(base::name_of(value.dtype())) + ", expected a floating one");
  }
  Variable variable(value, /*requires_grad=*/true, name);
  parameters_.push_back({name, variable, std::move(initializer)});
  return variable;
}

void Module::register_tied(const std::string& name, const Variable& parameter) {
  check_new_name(name);
  if (!parameter.defined() || !parameter.is_leaf()) {
    throw UsageError("register_tied(" + name + "): needs a parameter of another module");
  }
  parameters_.push_back({name, parameter, {}});
}

Tensor Module::register_buffer(const std::string& name, const Tensor& value) {
  check_new_name(name);
  if (!value.defined()) throw UsageError("register_buffer(" + name + "): needs a defined tensor");
  buffers_.push_back({name, value});
  return value;
}

void Module::add_module(const std::string& name, std::shared_ptr<Module> module) {
  check_new_name(name);
  if (!module || module.get() == this) {
    throw UsageError("register_module(" + name + "): needs another module");
  }
  modules_.emplace_back(name, std::move(module));
  // Models are put together from the leaves up, so what is below gets its full name anew.
  std::unordered_set<const Module*> seen;
  walk(*this, path_, seen, [](const std::string& path, Module& below) { below.path_ = path; });
}

void Module::check_new_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw UsageError("\"" + name +
                     "\" cannot name a part of a module: expected a name without dots");
  }
  const auto same_name = [&](const auto& part) { return part.name == name; };
  const auto same_first = [&](const auto& part) { return part.first == name; };
  if (std::ranges::any_of(parameters_, same_name) || std::ranges::any_of(buffers_, same_name) ||
      std::ranges::any_of(modules_, same_first)) {
    throw UsageError("the module already has a part named " + name);
  }
}

}  // namespace lockstep::nn
