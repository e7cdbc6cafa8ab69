#include "train/evaluate.h"

#include "framework/autograd/no_grad.h"
#include "framework/kernels/kernels.h"
#include "framework/ops/cross_entropy.h"

namespace lockstep::train {

StepSummary evaluate(nn::Module& model, data::Loader& loader, SummaryExchange& exchange,
                     Stream& stream) {
  const bool was_training = model.training();
  model.train(false);
  StepSummary local;
  loader.seek(0, 0);
  const std::int64_t ignore_index = ops::CrossEntropyOptions{}.ignore_index;
  for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const data::Batch batch = loader.next();
    if (batch.rows == 0) continue;
    Context& context = batch.features.context();
    const autograd::NoGrad no_grad(context);
    const Variable logits = model(Variable(batch.features));
    const auto loss = ops::cross_entropy(logits, batch.labels);
    local.loss_sum += loss.sum;
    local.targets += static_cast<double>(loss.count);
    local.correct += static_cast<double>(
        kernels::kernels_for(context).count_correct(logits.value(), batch.labels, ignore_index));
  }
  model.train(was_training);
  return exchange.exchange(local, stream);
}

}  // namespace lockstep::train
