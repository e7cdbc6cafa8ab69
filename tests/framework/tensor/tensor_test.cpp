#include "framework/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <vector>

#include "framework/device/cpu/cpu_context.h"

namespace lockstep::tensor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Every element of a view in row-major order, by the definition of strides.
std::vector<float> values(const Tensor& tensor) {
  std::vector<float> result;
  std::vector<std::int64_t> index(static_cast<std::size_t>(tensor.rank()));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      at += index[axis] * tensor.strides()[axis];
    result.push_back(tensor.data<float>()[at]);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < tensor.shape()[static_cast<int>(axis)]) break;
      index[axis] = 0;
    }
  }
  return result;
}

class TensorTest : public testing::Test {
 protected:
  // 0, 1, 2, ... in row-major order.
  Tensor iota(const Shape& shape) {
    std::vector<float> numbers(static_cast<std::size_t>(shape.count()));
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    return Tensor::from(*context_, std::span<const float>(numbers), shape);
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

TEST_F(TensorTest, DefaultIsUndefined) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_THAT([&] { tensor.elements<float>(); }, ThrowsMessage<UsageError>(HasSubstr("undefined")));
  EXPECT_THAT([&] { tensor.item<float>(); }, ThrowsMessage<UsageError>(HasSubstr("undefined")));
}

TEST_F(TensorTest, Empty) {
  const Tensor tensor = Tensor::empty(*context_, Shape{3, 5}, DType::float64);
  EXPECT_TRUE(tensor.defined());
  EXPECT_EQ(&tensor.context(), context_.get());
  EXPECT_EQ(tensor.device(), Device{});
  EXPECT_EQ(tensor.shape(), (Shape{3, 5}));
  EXPECT_EQ(tensor.dtype(), DType::float64);
  EXPECT_EQ(tensor.rank(), 2);
  EXPECT_EQ(tensor.count(), 15);
  EXPECT_EQ(tensor.bytes(), 120u);
  EXPECT_EQ(tensor.strides()[0], 5);
  EXPECT_EQ(tensor.strides()[1], 1);
  EXPECT_TRUE(tensor.is_contiguous());
}

TEST_F(TensorTest, LargerThanAnyMemory) {
  const Shape shape{std::int64_t{1} << 62};  // in bytes it would wrap round to 0
  EXPECT_THROW(Tensor::empty(*context_, shape), std::bad_alloc);
}

TEST_F(TensorTest, WithoutElements) {
  const Tensor tensor = Tensor::empty(*context_, Shape{3, 0, 2});
  EXPECT_EQ(tensor.count(), 0);
  EXPECT_TRUE(tensor.elements<float>().empty());
  EXPECT_TRUE(tensor.transpose(0, 1).is_contiguous());
  EXPECT_EQ(tensor.reshape(Shape{0}).shape(), Shape{0});
  EXPECT_FALSE(tensor.shares_memory_with(Tensor::empty(*context_, Shape{0})));
}

TEST_F(TensorTest, FromValues) {
  const Tensor tensor = Tensor::from<std::int64_t>(*context_, {1, 2, 3, 4, 5, 6}, Shape{2, 3});
  EXPECT_EQ(tensor.dtype(), DType::int64);
  EXPECT_THAT(tensor.elements<std::int64_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      [&] {
        Tensor::from<float>(*context_, {1, 2}, Shape{3});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("8 bytes"), HasSubstr("[3]"), HasSubstr("12"))));
}

TEST_F(TensorTest, CopiesShareTheMemory) {
  const Tensor tensor = iota(Shape{4});
  const Tensor copy = tensor;
  copy.elements<float>()[2] = 9;
  EXPECT_THAT(tensor.elements<float>(), ElementsAre(0, 1, 9, 3));
  EXPECT_TRUE(tensor.shares_memory_with(copy));
  EXPECT_FALSE(tensor.shares_memory_with(iota(Shape{4})));
}

