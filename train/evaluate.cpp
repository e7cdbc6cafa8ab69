#include "train/evaluate.h"

#include "framework/autograd/no_grad.h"
#include "train/loss_counter.h"

namespace lockstep::train {

StepSummary evaluate(Context& context, nn::Module& model, data::Loader& loader,
                     SummaryExchange& exchange, Stream& stream) {
  const bool was_training = model.training();
  model.train(false);
  LossCounter counter(context);
  StepSummary local;
  loader.seek(0, 0);
  for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const data::Batch batch = loader.next();
    if (batch.rows == 0) continue;
    const autograd::NoGrad no_grad(context);
    const Variable logits = model(Variable(batch.features));
    counter.loss(logits, batch.labels);
  }
  counter.take(local);
  model.train(was_training);
  return exchange.exchange(local, stream);
}

}  // namespace lockstep::train
