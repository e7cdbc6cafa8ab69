#include <unordered_map>

#include "framework/autograd/engine.h"
#include "framework/kernels/kernels.h"
#include "framework/nn/identity.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::nn {
namespace {

// Remembers all that a forward and backward in training mode changes, and puts it back.
class Restorer {
 public:
  Restorer(Module& model, Context& context)
      : context_(context),
        random_(context.random()),
        recording_(context.recording()),
        parameters_(model.named_parameters()) {
    for (const NamedParameter& parameter : parameters_) {
      gradients_.push_back(parameter.variable.grad());
    }
    for (const NamedBuffer& buffer : model.named_buffers()) {
      const Tensor copy = Tensor::empty(context, buffer.tensor.shape(), buffer.tensor.dtype());
      kernels::kernels_for(context).copy(buffer.tensor, copy);
      buffers_.emplace_back(buffer.tensor, copy);
    }
    model.for_each_module([this](const std::string&, Module& module) {
      modes_.emplace_back(&module, module.training());
    });
  }

  ~Restorer() {
    context_.random() = random_;
    context_.set_recording(recording_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].variable.set_grad(gradients_[i]);
    }
    for (const auto& [buffer, copy] : buffers_) kernels::kernels_for(context_).copy(copy, buffer);
    // Parents come first, so a module's own mode has the last word over its parent's.
    for (const auto& [module, training] : modes_) module->train(training);
  }

  Restorer(const Restorer&) = delete;
  Restorer& operator=(const Restorer&) = delete;

 private:
  Context& context_;
  base::RandomState random_;
  bool recording_;
  std::vector<NamedParameter> parameters_;
  std::vector<Tensor> gradients_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace

std::vector<std::size_t> backward_order(Module& model, const Variable& input,
                                        const std::function<Variable(const Variable&)>& loss) {
  Context& context = input.context();
  const Restorer restorer(model, context);
  context.random().step = dry_run_step;
  context.set_recording(true);
  model.train();

  std::vector<NamedParameter> parameters = model.named_parameters();
  std::unordered_map<const void*, std::size_t> index;
  std::vector<std::int64_t> missing;  // elements that were not announced yet
  for (NamedParameter& parameter : parameters) {
    index[identity(parameter.variable)] = missing.size();
    missing.push_back(parameter.variable.value().count());
    // A gradient that is defined would be overwritten in place.
    parameter.variable.set_grad(Tensor());
  }

  std::vector<std::size_t> order;
  autograd::BackwardOptions options;
  options.on_gradient_ready = [&](const Variable& leaf, std::int64_t begin, std::int64_t end) {
    const auto found = index.find(identity(leaf));
    if (found == index.end()) return;  // a leaf of the loss, not of the model
    missing[found->second] -= end - begin;
    if (missing[found->second] == 0) order.push_back(found->second);
  };
  autograd::backward(loss(model.forward(input)), options);
  return order;
}

}  // namespace lockstep::nn
