// The operations together: the step of a small multi-layer perceptron.
#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

class TrainingStep : public OpsTest {
 protected:
  struct Layer {
    Variable weight, bias;
  };

  TrainingStep() {
    const std::int64_t extents[] = {6, 8, 5, 3};
    for (int i = 0; i < 3; ++i) {
      const std::string name = "layer" + std::to_string(i);
      layers.push_back({Variable(random.uniform({extents[i + 1], extents[i]}), true, name + ".w"),
                        Variable(random.uniform({extents[i + 1]}), true, name + ".b")});
    }
  }

  Variable loss(const Tensor& rows, const Tensor& labels) {
    Variable h(rows);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool last = i + 1 == layers.size();
      h = linear(h, layers[i].weight, layers[i].bias, last ? Activation::none : Activation::relu);
    }
    return cross_entropy(h, labels, 0.25).loss_sum;
  }

  Tensor targets = Tensor::from(context, {std::int64_t{0}, std::int64_t{2}, std::int64_t{1}}, {3});
  Tensor x = random.uniform({3, 6});
  std::vector<Layer> layers;
};

TEST_F(TrainingStep, GradientsBecomeFinalFromTheLastLayerToTheFirst) {
  std::vector<std::string> ready;
  autograd::BackwardOptions options;
  options.on_gradient_ready = [&](const Variable& leaf, std::int64_t, std::int64_t) {
    ready.push_back(leaf.name());
  };
  autograd::backward(loss(x, targets), options);
  EXPECT_THAT(ready, testing::ElementsAre("layer2.b", "layer2.w", "layer1.b", "layer1.w",
                                          "layer0.b", "layer0.w"));
}

TEST_F(TrainingStep, ASteadyStepAsksTheSourceForNothing) {
  for (int i = 0; i < 2; ++i) autograd::backward(loss(x, targets));
  const auto warm = context.allocator().statistics();
  for (int i = 0; i < 10; ++i) autograd::backward(loss(x, targets));
  const auto steady = context.allocator().statistics();
  EXPECT_GT(steady.requests, warm.requests);
  EXPECT_EQ(steady.source_requests, warm.source_requests);
  EXPECT_EQ(steady.bytes_in_use, warm.bytes_in_use);
}

// The loss is a sum over rows scaled by the global count, so shards add up to the whole batch.
TEST_F(TrainingStep, ShardsAccumulateToTheWholeBatch) {
  autograd::backward(loss(x, targets));
  std::vector<std::vector<double>> whole;
  for (const Layer& layer : layers) whole.push_back(values(layer.weight.grad()));
  autograd::BackwardOptions options;
  for (const auto& [begin, end] : {std::pair{0, 2}, {2, 2}, {2, 3}}) {
    autograd::backward(loss(x.slice(0, begin, end), targets.slice(0, begin, end)), options);
    options.accumulate = true;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_THAT(values(layers[i].weight.grad()),
                testing::Pointwise(testing::DoubleNear(1e-12), whole[i]));
  }
}

TEST_F(TrainingStep, DescendingTheGradientLowersTheLoss) {
  double before = 0;
  for (int step = 0; step < 50; ++step) {
    const Variable value = loss(x, targets);
    if (step == 0) before = value.value().item<double>();
    autograd::backward(value);
    for (const Layer& layer : layers) {
      for (const Variable& parameter : {layer.weight, layer.bias}) {
        const auto gradients = parameter.grad().elements<double>();
        const auto elements = parameter.value().elements<double>();
        for (std::size_t i = 0; i < elements.size(); ++i) elements[i] -= 0.1 * gradients[i];
      }
    }
  }
  EXPECT_LT(loss(x, targets).value().item<double>(), 0.1 * before);
}

}  // namespace
}  // namespace lockstep::ops
