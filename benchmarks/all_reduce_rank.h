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
#include "framework/device/cpu/cpu_context.h"
#include "train/launch/launch.h"

namespace lockstep::benchmarks {

// By the launcher and by each rank, with the same result.
inline std::string backend_of(const Arguments& arguments) {
  return comm::choose_backend({.backend = arguments.backend,
                               .algorithm = arguments.algorithm,
                               .ranks_are_threads = arguments.launcher == "threads"})
      .name;
}

// `label` is used once in a run.
inline std::unique_ptr<comm::Communicator> make_communicator(
    const Arguments& arguments, const std::string& algorithm, const std::string& label,
    train::Worker& worker, comm::schedule::Recorder* recorder = nullptr) {
  constexpr std::chrono::seconds start_timeout(30);
  return comm::find_backend(backend_of(arguments))
      .make({.rank = worker.rank(),
             .size = worker.world_size(),
             .device = {},
             .store = worker.store(),
             .join = [&](const std::string& name, int rank,
                         int size) { return worker.join(label + name, rank, size, start_timeout); },
             .prefix = label,
             .interface = std::nullopt,
             .start_timeout = start_timeout},
            {.algorithm = algorithm,
             .check = arguments.agreement == "off" ? comm::AgreementCheck::off
                                                   : comm::AgreementCheck::every,
             .recorder = recorder});
}

class RankBench {
 public:
  RankBench(const Arguments& arguments, std::unique_ptr<comm::Communicator> communicator,
            std::size_t largest)
      : communicator_(std::move(communicator)),
        stream_(arguments.stream == "inline" ? device::make_inline_stream()
                                             : device::make_thread_stream("communication")),
        dtype_(base::dtype_from_name(arguments.type)),
        op_(op_from(arguments.op)) {
    if (!communicator_->capabilities().reduces(dtype_, op_))
      throw UsageError(fmt::format("backend {} does not offer {} of {}", communicator_->backend(),
                                   arguments.op, arguments.type));
    if (arguments.memory == "addressable") shared_ = communicator_->addressable_memory(largest);
    if (!shared_) foreign_.resize(largest);
    resize(largest);
  }

  comm::Communicator& communicator() { return *communicator_; }

  // The calls that follow are of so many bytes.
  void resize(std::size_t bytes) {
    data_ = {shared_ ? shared_->local().data() : foreign_.data(),
             static_cast<std::int64_t>(bytes / base::size_of(dtype_)), dtype_};
  }
  // Sums of zeros stay zeros, however often.
  void clear() { std::memset(data_.data, 0, data_.bytes()); }

  void reduce() { communicator_->all_reduce(data_, op_, *stream_).wait(); }
  void barrier() { communicator_->barrier(*stream_).wait(); }

  // Seconds of one of `calls` in a row, on the slowest rank.
  double time_round(int calls) {
    barrier();
    const auto start = device::Clock::now();
    for (int i = 0; i < calls; ++i) reduce();
    double seconds = seconds_since(start) / calls;
    communicator_->all_reduce(comm::range_of(std::span(&seconds, 1)), comm::ReduceOp::max, *stream_)
        .wait();
    return seconds;
  }

  // Reduces small whole numbers, whose sums are exact in any order and type, and counts, over all
  // ranks, the elements that are not what they must be.
  std::int64_t count_wrong() {
    std::int64_t wrong = base::visit_dtype(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return count_wrong_of<T>();
    });
    communicator_->all_reduce(comm::range_of(std::span(&wrong, 1)), comm::ReduceOp::sum, *stream_)
        .wait();
    return wrong;
  }

 private:
  static comm::ReduceOp op_from(const std::string& name) {
    for (const auto op :
         {comm::ReduceOp::avg, comm::ReduceOp::max, comm::ReduceOp::min, comm::ReduceOp::sum})
      if (comm::name_of(op) == name) return op;
    throw UsageError("no operation is called " + name);
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
    T* const data = static_cast<T*>(data_.data);
    const int rank = communicator_->rank();
    const auto from = [](int number) {
      if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(number);
      else
        return T(static_cast<float>(number));
    };
    for (std::int64_t i = 0; i < data_.count; ++i) data[i] = from(value(i, rank));
    reduce();
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

  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<Stream> stream_;
  DType dtype_;
  comm::ReduceOp op_;
  std::shared_ptr<comm::SymmetricBuffer> shared_;
  std::vector<std::byte> foreign_;
  comm::Range data_;
};

}  // namespace lockstep::benchmarks
