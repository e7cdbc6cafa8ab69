#include "train/deferred_steps.h"

#include <algorithm>
#include <utility>

#include "framework/kernels/kernels.h"
#include "framework/kernels/noted_error.h"
#include "train/parallel/tensor_range.h"
#include "train/timeline/interval.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t summary_size = 6;
constexpr std::int64_t counted = 3;  // of it: what is counted on the device

Interval interval_of(const comm::Work& work) {
  const auto times = work.times();
  return {times.start, times.end};
}

std::vector<Interval> travels_of(std::span<const comm::Work> works) {
  std::vector<Interval> travels;
  for (const comm::Work& work : works) travels.push_back(interval_of(work));
  unite(travels);
  return travels;
}

// Where the compute stream stood still; see Replica::waits().
std::vector<Interval> stalls_of(std::span<const comm::Work> waits) {
  std::vector<Interval> stalls;
  for (std::size_t w = 0; w + 1 < waits.size(); w += 2) {
    const Interval stall{waits[w].times().start, waits[w + 1].times().end};
    if (stall.begin != device::Clock::time_point() && stall.begin < stall.end)
      stalls.push_back(stall);
  }
  unite(stalls);
  return stalls;
}

}  // namespace

DeferredSteps::Slot::Slot(Context& context)
    : summary(context, summary_size),
      spoilt(context, 1),
      noted(context, kernels::NotedError::words) {}

DeferredSteps::DeferredSteps(Context& context, Replica& replica, LossCounter& counter,
                             MicroBatches& micro_batches, const GraphOptions& graph, const Log& log)
    : context_(context),
      replica_(replica),
      counter_(counter),
      micro_batches_(micro_batches),
      summary_(Tensor::empty(context, {summary_size}, DType::float64)),
      noted_(kernels::kernels_for(context).noted_error(context)),
      slots_{Slot(context), Slot(context)},
      graph_(context, replica.communication_stream(), graph, log) {}

void DeferredSteps::enqueue(const Start& start, const data::Batch& batch) {
  const auto begin = device::Clock::now();
  step_ = start.step;
  begin_update(start);
  prepare(start);
  const bool traced = replica_.timeline().tracing();
  bool is_first = true;
  std::vector<comm::Work> works = graph_.run(batch, traced, [&](const data::Batch& inputs) {
    if (!std::exchange(is_first, false)) begin_update(start);
    return enqueue_calls(inputs);
  });
  const std::size_t slot = std::exchange(next_slot_, 1 - next_slot_);
  copy_results(slot);
  pending_.push_back({.start = start,
                      .copied = context_.compute_stream().record(),
                      .slot = slot,
                      .works = std::move(works),
                      .travels = travels_,
                      .parts = traced ? StepParts() : replica_.timeline().end_step({}),
                      .begin = begin,
                      .reduced_bytes = reduced_bytes_,
                      .sent_bytes = sent_bytes_,
                      .traced = traced});
}

void DeferredSteps::begin_update(const Start& start) {
  replica_.begin_update(start.step, micro_batches_.parts(), /*average=*/true,
                        start.loss_scale.value);
}

// What changes from step to step goes to memory of the device, before what reads it there.
void DeferredSteps::prepare(const Start& start) {
  const kernels::Kernels& kernels = kernels::kernels_for(context_);
  const std::array of_host{start.stop_requests, start.data_wait_seconds, 1.0};
  kernels.store(std::as_bytes(std::span(of_host)), summary_.slice(0, counted, summary_size));
  kernels.set_random_step(context_, static_cast<std::uint64_t>(start.step));
  replica_.prepare_update(start.lr, 1 / start.loss_scale.value);
}

// What may be captured: nothing in it waits or depends on the step but through memory.
std::vector<comm::Work> DeferredSteps::enqueue_calls(const data::Batch& batch) {
  Stream& compute = context_.compute_stream();
  Stream& communication = replica_.communication_stream();
  micro_batches_.run(batch, step_);
  replica_.finish_backward();
  replica_.buffers().start(batch.rows, batch.global_rows, communication);
  counter_.take_into(summary_.slice(0, 0, counted));
  if (&communication != &compute) communication.wait(compute.record());
  const comm::Work summary =
      replica_.communicator().all_reduce(range_of(summary_), comm::ReduceOp::sum, communication);
  // In all steps of a run that may be captured: an arrival that a step before left behind would be
  // waited for inside the capture.
  const auto gathers = replica_.enqueue_update(/*parameters_arrive=*/graph_.may_capture());
  summary.wait_on(compute);
  replica_.buffers().end();
  reduced_bytes_ = replica_.averager().bytes_this_step();
  sent_bytes_ = replica_.sent_bytes();
  std::vector<comm::Work> works = replica_.averager().works();
  works.insert(works.end(), gathers.begin(), gathers.end());
  travels_ = works.size();
  works.insert(works.end(), replica_.waits().begin(), replica_.waits().end());
  works.push_back(summary);
  return works;
}

