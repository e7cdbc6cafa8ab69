#include "tests/conformance/tester.h"

namespace lockstep::tests {

using comm::ReduceOp;
using comm::Slice;

namespace {

// check(element, found) for each element of `range`.
template <class Check>
void for_each_element(const GuardedMemory& memory, DType dtype, Slice range, Check&& check) {
  base::visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = reinterpret_cast<const T*>(memory.data());
    for (std::int64_t i = range.begin; i < range.end; ++i) check(i, data[i]);
  });
}

template <class T>
void check_moved(T found, std::uint64_t salt, int from, std::int64_t element) {
  const T expected = contribution<T>(salt, from, element);
  if (std::memcmp(&found, &expected, sizeof(T)) != 0)
    throw std::runtime_error(fmt::format("element {} of rank {}: found {}, expected {}", element,
                                         from, static_cast<double>(to_real(found)),
                                         static_cast<double>(to_real(expected))));
}

}  // namespace

Tester::Tester(comm::Communicator& communicator, Stream& stream, Memory memory, std::size_t largest,
               Context* gpu)
    : communicator_(communicator),
      stream_(stream),
      // The ring adds in float all the way, as do backends that pass floats.
      hops_(communicator.backend() == "ring" || communicator.capabilities().widens_16_bit
                ? 0
                : communicator.size()),
      gpu_(gpu) {
  const std::size_t bytes = largest + 2 * GuardedMemory::guard + 64;
  for (int which = 0; which < 2; ++which) {  // all_to_all needs two
    auto buffer = memory == Memory::addressable ? communicator.addressable_memory(bytes) : nullptr;
    if (buffer && !gpu_) {
      blocks_.push_back(buffer->local());
    } else {
      foreign_.emplace_back(bytes);
      blocks_.push_back(foreign_.back());
    }
    if (gpu_ && !buffer) private_.emplace_back(gpu_->allocator(), bytes);
    if (gpu_)
      gpu_blocks_.push_back(buffer ? buffer->local().data()
                                   : static_cast<std::byte*>(private_.back().data()));
    if (buffer) addressable_.push_back(std::move(buffer));
  }
}

comm::Range Tester::range_of(const GuardedMemory& memory, DType dtype, std::int64_t count,
                             std::size_t which) {
  if (!gpu_) return {memory.data(), count, dtype};
  gpu_->upload(gpu_blocks_[which], blocks_[which].data(), blocks_[which].size());
  stream_.wait(gpu_->compute_stream().record());
  return {gpu_blocks_[which] + (memory.data() - blocks_[which].data()), count, dtype};
}

void Tester::finish(const comm::Work& work) {
  work.wait();
  if (!gpu_) return;
  work.wait_on(gpu_->compute_stream());
  for (std::size_t which = 0; which < blocks_.size(); ++which)
    gpu_->download(blocks_[which].data(), gpu_blocks_[which], blocks_[which].size());
}

GuardedMemory Tester::filled(DType dtype, std::int64_t count, Slice own, std::size_t which) {
  const std::size_t element = base::size_of(dtype);
  const GuardedMemory memory(blocks_[which],
                             static_cast<std::size_t>(communicator_.rank() % 3) * element,
                             static_cast<std::size_t>(count) * element);
  base::visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = reinterpret_cast<T*>(memory.data());
    for (std::int64_t i = own.begin; i < own.end; ++i)
      data[i] = contribution<T>(salt_, communicator_.rank(), i);
  });
  return memory;
}

void Tester::add_to_digest(const GuardedMemory& memory, std::size_t bytes) {
  digest_ = base::hash64(std::span<const std::byte>(memory.data(), bytes), digest_);
}

void Tester::all_reduce(DType dtype, ReduceOp op, std::int64_t count) {
  ++salt_;
  const GuardedMemory memory = filled(dtype, count, {0, count});
  const comm::Range range = range_of(memory, dtype, count);
  finish(communicator_.all_reduce(range, op, stream_));
  memory.check_guards();
  for_each_element(memory, dtype, {0, count}, [&](std::int64_t i, auto found) {
    check_reduced(found, op, salt_, communicator_.size(), i, hops_);
  });
  add_to_digest(memory, range.bytes());
}

void Tester::reduce(DType dtype, ReduceOp op, std::int64_t count, int root) {
  ++salt_;
  const GuardedMemory memory = filled(dtype, count, {0, count});
  finish(communicator_.reduce(range_of(memory, dtype, count), op, root, stream_));
  memory.check_guards();
  if (communicator_.rank() != root) return;
  for_each_element(memory, dtype, {0, count}, [&](std::int64_t i, auto found) {
    check_reduced(found, op, salt_, communicator_.size(), i, hops_);
  });
}

void Tester::reduce_scatter(DType dtype, ReduceOp op, std::int64_t count) {
  ++salt_;
  const GuardedMemory memory = filled(dtype, count, {0, count});
  finish(communicator_.reduce_scatter(range_of(memory, dtype, count), op, stream_));
  memory.check_guards();
  for_each_element(memory, dtype, comm::slice_of(count, communicator_.rank(), communicator_.size()),
                   [&](std::int64_t i, auto found) {
                     check_reduced(found, op, salt_, communicator_.size(), i, hops_);
                   });
}

void Tester::all_gather(DType dtype, std::int64_t count) {
  ++salt_;
  const GuardedMemory memory =
      filled(dtype, count, comm::slice_of(count, communicator_.rank(), communicator_.size()));
  const comm::Range range = range_of(memory, dtype, count);
  finish(communicator_.all_gather(range, stream_));
  memory.check_guards();
  for (int r = 0; r < communicator_.size(); ++r)
    for_each_element(memory, dtype, comm::slice_of(count, r, communicator_.size()),
                     [&](std::int64_t i, auto found) { check_moved(found, salt_, r, i); });
  add_to_digest(memory, range.bytes());
}

void Tester::broadcast(DType dtype, std::int64_t count, int root) {
  ++salt_;
  const GuardedMemory memory = filled(dtype, count, {0, count});
  const comm::Range range = range_of(memory, dtype, count);
  finish(communicator_.broadcast(range, root, stream_));
  memory.check_guards();
  for_each_element(memory, dtype, {0, count},
                   [&](std::int64_t i, auto found) { check_moved(found, salt_, root, i); });
  add_to_digest(memory, range.bytes());
}

void Tester::all_to_all(DType dtype, std::int64_t slice_count) {
  ++salt_;
  const std::int64_t count = slice_count * communicator_.size();
  const GuardedMemory send = filled(dtype, count, {0, count}, 0);
  const GuardedMemory receive = filled(dtype, count, {0, 0}, 1);
  finish(communicator_.all_to_all(range_of(send, dtype, count, 0),
                                  range_of(receive, dtype, count, 1), stream_));
  send.check_guards();
  receive.check_guards();
  const std::int64_t mine = slice_count * communicator_.rank();
  for_each_element(send, dtype, {0, count}, [&](std::int64_t i, auto found) {
    check_moved(found, salt_, communicator_.rank(), i);
  });
  for_each_element(receive, dtype, {0, count}, [&](std::int64_t i, auto found) {
    check_moved(found, salt_, static_cast<int>(i / slice_count), mine + i % slice_count);
  });
}

}  // namespace lockstep::tests