TEST_F(TensorTest, MemoryGoesBackToTheContext) {
  {
    const Tensor tensor = iota(Shape{100});
    const Tensor view = tensor.slice(0, 10, 20);
    EXPECT_EQ(context_->allocator().statistics().bytes_in_use, 512u);
  }
  EXPECT_EQ(context_->allocator().statistics().bytes_in_use, 0u);
}

TEST_F(TensorTest, OnBuffer) {
  const Buffer buffer(context_->allocator(), 10 * sizeof(float));
  const Tensor whole = Tensor::on_buffer(*context_, buffer, 0, Shape{10}, DType::float32);
  const Tensor tail = Tensor::on_buffer(*context_, buffer, 4, Shape{2, 3}, DType::float32);
  EXPECT_EQ(tail.offset(), 4);
  EXPECT_EQ(tail.data(), whole.data<float>() + 4);
  EXPECT_TRUE(tail.shares_memory_with(whole));
  EXPECT_EQ(Tensor::on_buffer(*context_, buffer, 10, Shape{0}, DType::float32).count(), 0);

  const auto at = [&](std::int64_t offset, const Shape& shape, DType dtype = DType::float32) {
    return [=, this] { Tensor::on_buffer(*context_, buffer, offset, shape, dtype); };
  };
  EXPECT_THAT(at(5, Shape{2, 3}),
              ThrowsMessage<UsageError>(AllOf(HasSubstr("float32"), HasSubstr("[2, 3]"),
                                              HasSubstr("element 5"), HasSubstr("40 bytes"))));
  EXPECT_THROW(at(0, Shape{6}, DType::float64)(), UsageError);
  EXPECT_THROW(at(-1, Shape{1})(), UsageError);
  EXPECT_THROW(at(std::int64_t{1} << 62, Shape{1})(), UsageError);  // 4 * 2^62 wraps round
  EXPECT_THROW(at(1, Shape{(std::int64_t{1} << 62) + 1})(), UsageError);
}

TEST_F(TensorTest, ElementTypeIsChecked) {
  EXPECT_THAT([&] { iota(Shape{2}).data<double>(); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("float32"), HasSubstr("float64"))));
}

TEST_F(TensorTest, Item) {
  EXPECT_EQ(iota(Shape{3}).slice(0, 2, 3).item<float>(), 2.0f);
  EXPECT_EQ(iota(Shape{}).item<float>(), 0.0f);
  EXPECT_THAT(
      [&] {
        iota(Shape{2, 2}).item<float>();
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("[2, 2]"), HasSubstr("one element"))));
}

TEST_F(TensorTest, Reshape) {
  const Tensor tensor = iota(Shape{2, 6});
  const Tensor view = tensor.reshape(Shape{3, 2, 2});
  EXPECT_TRUE(view.shares_memory_with(tensor));
  EXPECT_EQ(view.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(values(view), values(tensor));
  EXPECT_EQ(tensor.flatten().shape(), Shape{12});
  EXPECT_THAT([&] { tensor.reshape(Shape{5}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("[2, 6]"), HasSubstr("[5]"))));
  EXPECT_THAT([&] { tensor.transpose(0, 1).flatten(); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("[6, 2]"), HasSubstr("not contiguous"))));
}

TEST_F(TensorTest, Transpose) {
  const Tensor view = iota(Shape{2, 3}).transpose(0, -1);
  EXPECT_EQ(view.shape(), (Shape{3, 2}));
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_THAT(values(view), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_TRUE(view.transpose(0, 1).is_contiguous());
  EXPECT_THAT([&] { view.transpose(0, 2); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("axis 2"), HasSubstr("[3, 2]"))));
  EXPECT_THAT([&] { view.elements<float>(); }, ThrowsMessage<UsageError>(HasSubstr("[3, 2]")));
}

