// The backends that the conformance suite is run over: all in the table of comm/backend.h that can
// serve ranks on the CPU of this machine (backend.cpp), or those between GPUs, in a program of
// its own (cuda/backend.cpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "framework/device/context.h"
#include "tests/support/local_ranks.h"

namespace lockstep::tests {

// Where the communicator of a rank is made; the rank outlives it.
comm::BackendPlace place_of(Rank& rank, std::optional<std::string> interface = std::nullopt);

struct Backend {
  std::string name;  // also of test cases: "ring_threads"
  RankKind kind = RankKind::threads;
  std::vector<std::string> algorithms;  // of all_reduce
  std::function<std::unique_ptr<comm::Communicator>(Rank&, const comm::CommunicatorOptions&)> make;
  int largest_world = 9;
  // Why so many ranks cannot run on this machine, asked by tests that are about to; empty where
  // they can.
  std::function<std::string(int world)> missing = [](int) { return std::string(); };
};

const std::vector<Backend>& backends();

// One backend in one form.
struct Form {
  const Backend* backend = nullptr;
  std::string algorithm;
  int world = 1;
};

// Every backend with every algorithm and every one of `worlds`.
std::vector<Form> forms_of_worlds(const std::vector<int>& worlds);
// Of those, what runs in every build, and what is left for the slow tests: other backends than the
// ring take most of a test's time to start, so three worlds stand for all.
std::vector<Form> quick(std::vector<Form> forms);
std::vector<Form> slow(std::vector<Form> forms);
bool is_quick(const Form& form);
// The same, by "auto" alone.
std::vector<Form> auto_forms_of_worlds(const std::vector<int>& worlds);
std::vector<int> all_worlds();

// Rank's communicator. The timeout only ends tests that fail.
std::unique_ptr<comm::Communicator> make_communicator(
    const Form& form, Rank& rank, std::chrono::milliseconds timeout = std::chrono::seconds(20),
    comm::AgreementCheck check = comm::AgreementCheck::every);

// Where a rank's data and its collectives are. Outlives the communicator.
struct Place {
  std::unique_ptr<Context> gpu;  // nullptr on the CPU
  std::unique_ptr<Stream> stream;
};
Place make_place(const Rank& rank);

// A count that takes many chunks of every algorithm, of about `count`; fewer where GPUs are
// emulated.
std::int64_t many(std::int64_t count);

std::string name_of(const Form& form);  // "ring_threads_two_shot_5"
std::ostream& operator<<(std::ostream& out, const Form& form);

// Runs `body` on every rank of the form and fails the test for what a rank throws. Returns the
// ranks' digests.
std::vector<std::uint64_t> run_form(const Form& form, const std::function<void(Rank&)>& body);

}  // namespace lockstep::tests
