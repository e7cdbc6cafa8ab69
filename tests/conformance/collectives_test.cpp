// Every collective, operation and type, over every backend, algorithm and world size.
#include <gtest/gtest.h>

#include "tests/conformance/backend.h"
#include "tests/conformance/tester.h"

namespace lockstep::tests {

namespace {

using comm::ReduceOp;

const std::int64_t large = many(
    300'007);  // floats: more than a chunk of every algorithm, and than the other counts' bytes
const std::int64_t larger = many((std::int64_t{1} << 20) + 3);

std::vector<std::int64_t> counts_for(int world) {
  return {0, 1, world - 1, world, world + 1, 7919};
}

class Collectives : public testing::TestWithParam<Form> {
 protected:
  // Runs `body` with data in both kinds of memory; the digests must agree over ranks and kinds.
  void run(std::size_t largest, const std::function<void(Tester&, comm::Communicator&)>& body) {
    if (const std::string reason = GetParam().backend->missing(GetParam().world); !reason.empty())
      GTEST_SKIP() << reason;
    std::vector<std::uint64_t> digests;
    for (const Memory memory : {Memory::addressable, Memory::foreign}) {
      const auto some = run_form(GetParam(), [&](Rank& rank) {
        const Place place = make_place(rank);
        const auto communicator = make_communicator(GetParam(), rank);
        Tester tester(*communicator, *place.stream, memory, largest, place.gpu.get());
        body(tester, *communicator);
        rank.set_digest(tester.digest());
      });
      digests.insert(digests.end(), some.begin(), some.end());
    }
    for (const std::uint64_t digest : digests) EXPECT_EQ(digest, digests.front());
  }

  // body(dtype, op) for each pair that the backend offers.
  static void for_each_reduction(const comm::Communicator& communicator,
                                 const std::function<void(DType, ReduceOp)>& body) {
    for (const DType dtype : communicator.capabilities().dtypes)
      for (const ReduceOp op : communicator.capabilities().ops)
        if (communicator.capabilities().reduces(dtype, op)) body(dtype, op);
  }
};

class AllReduce : public Collectives {};
class OtherCollectives : public Collectives {};

TEST_P(AllReduce, MatchesTheReferenceWithTheSameBitsEverywhere) {
  run(large * sizeof(float), [](Tester& tester, comm::Communicator& communicator) {
    for_each_reduction(communicator, [&](DType dtype, ReduceOp op) {
      for (const std::int64_t count : counts_for(communicator.size()))
        tester.all_reduce(dtype, op, count);
    });
    tester.all_reduce(DType::float32, ReduceOp::sum, large);
    tester.all_reduce(DType::bfloat16, ReduceOp::avg, large);
  });
}

TEST_P(OtherCollectives, AllReduceOfManyChunksMatchesTheReference) {
  run(larger * sizeof(float), [](Tester& tester, comm::Communicator&) {
    tester.all_reduce(DType::float32, ReduceOp::sum, larger);
  });
}

TEST_P(OtherCollectives, ReduceMatchesTheReference) {
  run(large * sizeof(float), [](Tester& tester, comm::Communicator& communicator) {
    int root = 0;
    for_each_reduction(communicator, [&](DType dtype, ReduceOp op) {
      for (const std::int64_t count : counts_for(communicator.size()))
        tester.reduce(dtype, op, count, root++ % communicator.size());
    });
    tester.reduce(DType::float32, ReduceOp::sum, large, communicator.size() - 1);
  });
}

TEST_P(OtherCollectives, ReduceScatterMatchesTheReference) {
  run(large * sizeof(float), [](Tester& tester, comm::Communicator& communicator) {
    for_each_reduction(communicator, [&](DType dtype, ReduceOp op) {
      for (const std::int64_t count : counts_for(communicator.size()))
        tester.reduce_scatter(dtype, op, count);
    });
    tester.reduce_scatter(DType::float32, ReduceOp::sum, large);
  });
}

TEST_P(OtherCollectives, MovedDataIsEqual) {
  run(large * sizeof(float), [](Tester& tester, comm::Communicator& communicator) {
    const int world = communicator.size();
    for (const DType dtype : communicator.capabilities().dtypes) {
      for (const std::int64_t count : counts_for(world)) {
        tester.all_gather(dtype, count);
        for (int root = 0; root < world; ++root) tester.broadcast(dtype, count, root);
        tester.all_to_all(dtype, count / world);
      }
    }
    tester.all_gather(DType::float32, large);
    tester.broadcast(DType::float32, large, world - 1);
    tester.all_to_all(DType::float32, large / world);
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, AllReduce,
                         testing::ValuesIn(quick(forms_of_worlds(all_worlds()))),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(SlowConformance, AllReduce,
                         testing::ValuesIn(slow(forms_of_worlds(all_worlds()))),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(Conformance, OtherCollectives,
                         testing::ValuesIn(quick(auto_forms_of_worlds(all_worlds()))),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(SlowConformance, OtherCollectives,
                         testing::ValuesIn(slow(auto_forms_of_worlds(all_worlds()))),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace

}  // namespace lockstep::tests
