#include "tests/conformance/backend.h"

#include <gtest/gtest.h>

#include "comm/gloo/gloo.h"
#include "comm/ring/ring.h"

namespace lockstep::tests {

namespace {

Backend ring(RankKind kind) {
  return {.name = "ring_" + std::string(name_of(kind)),
          .kind = kind,
          .algorithms = {"auto", "one_shot", "two_shot", "ring"},
          .make = [](Rank& rank, const comm::CommunicatorOptions& options) {
            return comm::make_ring_communicator(rank.join(), options);
          }};
}

Backend gloo() {
  return {.name = "gloo",
          .kind = RankKind::processes,
          .algorithms = {"auto", "bcube"},
          .make = [](Rank& rank, const comm::CommunicatorOptions& options) {
            return comm::make_gloo_communicator(rank.store(),
                                                {.rank = rank.index(),
                                                 .size = rank.size(),
                                                 .prefix = "gloo",
                                                 .interface = std::nullopt,
                                                 .start_timeout = std::chrono::seconds(30)},
                                                options);
          }};
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> built = {ring(RankKind::threads), ring(RankKind::processes)};
    if (comm::has_gloo()) built.push_back(gloo());
    return built;
  }();
  return all;
}

std::vector<Form> forms_of_worlds(const std::vector<int>& worlds) {
  std::vector<Form> result;
  for (const Backend& backend : backends())
    for (const std::string& algorithm : backend.algorithms)
      for (const int world : worlds) result.push_back({&backend, algorithm, world});
  return result;
}

std::vector<Form> auto_forms_of_worlds(const std::vector<int>& worlds) {
  std::vector<Form> result;
  for (const Backend& backend : backends())
    for (const int world : worlds) result.push_back({&backend, "auto", world});
  return result;
}

std::unique_ptr<comm::Communicator> make_communicator(const Form& form, Rank& rank,
                                                      std::chrono::milliseconds timeout) {
  return form.backend->make(rank, {.timeout = timeout, .algorithm = form.algorithm});
}

std::string name_of(const Form& form) {
  return form.backend->name + "_" + form.algorithm + "_" + std::to_string(form.world);
}

std::ostream& operator<<(std::ostream& out, const Form& form) {
  return out << name_of(form);
}

std::vector<std::uint64_t> run_form(const Form& form, const std::function<void(Rank&)>& body) {
  const std::vector<RankReport> reports = run_ranks(form.backend->kind, form.world, body);
  std::vector<std::uint64_t> digests;
  for (std::size_t r = 0; r < reports.size(); ++r) {
    EXPECT_EQ(reports[r].error, "") << "rank " << r;
    digests.push_back(reports[r].digest);
  }
  return digests;
}

}  // namespace lockstep::tests
