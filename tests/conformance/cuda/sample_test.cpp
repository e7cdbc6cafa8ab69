// Every world size in every build: a sample of the calls that collectives_test.cpp makes, in which
// each collective gets each type. LOCKSTEP_EMULATION_SEED draws the algorithm, the kind of memory,
// operations, counts and roots, so that other commits try others; the slow tests try all of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/conformance/backend.h"
#include "tests/conformance/tester.h"

namespace lockstep::tests {

namespace {

using comm::ReduceOp;

const std::int64_t large = many(300'007);  // more than a chunk

std::uint64_t seed() {
  const char* const text = std::getenv("LOCKSTEP_EMULATION_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

// The same draws on every rank.
class Draw {
 public:
  explicit Draw(int world) : bits_(mix(seed()) + static_cast<std::uint64_t>(world)) {}
  std::size_t below(std::size_t count) { return bits_() % count; }
  template <class List>
  auto one_of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 bits_;
};

void call_all(Tester& tester, const comm::Communicator& communicator, Draw& draw) {
  const int world = communicator.size();
  const std::vector<std::int64_t> counts = {0, 1, world - 1, world, world + 1, 7919};
  const auto root = [&] { return static_cast<int>(draw.below(static_cast<std::size_t>(world))); };
  for (const DType dtype : communicator.capabilities().dtypes) {
    std::vector<ReduceOp> ops = communicator.capabilities().ops;
    std::erase_if(ops,
                  [&](ReduceOp op) { return !communicator.capabilities().reduces(dtype, op); });
    if (!ops.empty()) {
      tester.all_reduce(dtype, draw.one_of(ops), draw.one_of(counts));
      tester.reduce(dtype, draw.one_of(ops), draw.one_of(counts), root());
      tester.reduce_scatter(dtype, draw.one_of(ops), draw.one_of(counts));
    }
    tester.all_gather(dtype, draw.one_of(counts));
    tester.broadcast(dtype, draw.one_of(counts), root());
    tester.all_to_all(dtype, draw.one_of(counts) / world);
  }
  tester.all_reduce(DType::float32, draw.one_of(std::vector{ReduceOp::sum, ReduceOp::avg}), large);
}

class Sample : public testing::TestWithParam<Form> {};

TEST_P(Sample, OfAllCollectivesMatchesTheReference) {
  Form form = GetParam();
  if (const std::string reason = form.backend->missing(form.world); !reason.empty())
    GTEST_SKIP() << reason;
  Draw first(form.world);
  form.algorithm = first.one_of(form.backend->algorithms);
  const Memory memory = first.one_of(std::vector{Memory::addressable, Memory::foreign});
  SCOPED_TRACE(name_of(form));
  const auto digests = run_form(form, [&](Rank& rank) {
    const Place place = make_place(rank);
    const auto communicator = make_communicator(form, rank);
    Tester tester(*communicator, *place.stream, memory,
                  static_cast<std::size_t>(large) * sizeof(float), place.gpu.get());
    Draw draw = first;
    call_all(tester, *communicator, draw);
    rank.set_digest(tester.digest());
  });
  for (const std::uint64_t digest : digests) EXPECT_EQ(digest, digests.front());
}

INSTANTIATE_TEST_SUITE_P(Conformance, Sample, testing::ValuesIn(auto_forms_of_worlds(all_worlds())),
                         [](const auto& form) {
                           return form.param.backend->name + "_" + std::to_string(form.param.world);
                         });

}  // namespace

}  // namespace lockstep::tests
