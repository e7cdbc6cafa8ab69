#include "train/micro_batches.h"

namespace lockstep::train {

void MicroBatches::run(const data::Batch& batch, std::int64_t step) {
  for (std::int64_t part = 0; part < parts_; ++part) {
    const data::RowRange rows =
        data::shard(batch.rows, static_cast<int>(part), static_cast<int>(parts_));
    if (rows.size() == 0) {
      replica_.backward(Variable());
      continue;
    }
    context_.random() = {seed_, static_cast<std::uint64_t>(step), batch.first_row + rows.begin};
    replica_.backward(forward(batch, rows));
  }
}

// The loss of the rows.
Variable MicroBatches::forward(const data::Batch& batch, data::RowRange rows) {
  const Timeline::Span span(replica_.timeline(), Activity::forward);
  const Tensor labels = batch.labels.slice(0, rows.begin, rows.end);
  const Variable logits = replica_.model()(Variable(batch.features.slice(0, rows.begin, rows.end)));
  return counter_.loss(logits, labels, 1 / static_cast<double>(batch.global_rows), loss_options_);
}

}  // namespace lockstep::train
