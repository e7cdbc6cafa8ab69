// CostModel: what a collective is taken to cost where plans are made, in seconds: a latency and the
// bytes over a bandwidth (the alpha-beta model of Hockney: "The communication challenge for MPP",
// Parallel Computing 1994). Constants of the backend and the kind of link, not measurements of the
// run, so that the same configuration always gives the same plan on a machine and so the same order
// of summation.
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

// Between GPUs: assumed, not measured, since none was at hand. Each GPU sends and receives nearly
// twice the data of an all-reduce, and 80 % of what the data sheets promise is taken to be reached:
// 300 GB/s in each direction (NVLink 3, A100), 32 GB/s (PCIe 4, 16 lanes). The latency is that of a
// kernel and of some crossings.
inline constexpr CostModel nvlink_cost{.latency = 20e-6, .bytes_per_second = 120e9};
inline constexpr CostModel pcie_cost{.latency = 30e-6, .bytes_per_second = 12e9};

}  // namespace lockstep::comm
