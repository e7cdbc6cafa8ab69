// Exact evaluation: every sample of a split counts once, whatever the number of workers.
#pragma once

#include "data/loader.h"
#include "framework/nn/module.h"
#include "train/parallel/step_summary.h"

namespace lockstep::train {

// Collective. Runs `model` over the loader's split in evaluation mode, each rank its shard of each
// batch; sums over all ranks come back on every rank.
StepSummary evaluate(Context& context, nn::Module& model, data::Loader& loader,
                     SummaryExchange& exchange, Stream& stream);

}  // namespace lockstep::train
