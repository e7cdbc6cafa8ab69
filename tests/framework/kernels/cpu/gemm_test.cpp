#include "framework/kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::kernels {
namespace {

// `pages`: rows a multiple of 4 KiB apart, which all fall on the same cache sets.
enum class Order { row_major, column_major, scattered, pages };
constexpr Order orders[] = {Order::row_major, Order::column_major, Order::scattered, Order::pages};

template <class T>
void call(const GemmKernels& kernels, const GemmArguments<T>& arguments) {
  if constexpr (sizeof(T) == 4) {
    kernels.float32(arguments);
  } else {
    kernels.float64(arguments);
  }
}

// A matrix with room around it, filled with NaN.
template <class T>
struct Storage {
  std::vector<T> memory;
  MatrixView<T> view;

  Storage(std::int64_t rows, std::int64_t columns, Order order) {
    switch (order) {
      case Order::row_major:
        view = {nullptr, columns + 3, 1};
        break;
      case Order::column_major:
        view = {nullptr, 1, rows + 2};
        break;
      case Order::scattered:
        view = {nullptr, 2 * columns + 1, 2};
        break;
      case Order::pages:
        view = {nullptr, (columns + 1023) / 1024 * 1024, 1};
        break;
    }
    const std::int64_t size = rows * view.row_stride + columns * view.column_stride + 8;
    memory.assign(static_cast<std::size_t>(size), std::numeric_limits<T>::quiet_NaN());
    view.data = memory.data() + 1;
  }
};

// What the chain of multiply-adds along the summed axis gives, cut where gemm cuts it.
template <class T>
T chain(const GemmArguments<T>& g, std::int64_t i, std::int64_t j, bool fused, T c) {
  bool first = !g.accumulate;
  const std::int64_t parts = std::max<std::int64_t>(1, gemm_parts(g.k));
  for (std::int64_t part = 0; part < parts; ++part) {
    T sum = 0;
    for (std::int64_t p = part * g.k / parts; p < (part + 1) * g.k / parts; ++p) {
      const T a = *g.a.at(i, p), b = *g.b.at(p, j);
      sum = fused ? std::fma(a, b, sum) : sum + a * b;
    }
    c = first ? sum : c + sum;
    first = false;
  }
  return c;
}

template <class T>
void check_all_orders(const GemmKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                      std::mt19937& engine) {
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (int trial = 0; trial < 8; ++trial) {
    const bool accumulate = trial % 2 == 1;
    const auto pick = [&] { return orders[engine() % 4]; };
    Storage<T> a(m, k, pick()), b(k, n, pick()), c(m, n, pick());
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t p = 0; p < k; ++p) *a.view.at(i, p) = uniform(engine);
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j) *b.view.at(p, j) = uniform(engine);
    const GemmArguments<T> arguments{m,
                                     n,
                                     k,
                                     {a.view.data, a.view.row_stride, a.view.column_stride},
                                     {b.view.data, b.view.row_stride, b.view.column_stride},
                                     c.view,
                                     accumulate};
    std::vector<T> expected;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        if (accumulate) *c.view.at(i, j) = uniform(engine);
        expected.push_back(chain(arguments, i, j, kernels.fused, *c.view.at(i, j)));
      }
    }
    call(kernels, arguments);
    std::size_t next = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        ASSERT_EQ(*c.view.at(i, j), expected[next++])
            << kernels.name << ": element " << i << ", " << j << " of " << m << " x " << k << " x "
            << n;
        *c.view.at(i, j) = std::numeric_limits<T>::quiet_NaN();
      }
    }
    const bool untouched =
        std::all_of(c.memory.begin(), c.memory.end(), [](T v) { return std::isnan(v); });
    ASSERT_TRUE(untouched) << "written outside of the matrix";
  }
}

// The bits are those of the plain chain, for every instruction set: so they depend neither on
// tiles, layout nor on the width of the vectors.
TEST(Gemm, EveryElementIsOneChainOfMultiplyAdds) {
  std::mt19937 engine(1);
  for (const GemmKernels* kernels : gemm_kernels()) {
    for (int trial = 0; trial < 20; ++trial) {
      const auto extent = [&](std::int64_t most) {
        return static_cast<std::int64_t>(engine() % static_cast<unsigned>(most));
      };
      check_all_orders<float>(*kernels, extent(50), extent(70), extent(80), engine);
      check_all_orders<double>(*kernels, extent(50), extent(70), extent(80), engine);
    }
    check_all_orders<float>(*kernels, 40, 33, 1100, engine);
    check_all_orders<float>(*kernels, 3, 45, 2051, engine);
    check_all_orders<double>(*kernels, 20, 17, 1030, engine);
    check_all_orders<float>(*kernels, 300, 64, 20, engine);
  }
}

TEST(Gemm, ManyThreadsAtOnce) {
  std::mt19937 engine(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const std::int64_t m = 90, n = 70, k = 130;
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (float& v : a) v = uniform(engine);
  for (float& v : b) v = uniform(engine);
  const auto product = [&](bool transposed) {
    std::vector<float> c(static_cast<std::size_t>(m * n));
    gemm(GemmArguments<float>{m,
                              n,
                              k,
                              {a.data(), transposed ? 1 : k, transposed ? m : 1},
                              {b.data(), n, 1},
                              {c.data(), n, 1}});
    return c;
  };
  const std::vector<float> expected[] = {product(false), product(true)};
  constexpr int threads = 16;
  std::atomic<int> wrong{0}, ready{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      ready.fetch_add(1);
      while (ready.load() < threads) std::this_thread::yield();
      for (int i = 0; i < 60; ++i) {
        if (product((i + t) % 2 == 1) != expected[(i + t) % 2]) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace lockstep::kernels