void DeferredSteps::copy_results(std::size_t index) {
  Slot& slot = slots_[index];
  Stream& compute = context_.compute_stream();
  const auto copy = [&](const comm::Range& to, const Tensor& from) {
    context_.copy(to.data, from.data(), from.bytes(), compute);
  };
  copy(slot.summary.range(), summary_);
  copy(slot.spoilt.range(), replica_.spoilt());
  copy(slot.noted.range(), noted_);
}

DeferredSteps::Result DeferredSteps::read() {
  Pending step = std::move(pending_.front());
  pending_.pop_front();
  step.copied.wait();
  Slot& slot = slots_[step.slot];
  // Throws what any collective of the communicator has failed with so far. Those that bring
  // parameters may be on their way still, and are seen at the next read.
  if (!is_complete(slot)) step.works.back().wait();
  kernels::throw_noted(slot.noted.values());
  const auto now = device::Clock::now();
  const std::size_t buckets = replica_.averager().plan().buckets.size();
  if (step.traced) {
    replica_.timeline().travelled(std::span(step.works).first(step.travels).subspan(buckets));
    step.parts = replica_.end_step(step.works.back());
  }
  const StepSummary total{slot.summary[0], slot.summary[1], slot.summary[2], slot.summary[3],
                          slot.summary[4]};
  Result result{
      .start = step.start,
      .is_finite = slot.spoilt[0] == 0,
      .record = {.epoch = step.start.epoch + 1,
                 .step = step.start.step,
                 .summary = total,
                 .lr = step.start.lr,
                 .parts = parts_of(step, now),
                 .data_wait_seconds = total.data_wait_seconds / replica_.communicator().size(),
                 .reduced_bytes = step.reduced_bytes,
                 .sent_bytes = step.sent_bytes},
      .buckets = std::move(step.works)};
  result.buckets.resize(buckets);
  last_read_ = now;
  return result;
}

// Its last collective has added up a one of every rank, and nothing was raised before.
bool DeferredSteps::is_complete(Slot& slot) const {
  return slot.summary[summary_size - 1] == replica_.communicator().size() && slot.spoilt[0] == 0;
}

// Steps follow each other on the GPU, so one takes the time from result to result. Communication is
// exposed where something travelled while the compute stream waited for it; on the compute stream
// itself nothing ever is hidden. The host's wait for data counts as far as the GPU can have waited
// too.
StepParts DeferredSteps::parts_of(const Pending& step, device::Clock::time_point end) {
  const auto works = std::span(step.works).first(step.works.size() - 1);
  const auto waits = works.subspan(step.travels);
  const std::vector<Interval> travels = travels_of(works.first(step.travels));
  StepParts parts;
  parts.step = seconds({std::max(step.begin, last_read_), end});
  parts.communication = std::min(total(travels), parts.step);
  const bool overlaps = &replica_.communication_stream() != &context_.compute_stream();
  parts.exposed = parts.communication;
  if (overlaps) parts.exposed = std::min(intersection(travels, stalls_of(waits)), parts.exposed);
  parts.data_wait = std::min(step.parts.data_wait, parts.step - parts.exposed);
  parts.compute = parts.step - parts.exposed - parts.data_wait;
  return parts;
}

void DeferredSteps::undo(const Start& read) {
  replica_.undo_updates(read.step, step_ - read.step + 1);
}

std::vector<StepRecord> DeferredSteps::finish() {
  std::vector<StepRecord> records;
  try {
    while (!pending_.empty()) {
      const Result result = read();
      if (!result.is_finite) break;
      records.push_back(result.record);
    }
  } catch (const Error&) {  // where they end; why is known
  }
  return records;
}

void DeferredSteps::discard() {
  for (const Pending& step : pending_) step.copied.wait();
  pending_.clear();
}

}  // namespace lockstep::train
