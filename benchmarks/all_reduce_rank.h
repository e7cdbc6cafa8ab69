// One rank of all_reduce: its communicator, its data, and the timing of calls on it.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/all_reduce_options.h"
#include "benchmarks/bench.h"
#include "framework/base/units.h"
#include "framework/device/buffer.h"
#include "framework/device/cpu/cpu_context.h"
#include "train/launch/launch.h"

namespace lockstep::benchmarks {

class RankBench {
 public:
  // `gpu`: the rank's, nullptr for the CPU; it outlives this object.
  RankBench(const Arguments& arguments, std::unique_ptr<comm::Communicator> communicator,
            Context* gpu, std::size_t largest)
      : gpu_(gpu),
        communicator_(std::move(communicator)),
        stream_(gpu                            ? gpu->make_stream("communication")
                : arguments.stream == "inline" ? device::make_inline_stream()
                                               : device::make_thread_stream("communication")),
        dtype_(base::dtype_from_name(arguments.type)),
        op_(op_from(arguments.op)) {
    if (!communicator_->capabilities().reduces(dtype_, op_))
      throw ConfigError(fmt::format("backend {} does not offer {} of {}", communicator_->backend(),
                                    arguments.op, arguments.type));
    if (arguments.memory == "addressable") shared_ = communicator_->addressable_memory(largest);
    if (!shared_ || gpu_) foreign_.resize(largest);
    if (!shared_ && gpu_) of_gpu_ = Buffer(gpu_->allocator(), largest);
    if (gpu_) scalar_ = Buffer(gpu_->allocator(), sizeof(double));
    resize(largest);
  }

  comm::Communicator& communicator() { return *communicator_; }

  // The calls that follow are of so many bytes.
  void resize(std::size_t bytes) {
    void* const data = shared_          ? shared_->local().data()
                       : of_gpu_.data() ? of_gpu_.data()
                                        : static_cast<void*>(foreign_.data());
    data_ = {data, static_cast<std::int64_t>(bytes / base::size_of(dtype_)), dtype_};
  }
  // Sums of zeros stay zeros, however often.
  void clear() {
    std::memset(host_data(), 0, data_.bytes());
    to_gpu(data_.data, host_data(), data_.bytes());
  }

  comm::Work start() { return communicator_->all_reduce(data_, op_, *stream_); }
  void reduce() { start().wait(); }
  void barrier() { communicator_->barrier(*stream_).wait(); }

  // Seconds of one of `calls` in a row, on the slowest rank.
  double time_round(int calls) {
    barrier();
    const auto start = device::Clock::now();
    if (gpu_) {
      comm::Work last;  // the host waits for none but the last
      for (int i = 0; i < calls; ++i) last = this->start();
      last.wait();
    } else {
      for (int i = 0; i < calls; ++i) reduce();
    }
    return reduced(seconds_since(start) / calls, comm::ReduceOp::max);
  }

  // Reduces small whole numbers, whose sums are exact in any order and type, and counts, over all
  // ranks, the elements that are not what they must be.
  std::int64_t count_wrong() {
    const std::int64_t wrong = base::visit_dtype(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return count_wrong_of<T>();
    });
    return reduced(wrong, comm::ReduceOp::sum);
  }

 private:
  static comm::ReduceOp op_from(const std::string& name) {
    for (const auto op :
         {comm::ReduceOp::avg, comm::ReduceOp::max, comm::ReduceOp::min, comm::ReduceOp::sum})
      if (comm::name_of(op) == name) return op;
    throw UsageError("no operation is called " + name);
  }

  // Where the host reads and writes the data: on a GPU a copy.
  std::byte* host_data() { return gpu_ ? foreign_.data() : static_cast<std::byte*>(data_.data); }
  void to_gpu(void* to, const void* from, std::size_t bytes) {
    if (!gpu_) return;
    gpu_->upload(to, from, bytes);
    stream_->wait(gpu_->compute_stream().record());
  }
  // One number, over all ranks.
  template <class T>
  T reduced(T value, comm::ReduceOp op) {
    if (!gpu_) {
      communicator_->all_reduce(comm::range_of(std::span(&value, 1)), op, *stream_).wait();
      return value;
    }
    to_gpu(scalar_.data(), &value, sizeof(T));
    communicator_->all_reduce({scalar_.data(), 1, base::dtype_of<T>()}, op, *stream_).wait();
    gpu_->download(&value, scalar_.data(), sizeof(T));
    return value;
  }

  // Sums of all ranks stay within the 256 that bfloat16 and uint8 count exactly.
  int value(std::int64_t i, int rank) const {
    const int values = std::min(64, 255 / communicator_->size() + 1);
    return static_cast<int>((i + rank) % values);
  }

  double expected(std::int64_t i) const {
    const int size = communicator_->size();
    int sum = 0, most = value(i, 0), least = most;
    for (int r = 0; r < size; ++r) {
      sum += value(i, r);
      most = std::max(most, value(i, r));
      least = std::min(least, value(i, r));
    }
    if (op_ == comm::ReduceOp::avg) return static_cast<double>(sum) / size;
    return op_ == comm::ReduceOp::sum ? sum : op_ == comm::ReduceOp::max ? most : least;
  }

  template <class T>
  std::int64_t count_wrong_of() {
    T* const data = reinterpret_cast<T*>(host_data());
    const int rank = communicator_->rank();
    const auto from = [](int number) {
      if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(number);
      else
        return T(static_cast<float>(number));
    };
    for (std::int64_t i = 0; i < data_.count; ++i) data[i] = from(value(i, rank));
    to_gpu(data_.data, data, data_.bytes());
    reduce();
    if (gpu_) gpu_->download(data, data_.data, data_.bytes());
    // An average is rounded, once.
    const double bits = dtype_ == DType::bfloat16 ? 8 : dtype_ == DType::float16 ? 11 : 24;
    const double bound = op_ == comm::ReduceOp::avg ? 255 * std::exp2(-bits) : 0;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < data_.count; ++i) {
      double found = 0;
      if constexpr (std::is_arithmetic_v<T>)
        found = static_cast<double>(data[i]);
      else
        found = static_cast<double>(static_cast<float>(data[i]));
      wrong += !(std::abs(found - expected(i)) <= bound);
    }
    return wrong;
  }

  Context* gpu_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<Stream> stream_;
  DType dtype_;
  comm::ReduceOp op_;
  std::shared_ptr<comm::SymmetricBuffer> shared_;
  std::vector<std::byte> foreign_;  // of the host
  Buffer of_gpu_, scalar_;
  comm::Range data_;
};

}  // namespace lockstep::benchmarks
