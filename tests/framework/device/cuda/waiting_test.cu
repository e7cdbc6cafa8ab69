// Waiting on a device: for another block, another stream, the host, and for too long.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "framework/device/cuda/device.cuh"
#include "framework/device/cuda/occupancy.h"
#include "tests/framework/device/cuda/device_fixture.h"

namespace lockstep::device {
namespace {

class Waiting : public OnDevice {
 protected:
  // A word that the host and the device share.
  std::uint32_t* shared_word() {
    buffers_.emplace_back(context_->host_memory(), sizeof(std::uint32_t));
    auto* const word = static_cast<std::uint32_t*>(buffers_.back().data());
    *word = 0;
    return word;
  }
};

constexpr std::uint64_t long_enough = 20'000'000'000;  // nanoseconds
constexpr std::uint64_t soon = 20'000'000;

__device__ SpinLimit within(std::uint64_t nanoseconds, const std::uint32_t* abort_word = nullptr) {
  return {abort_word, global_timer() + nanoseconds};
}

__device__ bool wait_for(const std::uint64_t* word, std::uint64_t value) {
  return spin_until(
             word, [=](std::uint64_t seen) { return seen >= value; }, within(long_enough)) ==
         SpinEnd::ready;
}

// Two blocks hand a buffer to and fro; each adds one to every element when it is its turn.
__global__ void pass_to_and_fro(float* buffer, std::uint64_t* turn, unsigned rounds) {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0 && !wait_for(turn, 2 * round + blockIdx.x)) __trap();
    __syncthreads();
    buffer[threadIdx.x] += 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) store_release(turn, 2 * round + blockIdx.x + 1);
  }
}

TEST_F(Waiting, BlocksTakeTurns) {
  constexpr unsigned rounds = 10;
  constexpr unsigned threads = 64;
  float* const buffer = zeros<float>(threads);
  std::uint64_t* const turn = zeros<std::uint64_t>(1);
  ASSERT_GE(coresident_blocks(stream(), pass_to_and_fro, threads), 2);
  launch(stream(), {2, threads}, pass_to_and_fro, buffer, turn, rounds);
  EXPECT_EQ(download(buffer, threads), std::vector<float>(threads, 2.0f * rounds));
}

__global__ void wait_for_word(const std::uint32_t* word, const std::uint32_t* abort_word,
                              std::uint64_t nanoseconds, SpinEnd* end) {
  *end = spin_until(
      word, [](std::uint32_t value) { return value == 5; }, within(nanoseconds, abort_word));
}

__global__ void set_word(std::uint32_t* word, std::uint32_t value) {
  store_release(word, value);
}

TEST_F(Waiting, ForAnotherStream) {
  SpinEnd* const end = upload(std::vector<SpinEnd>{SpinEnd::aborted});
  std::uint32_t* const word = zeros<std::uint32_t>(1);
  const std::unique_ptr<Stream> other = context_->make_stream("other");
  load_kernel(stream(), wait_for_word);
  load_kernel(stream(), set_word);
  launch(stream(), {1, 1}, wait_for_word, word, nullptr, long_enough, end);
  launch(cuda_stream(*other), {1, 1}, set_word, word, 5u);
  EXPECT_EQ(download(end, 1)[0], SpinEnd::ready);
}

TEST_F(Waiting, ForTheHost) {
  SpinEnd* const end = upload(std::vector<SpinEnd>{SpinEnd::aborted});
  std::uint32_t* const word = shared_word();
  launch(stream(), {1, 1}, wait_for_word, word, nullptr, long_enough, end);
  std::atomic_ref(*word).store(5, std::memory_order_release);
  EXPECT_EQ(download(end, 1)[0], SpinEnd::ready);
}

TEST_F(Waiting, EndsWhenAborted) {
  SpinEnd* const end = upload(std::vector<SpinEnd>{SpinEnd::ready});
  const std::uint32_t* const word = zeros<std::uint32_t>(1);
  std::uint32_t* const abort_word = shared_word();
  launch(stream(), {1, 1}, wait_for_word, word, abort_word, long_enough, end);
  std::atomic_ref(*abort_word).store(1, std::memory_order_relaxed);
  EXPECT_EQ(download(end, 1)[0], SpinEnd::aborted);
}

TEST_F(Waiting, EndsAtTheDeadline) {
  SpinEnd* const end = upload(std::vector<SpinEnd>{SpinEnd::ready});
  const std::uint32_t* const word = zeros<std::uint32_t>(1);
  launch(stream(), {1, 1}, wait_for_word, word, nullptr, soon, end);
  EXPECT_EQ(download(end, 1)[0], SpinEnd::timed_out);
}

TEST_F(Waiting, TakesAReadyWordInAnyCase) {
  SpinEnd* const end = upload(std::vector<SpinEnd>{SpinEnd::aborted});
  const std::uint32_t* const word = upload(std::vector<std::uint32_t>{5});
  std::uint32_t* const abort_word = shared_word();
  *abort_word = 1;
  launch(stream(), {1, 1}, wait_for_word, word, abort_word, std::uint64_t{0}, end);
  EXPECT_EQ(download(end, 1)[0], SpinEnd::ready);
}

// Data and flag in one word need no order beside them.
__global__ void send_pair(WordPair* slot, std::uint64_t low, std::uint64_t high) {
  store_relaxed_pair(slot, {low, high});
}

__global__ void receive_pair(const WordPair* slot, std::uint64_t* out) {
  const auto is_there = [](std::uint64_t word) { return word != 0; };
  WordPair pair = load_relaxed_pair(slot);
  while (!is_there(pair.low) || !is_there(pair.high)) {
    const std::uint64_t* const missing = is_there(pair.low) ? &slot->high : &slot->low;
    if (spin_until(missing, is_there, within(long_enough)) != SpinEnd::ready) return;
    pair = load_relaxed_pair(slot);
  }
  out[0] = pair.low;
  out[1] = pair.high;
}

TEST_F(Waiting, ForAPairOfWords) {
  auto* const slot = reinterpret_cast<WordPair*>(zeros<std::uint64_t>(2));
  std::uint64_t* const out = zeros<std::uint64_t>(2);
  const std::unique_ptr<Stream> other = context_->make_stream("other");
  load_kernel(stream(), receive_pair);
  load_kernel(stream(), send_pair);
  launch(stream(), {1, 1}, receive_pair, slot, out);
  launch(cuda_stream(*other), {1, 1}, send_pair, slot, 11u, 12u);
  EXPECT_EQ(download(out, 2), (std::vector<std::uint64_t>{11, 12}));
}

__global__ void sleep_for(unsigned nanoseconds, std::uint64_t* took) {
  const std::uint64_t start = global_timer();
  __nanosleep(nanoseconds);
  *took = global_timer() - start;
}

TEST_F(Waiting, Sleeping) {
  std::uint64_t* const took = zeros<std::uint64_t>(1);
  launch(stream(), {1, 1}, sleep_for, 100'000u, took);
  EXPECT_LT(download(took, 1)[0], 1'000'000'000u);
}

}  // namespace
}  // namespace lockstep::device
