#include <gtest/gtest.h>

#include "tests/conformance/backend.h"

namespace lockstep::tests {

comm::BackendPlace place_of(Rank& rank, std::optional<std::string> interface) {
  return {.rank = rank.index(),
          .size = rank.size(),
          .device = {},
          .store = rank.store(),
          .join = [&rank](const std::string& name, int index,
                          int size) { return rank.join(name, index, size); },
          .prefix = "comm",
          .interface = std::move(interface),
          .start_timeout = std::chrono::seconds(30)};
}

std::vector<Form> forms_of_worlds(const std::vector<int>& worlds) {
  std::vector<Form> result;
  for (const Backend& backend : backends())
    for (const std::string& algorithm : backend.algorithms)
      for (const int world : worlds)
        if (world <= backend.largest_world) result.push_back({&backend, algorithm, world});
  return result;
}

std::vector<Form> auto_forms_of_worlds(const std::vector<int>& worlds) {
  std::vector<Form> result;
  for (const Backend& backend : backends())
    for (const int world : worlds)
      if (world <= backend.largest_world) result.push_back({&backend, "auto", world});
  return result;
}

std::vector<Form> quick(std::vector<Form> forms) {
  std::erase_if(forms, [](const Form& form) { return !is_quick(form); });
  return forms;
}

std::vector<Form> slow(std::vector<Form> forms) {
  std::erase_if(forms, is_quick);
  return forms;
}

std::unique_ptr<comm::Communicator> make_communicator(const Form& form, Rank& rank,
                                                      std::chrono::milliseconds timeout,
                                                      comm::AgreementCheck check) {
  return form.backend->make(rank,
                            {.timeout = timeout, .algorithm = form.algorithm, .check = check});
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
