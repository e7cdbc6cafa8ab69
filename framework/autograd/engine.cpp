#include "framework/autograd/engine.h"

#include <fmt/format.h>

#include <unordered_map>

#include "framework/autograd/node.h"
#include "framework/device/recorder.h"
#include "framework/kernels/kernels.h"

namespace lockstep::autograd {

namespace {

std::string described(const Shape& shape, DType dtype) {
  return fmt::format("{} {}", base::name_of(dtype), base::to_string(shape));
}

// Nobody else can see the memory, and it has one place for every element.
bool may_overwrite(const Tensor& gradient) {
  return gradient.buffer().use_count() == 1 && gradient.is_contiguous();
}

UsageError already_consumed(const Node& node) {
  return UsageError(
      fmt::format("backward: the graph was already consumed by an earlier backward (at op '{}'); "
                  "run the forward again",
                  node.op()));
}

}  // namespace

// One backward pass.
class Engine final : private InputGradients {
 public:
  explicit Engine(const BackwardOptions& options) : options_(options) {}
  void run(const Variable& output);

 private:
  // A variable that gradients flow to: a leaf, or the output of a node.
  struct Target {
    Variable leaf;
    std::shared_ptr<Node> node;
    Tensor gradient;             // of the node's output, so far
    std::int64_t uses = 0;       // contributions that are still to come
    bool written = false;        // this backward has written the leaf's gradient
    std::int64_t announced = 0;  // leading elements of the leaf's gradient
  };

  static const void* identity(const Node::Edge& edge) {
    if (edge.producer) return edge.producer.get();
    return edge.leaf.state_.get();
  }
  void discover(const Node::Edge& root);
  std::size_t target_of(const Node::Edge& edge);
  void run_node(Target& target);
  void complete_use(Target& target);
  void announce(Target& target, std::int64_t end);

  // InputGradients of the node that runs.
  bool wanted(std::size_t i) const override { return inputs_.at(i).target != nullptr; }
  Node* sole_producer(std::size_t i) const override;
  GradientSlot slot(std::size_t i) override;
  void give(std::size_t i, const Tensor& gradient) override;
  void finished(std::size_t i, std::int64_t end) override;

  Target& begin_contribution(std::size_t i);
  GradientSlot leaf_slot(Target& target) const;
  static GradientSlot node_slot(Target& target);
  void add(Target& target, const Tensor& gradient) const;

  struct Input {
    Target* target = nullptr;  // null: wants no gradient
    bool contributed = false;
  };

  const BackwardOptions& options_;
  std::vector<Target> targets_;  // does not move once discover() is done
  std::unordered_map<const void*, std::size_t> index_;
  std::vector<std::size_t> order_;  // targets with a node, producers before consumers
  const Node* running_ = nullptr;
  std::vector<Input> inputs_;  // of the running node
};

std::size_t Engine::target_of(const Node::Edge& edge) {
  const auto [place, is_new] = index_.try_emplace(identity(edge), targets_.size());
  if (is_new) {
    if (edge.producer && edge.producer->consumed_) throw already_consumed(*edge.producer);
    targets_.emplace_back();
    targets_.back().leaf = edge.leaf;
    targets_.back().node = edge.producer;
  }
  return place->second;
}

// Finds every target and counts its uses. Depth first with inputs in order: the reverse of the
// order in which nodes are completed puts consumers before producers, and resembles the reverse of
// the forward. A pure function of the graph, so it is the same on every rank.
void Engine::discover(const Node::Edge& root) {
  struct Visit {
    std::size_t target;
    std::size_t next_input;
  };
  std::vector<Visit> path;
  const auto use = [&](const Node::Edge& edge) {
    const std::size_t known = targets_.size();
    const std::size_t target = target_of(edge);
    ++targets_[target].uses;
    if (target == known && edge.producer) path.push_back({target, 0});
  };
  use(root);
  while (!path.empty()) {
    Visit& visit = path.back();
    const Node& node = *targets_[visit.target].node;
    if (visit.next_input == node.inputs_.size()) {
      order_.push_back(visit.target);
      path.pop_back();
      continue;
    }
    const Node::Edge& input = node.inputs_[visit.next_input++];
    if (input.producer || (input.leaf.defined() && input.leaf.requires_grad())) use(input);
  }
}

void Engine::run(const Variable& output) {
  discover(output.is_leaf() ? Node::Edge{output, nullptr} : Node::Edge{{}, output.producer()});
  {
    const Tensor seed = Tensor::empty(output.context(), output.shape(), output.dtype());
    const kernels::Kernels& kernels = kernels::kernels_for(output.context());
    if (options_.seed_gradient.defined()) {
      kernels.copy(options_.seed_gradient.reshape(seed.shape()), seed);
    } else {
      kernels.fill(1, seed);
    }
    add(targets_.front(), seed);
  }
  complete_use(targets_.front());
  for (auto target = order_.rbegin(); target != order_.rend(); ++target)
    run_node(targets_[*target]);
}

void Engine::run_node(Target& target) {
  {
    const std::shared_ptr<Node> node = std::move(target.node);
    const Tensor gradient = std::exchange(target.gradient, Tensor());
    if (node->consumed_) throw already_consumed(*node);  // by a backward that a callback started
    node->consumed_ = true;

    inputs_.clear();
    for (const Node::Edge& edge : node->inputs_) {
      const auto found = index_.find(identity(edge));
      inputs_.push_back({found == index_.end() ? nullptr : &targets_[found->second]});
    }
    running_ = node.get();
    {
      const device::RecordedPart part(*node->context_, node->part(), node->op());
      node->backward(gradient, *this);
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].target != nullptr && !inputs_[i].contributed) {
        throw Error(fmt::format("backward of '{}' gave no gradient to input {}", node->op(), i));
      }
    }
    node->release();
    node->inputs_ = {};
  }  // the node and the incoming gradient end here, before anyone is told
  for (const Input& input : inputs_) {
    if (input.target != nullptr) complete_use(*input.target);
  }
}