TEST_F(TensorTest, Slice) {
  const Tensor tensor = iota(Shape{3, 4});
  const Tensor rows = tensor.slice(0, 1, 3);
  EXPECT_TRUE(rows.is_contiguous());
  EXPECT_EQ(rows.offset(), 4);
  EXPECT_THAT(values(rows), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  const Tensor columns = tensor.slice(-1, 1, 3);
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_THAT(values(columns), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(values(columns.slice(0, 2, 3)), ElementsAre(9, 10));
  EXPECT_EQ(tensor.slice(1, 4, 4).shape(), (Shape{3, 0}));
  EXPECT_THAT([&] { tensor.slice(1, 2, 5); },
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("[2, 5)"), HasSubstr("axis 1"), HasSubstr("[3, 4]"))));
  EXPECT_THROW(tensor.slice(0, -1, 2), UsageError);
  EXPECT_THROW(tensor.slice(0, 2, 1), UsageError);
}

TEST_F(TensorTest, Expand) {
  const Tensor view = iota(Shape{3, 1}).expand(Shape{2, 3, 2});
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_THAT(values(view), ElementsAre(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
  EXPECT_EQ(view.strides()[0], 0);
  EXPECT_EQ(view.strides()[2], 0);
  EXPECT_EQ(iota(Shape{1, 3}).expand(Shape{0, 3}).count(), 0);
  EXPECT_THAT(values(iota(Shape{}).expand(Shape{2})), ElementsAre(0, 0));
  EXPECT_THAT(
      [&] {
        iota(Shape{3}).expand(Shape{3, 2});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("[3]"), HasSubstr("[3, 2]"))));
  EXPECT_THROW(iota(Shape{2, 3}).expand(Shape{3}), UsageError);
}

TEST_F(TensorTest, AxesOfOneElementAreContiguousWhateverTheirStride) {
  const Tensor view = iota(Shape{4, 1, 3}).transpose(0, 1);
  EXPECT_EQ(view.shape(), (Shape{1, 4, 3}));
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.flatten().count(), 12);
}

// Random chains of views against the same steps on a plain list of indices.
TEST_F(TensorTest, RandomChainsOfViews) {
  std::mt19937 random(5);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(draw(1, 4)));
    for (auto& extent : extents) extent = draw(1, 5);
    Tensor view = iota(Shape(std::span<const std::int64_t>(extents)));
    // at(index) of the view is the value at the index that the steps lead back to.
    std::vector<float> expected = values(view);
    for (int step = 0; step < 4; ++step) {
      const int axis = static_cast<int>(draw(0, view.rank() - 1));
      const Shape before = view.shape();
      const Strides strides = base::contiguous_strides(before);
      const auto extent = before[axis];
      Tensor next;
      std::function<std::vector<std::int64_t>(std::vector<std::int64_t>)> back;
      if (draw(0, 1) == 0) {
        const int other = static_cast<int>(draw(0, view.rank() - 1));
        next = view.transpose(axis, other);
        back = [=](std::vector<std::int64_t> index) {
          std::swap(index[static_cast<std::size_t>(axis)], index[static_cast<std::size_t>(other)]);
          return index;
        };
      } else {
        const std::int64_t begin = draw(0, extent - 1);
        next = view.slice(axis, begin, draw(begin + 1, extent));
        back = [=](std::vector<std::int64_t> index) {
          index[static_cast<std::size_t>(axis)] += begin;
          return index;
        };
      }
      std::vector<float> after;
      const Strides next_strides = base::contiguous_strides(next.shape());
      for (std::int64_t i = 0; i < next.count(); ++i) {
        std::vector<std::int64_t> index;
        for (int a = 0; a < next.rank(); ++a) {
          index.push_back(i / next_strides[static_cast<std::size_t>(a)] % next.shape()[a]);
        }
        index = back(index);
        const std::int64_t at =
            std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
        after.push_back(expected[static_cast<std::size_t>(at)]);
      }
      view = next;
      expected = after;
      ASSERT_EQ(values(view), expected) << base::to_string(view.shape());
    }
  }
}

}  // namespace
}  // namespace lockstep::tensor
