#include "tests/framework/kernels/reference.h"

#include <algorithm>
#include <numeric>

namespace lockstep::kernels::testing {
namespace {

std::int64_t offset_of(const Tensor& tensor, const Index& index) {
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    offset += index[axis] * tensor.strides()[axis];
  return offset;
}

// A copy on the host of the memory that the tensor is a view on, to be given back after changes.
class HostCopy {
 public:
  explicit HostCopy(const Tensor& tensor) : tensor_(tensor), bytes_(tensor.buffer().bytes()) {
    if (!bytes_.empty()) {
      tensor.context().download(bytes_.data(), tensor.buffer().data(), bytes_.size());
    }
  }
  template <class T>
  T& at(const Index& index) {
    const std::int64_t element = tensor_.offset() + offset_of(tensor_, index);
    return reinterpret_cast<T*>(bytes_.data())[element];
  }
  void give_back() {
    if (bytes_.empty()) return;
    tensor_.context().upload(tensor_.buffer().data(), bytes_.data(), bytes_.size());
  }

 private:
  const Tensor& tensor_;
  std::vector<std::byte> bytes_;
};

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

double tanh_of_cubic(double x) {
  return std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

}  // namespace

double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh_of_cubic(x));
}

double gelu_tanh_derivative(double x) {
  const double y = tanh_of_cubic(x);
  const double slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + y) + 0.5 * x * (1 - y * y) * slope;
}

void for_each_index(const Shape& shape, const std::function<void(const Index&)>& f) {
  Index index(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    f(index);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      auto& position = index[static_cast<std::size_t>(axis)];
      if (++position < shape[axis]) break;
      position = 0;
    }
  }
}

std::size_t broadcast_position(const Index& index, const Shape& shape) {
  const std::size_t missing = index.size() - static_cast<std::size_t>(shape.rank());
  std::int64_t position = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t i = shape[axis] == 1 ? 0 : index[missing + static_cast<std::size_t>(axis)];
    position = position * shape[axis] + i;
  }
  return static_cast<std::size_t>(position);
}

Values values_of(const Tensor& tensor) {
  Values values;
  if (tensor.count() == 0) return values;
  HostCopy memory(tensor);
  base::visit_dtype(tensor.dtype(), [&]<class T>(base::TypeTag<T>) {
    for_each_index(tensor.shape(),
                   [&](const Index& index) { values.push_back(to_double(memory.at<T>(index))); });
  });
  return values;
}

void assign(const Tensor& tensor, const Values& values) {
  if (tensor.count() == 0) return;
  HostCopy memory(tensor);
  std::size_t next = 0;
  base::visit_dtype(tensor.dtype(), [&]<class T>(base::TypeTag<T>) {
    for_each_index(tensor.shape(), [&](const Index& index) {
      T& element = memory.at<T>(index);
      if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        element = T(static_cast<float>(values[next++]));
      } else {
        element = static_cast<T>(values[next++]);
      }
    });
  });
  memory.give_back();
}

std::string to_string(Layout layout) {
  switch (layout) {
    case Layout::contiguous:
      return "contiguous";
    case Layout::permuted:
      return "permuted";
    case Layout::sliced:
      return "sliced";
    case Layout::expanded:
      return "expanded";
  }
  return "?";
}

Shape Random::shape(int min_rank) {
  const auto rank = integer(min_rank, 4);
  Index extents;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const std::int64_t kind = integer(0, 9);
    extents.push_back(kind < 2    ? 1
                      : kind < 8  ? integer(2, 7)
                      : kind == 8 ? integer(17, 40)
                                  : integer(0, 3));
  }
  return Shape(extents);
}

Shape Random::broadcastable(const Shape& shape) {
  const auto dropped = static_cast<std::size_t>(integer(0, 3) == 0 ? integer(0, shape.rank()) : 0);
  const auto kept = shape.extents().subspan(dropped);
  Index extents(kept.begin(), kept.end());
  for (std::int64_t& extent : extents) {
    if (integer(0, 2) == 0) extent = 1;
  }
  return Shape(extents);
}

Layout Random::layout(bool writable) {
  return static_cast<Layout>(integer(0, writable ? 2 : 3));
}

Tensor random_tensor(Context& context, Random& random, const Shape& shape, DType dtype,
                     Layout layout, double low, double high) {
  const auto rank = static_cast<std::size_t>(shape.rank());
  Index extents(shape.extents().begin(), shape.extents().end());
  Tensor tensor;
  switch (layout) {
    case Layout::contiguous:
      tensor = Tensor::empty(context, shape, dtype);
      break;
    case Layout::permuted: {  // a transposition of two axes
      if (rank < 2) {
        tensor = Tensor::empty(context, shape, dtype);
        break;
      }
      const auto a = static_cast<std::size_t>(random.integer(0, shape.rank() - 2));
      std::swap(extents[a], extents[rank - 1]);
      tensor = Tensor::empty(context, Shape(extents), dtype)
                   .transpose(static_cast<int>(a), shape.rank() - 1);
      break;
    }
    case Layout::sliced: {
      for (std::int64_t& extent : extents) extent += random.integer(0, 3);
      tensor = Tensor::empty(context, Shape(extents), dtype);
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const std::int64_t begin =
            random.integer(0, extents[static_cast<std::size_t>(axis)] - shape[axis]);
        tensor = tensor.slice(axis, begin, begin + shape[axis]);
      }
      break;
    }
    case Layout::expanded: {
      for (std::int64_t& extent : extents) {
        if (random.integer(0, 1) == 0) extent = 1;
      }
      tensor = Tensor::empty(context, Shape(extents), dtype).expand(shape);
      break;
    }
  }
  // An expanded element is written several times: the last value counts, as it will when read.
  Values values(static_cast<std::size_t>(shape.count()));
  for (double& value : values) value = random.uniform(low, high);
  assign(tensor, values);
  return tensor;
}

Tensor random_tensor(Context& context, Random& random, const Shape& shape, DType dtype) {
  return random_tensor(context, random, shape, dtype, Layout::contiguous);
}

void expect_close(const Tensor& actual, const Values& expected, double relative, double floor) {
  const Values found = values_of(actual);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    if (found[i] == expected[i]) continue;
    const double bound = relative * std::max(std::abs(expected[i]), floor);
    ASSERT_LE(std::abs(found[i] - expected[i]), bound)
        << "element " << i << " of " << base::to_string(actual.shape()) << " is " << found[i]
        << ", expected " << expected[i];
  }
}

void expect_same_bits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_TRUE(a.is_contiguous() && b.is_contiguous());
  std::vector<std::byte> of_a(a.bytes()), of_b(b.bytes());
  a.to_host(of_a);
  b.to_host(of_b);
  EXPECT_EQ(of_a, of_b) << "of shape " << base::to_string(a.shape());
}

}  // namespace lockstep::kernels::testing
