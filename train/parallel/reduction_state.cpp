#include "train/parallel/reduction_state.h"

#include <fmt/format.h>

#include "framework/kernels/kernels.h"

namespace lockstep::train {
namespace {

std::string shared_path(const std::string& name) {
  return "shared/" + name;
}

std::string rank_path(int rank, const std::string& name) {
  return fmt::format("rank{}/{}", rank, name);
}

// The hook's own memory, which it keeps.
Tensor view_of(const comm::Range& range, Context& context) {
  const Buffer memory(range.data, range.bytes(), nullptr);
  return Tensor::on_buffer(context, memory, 0, Shape{range.count}, range.dtype);
}

// The values of all ranks, one rank after the other.
Tensor gather(const comm::Range& own, comm::Communicator& communicator, Context& context,
              Stream& stream) {
  const auto ranks = static_cast<std::int64_t>(communicator.size());
  const Tensor all = Tensor::empty(context, Shape{ranks * own.count}, own.dtype);
  const std::int64_t begin = communicator.rank() * own.count;
  kernels::kernels_for(context).copy(view_of(own, context), all.slice(0, begin, begin + own.count));
  stream.wait(context.compute_stream().record());
  communicator.all_gather({all.data(), all.count(), all.dtype()}, stream).wait();
  return all;
}

}  // namespace

std::vector<SavedState> gather_reduction_state(comm::BucketReduction& reduction,
                                               comm::Communicator& communicator, Context& context,
                                               Stream& stream) {
  std::vector<SavedState> saved;
  for (const auto& [name, values, of_rank] : reduction.state()) {
    if (!of_rank) {
      saved.push_back({shared_path(name), view_of(values, context)});
      continue;
    }
    const Tensor all = gather(values, communicator, context, stream);
    for (int r = 0; r < communicator.size(); ++r)
      saved.push_back({rank_path(r, name), all.slice(0, r * values.count, (r + 1) * values.count)});
    if (communicator.rank() != 0) saved.clear();
  }
  if (communicator.rank() != 0) saved.clear();
  return saved;
}

void restore_reduction_state(comm::BucketReduction& reduction,
                             const comm::Communicator& communicator, Context& context, int ranks,
                             const ReadState& read) {
  const kernels::Kernels& kernels = kernels::kernels_for(context);
  for (const auto& [name, values, of_rank] : reduction.state()) {
    const Tensor own = view_of(values, context);
    if (!of_rank) {
      read(shared_path(name), own);
    } else if (ranks == communicator.size()) {
      read(rank_path(communicator.rank(), name), own);
    } else {
      const Tensor part = Tensor::empty(context, own.shape(), own.dtype());
      kernels.fill(0, own);
      for (int r = 0; r < ranks; ++r) {
        read(rank_path(r, name), part);
        kernels.axpby(1.0 / communicator.size(), part, 1, own);
      }
    }
  }
}

}  // namespace lockstep::train
