// The shapes that the kernels are timed on.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::benchmarks {

struct ProductSize {
  std::int64_t m, k, n;
};
struct RowsSize {
  std::int64_t rows, length;
};

struct KernelSizes {
  std::vector<ProductSize> layers;    // rows, inputs and outputs: forward and both gradients
  std::vector<ProductSize> products;  // as they are; the first is a GPU's peak
  ProductSize linear;
  std::vector<std::int64_t> ranges;  // elementwise
  std::int64_t side;                 // of a square matrix
  std::vector<RowsSize> logits;
  std::vector<std::int64_t> parameters;  // of an optimizer step
  RowsSize table;                        // of an embedding
  std::int64_t positions;
  std::int64_t copied;  // elements of the copy that gives the bandwidth
};

// What layers of an MLP are on a CPU.
inline KernelSizes cpu_sizes() {
  KernelSizes sizes{.layers = {},
                    .products = {{1024, 1024, 1024}},
                    .linear = {256, 784, 512},
                    .ranges = {1 << 17, 1 << 23},
                    .side = 1024,
                    .logits = {{256, 10}, {256, 1000}, {64, 32768}},
                    .parameters = {535'818, 5'824'522},
                    .table = {32768, 512},
                    .positions = 4096,
                    .copied = 1 << 24};
  for (const std::int64_t batch : {256, 32})
    for (const auto& [in, out] :
         {std::pair<std::int64_t, std::int64_t>{784, 512}, {512, 256}, {256, 10}})
      sizes.layers.push_back({batch, in, out});
  for (const std::int64_t in : {784, 2048}) sizes.layers.push_back({512, in, 2048});
  sizes.layers.push_back({64, 2048, 2048});
  return sizes;
}

// Data that no cache of a GPU holds, and layers of a transformer beside one of an MLP.
inline KernelSizes gpu_sizes() {
  return {.layers = {{512, 2048, 2048}, {8192, 1024, 4096}, {8192, 4096, 1024}},
          .products = {{8192, 8192, 8192}, {1024, 1024, 1024}},
          .linear = {8192, 1024, 4096},
          .ranges = {1 << 20, 1 << 26},
          .side = 8192,
          .logits = {{8192, 1000}, {8192, 32768}},
          .parameters = {5'824'522, 124'439'808},
          .table = {50304, 768},
          .positions = 16384,
          .copied = 1 << 27};
}

// To see that all of them run.
inline KernelSizes tiny_sizes() {
  return {.layers = {{5, 9, 7}},
          .products = {{8, 8, 8}},
          .linear = {5, 9, 7},
          .ranges = {300},
          .side = 20,
          .logits = {{6, 10}},
          .parameters = {301},
          .table = {40, 8},
          .positions = 50,
          .copied = 1024};
}

}  // namespace lockstep::benchmarks
