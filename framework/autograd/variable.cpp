#include "framework/autograd/variable.h"

#include <fmt/format.h>

#include <utility>

#include "framework/autograd/node.h"

namespace lockstep::autograd {

struct Variable::State {
  Tensor value;
  Tensor grad;
  Tensor working_copy;
  std::shared_ptr<Node> producer;  // null for a leaf
  std::function<void()> arrival;   // of a leaf's contents; empty when they are here
  std::string name;
  bool requires_grad = false;
};

namespace {

std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", base::name_of(tensor.dtype()), base::to_string(tensor.shape()));
}

void require_same_kind(const char* what, const std::string& name, const Tensor& value,
                       const Tensor& other) {
  if (!other.defined() || other.shape() != value.shape() || other.dtype() != value.dtype()) {
    throw UsageError(fmt::format("{} of '{}': got {}, expected {}", what, name,
                                 other.defined() ? described(other) : "an undefined tensor",
                                 described(value)));
  }
}

void require_differentiable(const std::string& name, const Tensor& value) {
  if (!base::is_floating(value.dtype())) {
    throw UsageError(
        fmt::format("variable '{}' of dtype {} cannot require a gradient: expected a "
                    "floating point type",
                    name, base::name_of(value.dtype())));
  }
}

}  // namespace

Variable::Variable(Tensor value, bool requires_grad, std::string name)
    : state_(std::make_shared<State>()) {
  if (!value.defined()) throw UsageError("Variable: the value is an undefined tensor");
  if (requires_grad) require_differentiable(name, value);
  state_->value = std::move(value);
  state_->name = std::move(name);
  state_->requires_grad = requires_grad;
}

Variable::State& Variable::state() const {
  if (!state_) throw UsageError("use of an undefined Variable");
  return *state_;
}

Variable::State& Variable::leaf_state(const char* what) const {
  State& leaf = state();
  if (leaf.producer) {
    throw UsageError(fmt::format("{}: expected a leaf, this variable is the result of '{}'", what,
                                 leaf.producer->op()));
  }
  return leaf;
}

const Tensor& Variable::value() const {
  State& variable = state();
  if (variable.arrival) std::exchange(variable.arrival, nullptr)();
  return variable.value;
}
const Shape& Variable::shape() const {
  return state().value.shape();
}
DType Variable::dtype() const {
  return state().value.dtype();
}
Context& Variable::context() const {
  return state().value.context();
}
bool Variable::requires_grad() const {
  return state().requires_grad;
}
bool Variable::is_leaf() const {
  return state().producer == nullptr;
}
const std::string& Variable::name() const {
  return state().name;
}
const std::shared_ptr<Node>& Variable::producer() const {
  return state().producer;
}

const Tensor& Variable::grad() const {
  return leaf_state("grad").grad;
}

void Variable::set_grad(Tensor grad) {
  State& leaf = leaf_state("set_grad");
  if (grad.defined()) {
    require_same_kind("gradient", leaf.name, leaf.value, grad);
    if (!grad.is_contiguous()) {
      throw UsageError(fmt::format("gradient of '{}': expected contiguous memory", leaf.name));
    }
  }
  leaf.grad = std::move(grad);
}

void Variable::set_value(Tensor value) {
  State& leaf = leaf_state("set_value");
  require_same_kind("value", leaf.name, leaf.value, value);
  leaf.value = std::move(value);
}

const Tensor& Variable::working_copy() const {
  return state().working_copy;
}

void Variable::set_working_copy(Tensor copy) {
  Variable::State& leaf = leaf_state("set_working_copy");
  if (copy.defined() && (copy.dtype() != DType::bfloat16 || copy.shape() != leaf.value.shape() ||
                         !copy.is_contiguous()))
    throw UsageError(fmt::format("working copy of '{}': got {}, expected contiguous bfloat16 {}",
                                 leaf.name, described(copy), base::to_string(leaf.value.shape())));
  leaf.working_copy = std::move(copy);
}

void Variable::set_arrival(std::function<void()> arrive) {
  leaf_state("set_arrival").arrival = std::move(arrive);
}

void Variable::set_requires_grad(bool requires_grad) {
  State& leaf = leaf_state("set_requires_grad");
  if (requires_grad) require_differentiable(leaf.name, leaf.value);
  leaf.requires_grad = requires_grad;
}

Variable Variable::detach() const {
  return Variable(value(), false, name());
}

Variable Variable::result_of(std::shared_ptr<Node> node, Tensor value) {
  node->set_output(value);
  Variable result(std::move(value), true);
  result.state_->producer = std::move(node);
  return result;
}

}  // namespace lockstep::autograd
