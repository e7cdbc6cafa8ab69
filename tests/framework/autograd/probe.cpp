#include "tests/framework/autograd/probe.h"

#include <fmt/format.h>

#include "framework/kernels/kernels.h"

namespace lockstep::autograd {
namespace {

class ProbeNode final : public Node {
 public:
  ProbeNode(std::span<const Variable> inputs, std::string_view name, const ProbeOptions& options,
            Tensor saved)
      : Node(name, inputs), options_(options), saved_(std::move(saved)) {}
  ~ProbeNode() override { note("drop"); }

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    note("run");
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      if (const Node* const alone = options_.asks ? gradients.sole_producer(i) : nullptr)
        options_.events->push_back(fmt::format("alone {}", alone->op()));
      if (options_.hand == Hand::unwanted || gradients.wanted(i)) hand(i, grad_output, gradients);
    }
    note("end");
  }
  void release() override { saved_ = {}; }

 private:
  void note(std::string_view what) const {
    if (options_.events) options_.events->push_back(fmt::format("{} {}", what, op()));
  }

  void hand(std::size_t i, const Tensor& gradient, InputGradients& gradients) const {
    const auto write = [&] {
      const GradientSlot slot = gradients.slot(i);
      kernels::kernels_for(gradient.context())
          .axpby(1, gradient, slot.accumulate ? 1 : 0, slot.tensor);
    };
    Context& context = gradient.context();
    switch (options_.hand) {
      case Hand::write:
      case Hand::unwanted:
        return write();
      case Hand::give:
        return gradients.give(i, gradient);
      case Hand::mixed:
        return i % 2 == 0 ? write() : gradients.give(i, gradient);
      case Hand::early:
        write();
        return gradients.finished(i, gradient.count());
      case Hand::finished_twice:
        write();
        gradients.finished(i, 1);
        return gradients.finished(i, 1);
      case Hand::finished_too_much:
        write();
        return gradients.finished(i, gradient.count() + 1);
      case Hand::finished_unbegun:
        return gradients.finished(i, 1);
      case Hand::nothing:
        return;
      case Hand::twice:
        write();
        return gradients.give(i, gradient);
      case Hand::wrong_shape:
        return gradients.give(i, Tensor::empty(context, {7, 7}));
      case Hand::wrong_dtype:
        return gradients.give(i, Tensor::empty(context, gradient.shape(), DType::float64));
      case Hand::raise:
        throw NumericError("the probe was told to fail");
    }
  }

  ProbeOptions options_;
  Tensor saved_;
};

}  // namespace

Variable probe(std::string_view name, const std::vector<Variable>& inputs,
               const ProbeOptions& options) {
  const Tensor& first = inputs.front().value();
  const kernels::Kernels& kernels = kernels::kernels_for(first.context());
  const Tensor sum = Tensor::empty(first.context(), first.shape(), first.dtype());
  kernels.fill(0, sum);
  for (const Variable& input : inputs) kernels.axpby(1, input.value(), 1, sum);
  Tensor saved;
  if (options.save) {
    saved = Tensor::empty(first.context(), first.shape(), first.dtype());
    kernels.copy(sum, saved);
  }
  return record<ProbeNode>(sum, inputs, name, options, saved);
}

}  // namespace lockstep::autograd
