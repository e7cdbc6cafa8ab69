#include "framework/autograd/node.h"

#include <algorithm>

#include "framework/device/recorder.h"

namespace lockstep::autograd {

Node::Node(std::string_view op, std::span<const Variable> inputs) : op_(op) {
  inputs_.reserve(inputs.size());
  for (const Variable& input : inputs) {
    if (!input.requires_grad()) {
      inputs_.emplace_back();
    } else if (input.is_leaf()) {
      inputs_.push_back({input, nullptr});
    } else {
      inputs_.push_back({{}, input.producer()});
    }
  }
}

// A chain of nodes that no backward consumed is taken apart here in a loop: destructors that call
// each other would overflow the stack on a long one.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> orphans;
  const auto disown_inputs = [&orphans](Node& node) {
    for (Edge& input : node.inputs_) {
      if (input.producer) orphans.push_back(std::move(input.producer));
    }
  };
  disown_inputs(*this);
  while (!orphans.empty()) {
    const std::shared_ptr<Node> node = std::move(orphans.back());
    orphans.pop_back();
    if (node.use_count() == 1) disown_inputs(*node);
  }
}

void Node::set_output(const Tensor& output) {
  context_ = &output.context();
  shape_ = output.shape();
  dtype_ = output.dtype();
  if (const device::Recorder* recorder = context_->recorder()) part_ = recorder->part();
}

bool must_record(std::span<const Variable> inputs) {
  return !inputs.empty() && inputs.front().context().recording() &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const Variable& input) { return input.requires_grad(); });
}

}  // namespace lockstep::autograd
