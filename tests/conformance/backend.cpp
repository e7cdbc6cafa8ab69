#include "tests/conformance/backend.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "comm/backend.h"
#include "comm/mpi/mpi.h"
#include "comm/mpi/seats.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::tests {

namespace {

// What the launcher does for a run over MPI.
void start_mpi_job(Rank& rank) {
  // Lives as long as the process of rank 0, which leaves the communicator with the others.
  static std::optional<comm::MpiJob> job;
  if (rank.index() == 0) {
    job.emplace(rank.size(), "", std::chrono::seconds(30));
    rank.store().set(comm::mpi_seats_key, job->seats());
  }
  rank.store().get(comm::mpi_seats_key, std::chrono::seconds(30));
}

// Hosts for hierarchical backends, imitated, and not of neighbouring ranks: worlds of 4, 6 and 9
// have hosts of equal size, those of 3, 5, 7 and 8 have not.
std::string host_of(int rank) {
  constexpr std::array<char, 9> hosts = {'A', 'A', 'B', 'B', 'A', 'B', 'C', 'C', 'C'};
  return {hosts[static_cast<std::size_t>(rank) % hosts.size()]};
}

bool is_hierarchical(const comm::Backend& backend) {
  return backend.name.find('+') != std::string::npos;
}

Backend form_of(const comm::Backend& backend, RankKind kind) {
  const std::string suffix =
      backend.ranks_can_be_threads ? "_" + std::string(name_of(kind)) : std::string();
  std::string form_name = backend.name + suffix;
  std::replace(form_name.begin(), form_name.end(), '+', '_');  // names of tests do not take it
  return {.name = std::move(form_name),
          .kind = kind,
          // Between hosts they are those of another backend, which is tested by itself.
          .algorithms =
              is_hierarchical(backend) ? std::vector<std::string>{"auto"} : backend.algorithms,
          .make = [&backend](Rank& rank, const comm::CommunicatorOptions& options) {
            if (backend.takes_mpi_seats) start_mpi_job(rank);
            comm::BackendPlace place = place_of(rank);
            if (is_hierarchical(backend)) place.host = host_of(rank.index());
            auto communicator = backend.make(place, options);
            // Plans are made without one.
            if (communicator->capabilities().cost != backend.cost({}).cost)
              throw std::logic_error("what an all-reduce costs is not as in the table");
            return communicator;
          }};
}

// Ranks of both kinds where the backend takes both.
std::vector<Backend> backends_of_this_build() {
  std::vector<Backend> all;
  for (const comm::Backend& backend : comm::backends()) {
    const auto& devices = backend.devices;
    if (!backend.built_in || !backend.missing().empty() ||
        std::find(devices.begin(), devices.end(), DeviceKind::cpu) == devices.end()) {
      fmt::print(stderr, "not tested here: backend {} ({})\n", backend.name,
                 backend.built_in ? "for other devices or missing" : "not in this build");
      continue;
    }
    if (backend.ranks_can_be_threads) all.push_back(form_of(backend, RankKind::threads));
    all.push_back(form_of(backend, RankKind::processes));
  }
  return all;
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = backends_of_this_build();
  return all;
}

std::vector<int> all_worlds() {
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

Place make_place(const Rank&) {
  return {nullptr, device::make_inline_stream()};
}

// Of the hierarchical ones' worlds, 3 has hosts of unequal size and 4 has not.
bool is_quick(const Form& form) {
  const std::string& name = form.backend->name;
  if (name == "ring_threads" || name == "ring_processes" || form.world == 3) return true;
  return form.algorithm == "auto" && (form.world == 1 || form.world == 4);
}

std::int64_t many(std::int64_t count) {
  return count;
}

}  // namespace lockstep::tests
