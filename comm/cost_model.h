// CostModel: what a collective is taken to cost where plans are made, in seconds: a latency and the
// bytes over a bandwidth (the alpha-beta model of Hockney: "The communication challenge for MPP",
// Parallel Computing 1994). Constants of the backend, rounded from benchmarks/README.md, and not
// measurements of the run, so that the same configuration always gives the same plan and so the
// same order of summation.
#pragma once

#include <cstddef>

namespace lockstep::comm {

struct CostModel {
  double latency = 50e-6;  // seconds
  double bytes_per_second = 8e9;
  double seconds(std::size_t bytes) const {
    return latency + static_cast<double>(bytes) / bytes_per_second;
  }
  bool operator==(const CostModel&) const = default;
};

}  // namespace lockstep::comm