void Engine::complete_use(Target& target) {
  if (--target.uses == 0 && target.leaf.defined()) announce(target, target.leaf.value().count());
}

void Engine::announce(Target& target, std::int64_t end) {
  // A leaf without elements is announced, too: once.
  const std::int64_t begin = std::exchange(target.announced, end);
  if ((begin < end || end == 0) && options_.on_gradient_ready)
    options_.on_gradient_ready(target.leaf, begin, end);
}

Engine::Target& Engine::begin_contribution(std::size_t i) {
  Input& input = inputs_.at(i);
  if (input.target == nullptr || input.contributed) {
    throw Error(fmt::format("backward of '{}' gave a gradient to input {} {}", running_->op(), i,
                            input.contributed ? "twice" : "that wants none"));
  }
  input.contributed = true;
  return *input.target;
}

Node* Engine::sole_producer(std::size_t i) const {
  const Target* const target = inputs_.at(i).target;
  const bool alone = target != nullptr && target->uses == 1 && !target->gradient.defined();
  return alone ? target->node.get() : nullptr;
}

GradientSlot Engine::slot(std::size_t i) {
  Target& target = begin_contribution(i);
  return target.leaf.defined() ? leaf_slot(target) : node_slot(target);
}

void Engine::give(std::size_t i, const Tensor& gradient) {
  Target& target = begin_contribution(i);
  const Shape& shape = target.leaf.defined() ? target.leaf.shape() : target.node->shape_;
  const DType dtype = target.leaf.defined() ? target.leaf.dtype() : target.node->dtype_;
  if (gradient.shape() != shape || gradient.dtype() != dtype) {
    throw Error(fmt::format("backward of '{}' gave input {} a gradient of {}, expected {}",
                            running_->op(), i, described(gradient.shape(), gradient.dtype()),
                            described(shape, dtype)));
  }
  add(target, gradient);
}

void Engine::finished(std::size_t i, std::int64_t end) {
  const Input& input = inputs_.at(i);
  if (input.target == nullptr || !input.contributed) {
    throw Error(fmt::format("backward of '{}' finished the gradient of input {}, which {}",
                            running_->op(), i,
                            input.target == nullptr ? "wants none" : "it has not begun"));
  }
  Target& target = *input.target;
  if (!target.leaf.defined() || target.uses > 1) return;  // others still add to it
  if (end <= target.announced || end > target.leaf.shape().count()) {
    throw Error(fmt::format(
        "backward of '{}' finished {} elements of the gradient of input {} after {} of {}",
        running_->op(), end, i, target.announced, target.leaf.shape().count()));
  }
  announce(target, end);
}

GradientSlot Engine::leaf_slot(Target& target) const {
  const bool first = !std::exchange(target.written, true);
  if (!target.leaf.grad().defined()) {
    const Tensor& value = target.leaf.value();
    target.leaf.set_grad(Tensor::empty(value.context(), value.shape(), value.dtype()));
    return {target.leaf.grad(), false};
  }
  return {target.leaf.grad(), !first || options_.accumulate};
}

GradientSlot Engine::node_slot(Target& target) {
  const Node& node = *target.node;
  if (target.gradient.defined() && may_overwrite(target.gradient)) return {target.gradient, true};
  const Tensor fresh = Tensor::empty(*node.context_, node.shape_, node.dtype_);
  const bool accumulate = target.gradient.defined();
  if (accumulate) kernels::kernels_for(*node.context_).copy(target.gradient, fresh);
  target.gradient = fresh;
  return {fresh, accumulate};
}

void Engine::add(Target& target, const Tensor& gradient) const {
  const kernels::Kernels& kernels = kernels::kernels_for(gradient.context());
  if (target.leaf.defined()) {
    const GradientSlot slot = leaf_slot(target);
    kernels.axpby(1.0, gradient, slot.accumulate ? 1.0 : 0.0, slot.tensor);
  } else if (!target.gradient.defined()) {
    target.gradient = gradient;
  } else if (may_overwrite(target.gradient)) {
    kernels.axpby(1.0, gradient, 1.0, target.gradient);
  } else {
    const Tensor sum = Tensor::empty(gradient.context(), gradient.shape(), gradient.dtype());
    kernels.binary(kernels::Binary::add, target.gradient, gradient, sum);
    target.gradient = sum;
  }
}

void backward(const Variable& output, const BackwardOptions& options) {
  if (output.value().count() != 1) {
    throw UsageError(
        fmt::format("backward: the output has shape {}, expected one element (reduce it with a "
                    "loss or with sum)",
                    base::to_string(output.shape())));
  }
  if (!output.requires_grad()) {
    throw UsageError(
        "backward: nothing to differentiate: the output depends on no variable that requires a "
        "gradient, or was computed while recording was off");
  }
  Engine(options).run(output);
}

}  // namespace lockstep::autograd
