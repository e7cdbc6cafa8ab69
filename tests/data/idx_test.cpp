#include "data/importers/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>

#include "framework/base/error.h"
#include "tests/data/dataset_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char uint8_type = 0x08;
constexpr char float_type = 0x0D;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string idx(char type, const std::vector<std::uint32_t>& extents, const std::string& elements) {
  std::string bytes{0, 0, type, static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) bytes += big_endian(extent);
  return bytes + elements;
}

class IdxTest : public DatasetTest {
 protected:
  IdxTest() {
    files_.train_features = write_text("train-x", idx(uint8_type, {3, 2, 2}, "abcdefghijkl"));
    files_.train_labels = write_text("train-y", idx(uint8_type, {3}, {0, 2, 1}));
    files_.test_features = write_text("test-x", idx(uint8_type, {1, 2, 2}, "mnop"));
    files_.test_labels = write_text("test-y", idx(uint8_type, {1}, {1}));
    options_.out = path("out.h5");
  }

  template <class Matcher>
  void expect_refused(const std::string& file, const Matcher& matcher) {
    try {
      import_idx(files_, options_);
      FAIL() << "not refused";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(file), matcher));
    }
    EXPECT_FALSE(std::filesystem::exists(options_.out));
  }

  IdxFiles files_;
  IdxOptions options_;
};

TEST_F(IdxTest, ImportsImages) {
  import_idx(files_, options_);
  const DatasetFile file(options_.out);
  EXPECT_EQ(file.info().feature_shape, (Shape{1, 2, 2}));
  EXPECT_EQ(file.info().dtype, DType::uint8);
  EXPECT_EQ(file.info().classes, 3);
  EXPECT_TRUE(file.info().class_names.empty());
  std::string features(12, ' ');
  std::vector<std::int64_t> labels(3);
  file.read("train", 0, std::as_writable_bytes(std::span(features)), labels);
  EXPECT_EQ(features, "abcdefghijkl");
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 2, 1}));
  features.resize(4);
  labels.resize(1);
  file.read("test", 0, std::as_writable_bytes(std::span(features)), labels);
  EXPECT_EQ(features, "mnop");

  const Normalization& normalization = file.info().normalization;
  EXPECT_DOUBLE_EQ(normalization.scale, 1.0 / 255);
  ASSERT_EQ(normalization.mean.size(), 1);
  EXPECT_NEAR(normalization.mean[0], ('a' + 5.5) / 255, 1e-12);
  EXPECT_NEAR(normalization.std[0], std::sqrt(143.0 / 12) / 255, 1e-12);
}

TEST_F(IdxTest, ImportsFloatsOfSeveralChannels) {
  std::string elements;
  for (const float value : {1.0f, 2.0f, 3.0f, 4.0f}) {
    elements += big_endian(std::bit_cast<std::uint32_t>(value));
  }
  files_ = {write_text("x", idx(float_type, {1, 2, 2, 1}, elements)),
            write_text("y", idx(uint8_type, {1}, {4})), "", ""};
  import_idx(files_, options_);
  const DatasetFile file(options_.out);
  EXPECT_EQ(file.info().dtype, DType::float32);
  EXPECT_EQ(file.info().feature_shape, (Shape{2, 2, 1}));
  EXPECT_EQ(file.info().classes, 5);
  EXPECT_EQ(file.info().splits.size(), 1);
  EXPECT_EQ(file.info().normalization, (Normalization{1, {1.5, 3.5}, {0.5, 0.5}}));
  std::vector<float> features(4);
  std::vector<std::int64_t> labels(1);
  file.read("train", 0, std::as_writable_bytes(std::span(features)), labels);
  EXPECT_EQ(features, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(IdxTest, ReadsCompressedFilesByTheirUsualNames) {
  const auto compress = [&](const std::string& from, const std::string& to) {
    std::ifstream stream(from, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    const gzFile file = gzopen(path(to).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  };
  std::filesystem::create_directory(path("set"));
  EXPECT_THROW(idx_files_in(path("set")), DataError);
  compress(files_.train_features, "set/train-images-idx3-ubyte.gz");
  compress(files_.train_labels, "set/train-labels-idx1-ubyte.gz");
  std::filesystem::copy(files_.test_features, path("set/t10k-images-idx3-ubyte"));
  compress(files_.test_labels, "set/t10k-labels-idx1-ubyte.gz");
  import_idx(idx_files_in(path("set")), options_);
  EXPECT_EQ(DatasetFile(options_.out).split("train").samples, 3);

  const std::string images = path("set/train-images-idx3-ubyte.gz");
  std::filesystem::resize_file(images, std::filesystem::file_size(images) - 12);
  std::filesystem::remove(options_.out);
  files_ = idx_files_in(path("set"));
  expect_refused(images, HasSubstr(""));
}

TEST_F(IdxTest, KnowsClassNames) {
  options_.name = "fashion-mnist";
  import_idx(files_, options_);
  EXPECT_EQ(DatasetFile(options_.out).info().class_names.at(9), "Ankle boot");
  options_.class_names = {"x", "y", "z"};
  import_idx(files_, options_);
  EXPECT_EQ(DatasetFile(options_.out).info().class_names, options_.class_names);
}

TEST_F(IdxTest, RefusesWhatDoesNotFit) {
  options_.class_names = {"x", "y"};
  expect_refused(files_.train_labels, HasSubstr("found label 2 in row 1, expected 0 to 1"));
  options_.class_names.clear();

  const IdxFiles right = files_;
  files_.train_features = path("none");
  expect_refused(path("none"), HasSubstr("cannot be opened: No such file"));
  files_.train_features = path("");
  expect_refused(path(""), HasSubstr("found a directory"));
  files_.train_features = write_text("x", "\x89PNG");
  expect_refused(path("x"), HasSubstr("found first bytes 89504e47, expected an IDX header"));
  files_.train_features = write_text("x", "");
  expect_refused(path("x"), HasSubstr("ends in the header: found 0 bytes, expected 4"));
  files_.train_features = write_text("x", idx(uint8_type, {3, 2, 2}, "abc"));
  expect_refused(path("x"), HasSubstr("ends in the features: found 3 bytes, expected 12"));
  files_.train_features = write_text("x", idx(uint8_type, {3, 2, 2}, "abcdefghijklm"));
  expect_refused(path("x"), HasSubstr("more bytes than the header's 3 rows"));
  files_.train_features = write_text("x", idx(uint8_type, {2, 2, 2}, "abcdefgh"));
  expect_refused(path("x"), HasSubstr("found 2 rows, expected 3 as in"));
  files_.train_features = write_text("x", idx(0x0B, {3, 1}, "abcdef"));
  expect_refused(path("x"), HasSubstr("found type 0x0b, expected features"));
  files_.train_features = write_text("x", idx(uint8_type, {3}, "abc"));
  expect_refused(path("x"), HasSubstr("found shape [3], expected [N, ...]"));
  files_.train_features = write_text("x", idx(uint8_type, {3, 0, 2}, ""));
  expect_refused(path("x"), HasSubstr("found shape [3, 0, 2]"));
  files_.train_features = write_text("x", idx(uint8_type, {3, 1u << 31, 1u << 31}, ""));
  expect_refused(path("x"), HasSubstr("elements in a sample"));

  files_ = right;
  files_.train_labels = write_text("y", idx(uint8_type, {3, 1}, {0, 1, 2}));
  expect_refused(path("y"), HasSubstr("with 2 axes, expected labels"));
  files_.train_labels = write_text("y", idx(uint8_type, {0}, ""));
  expect_refused(path("y"), HasSubstr("found 0 rows"));

  files_ = right;
  files_.test_labels = write_text("y", idx(uint8_type, {1}, {7}));
  expect_refused(path("y"), HasSubstr("found label 7 in row 0"));
  files_ = right;
  files_.test_features = write_text("x", idx(uint8_type, {1, 2, 3}, "mnopqr"));
  expect_refused(path("x"), HasSubstr("differ in type or shape"));
}

TEST_F(IdxTest, ImportsFashionMnist) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  options_.name = "fashion-mnist";
  import_idx(idx_files_in(folder), options_);
  const DatasetFile file(options_.out);
  EXPECT_EQ(file.split("train").samples, 60000);
  EXPECT_EQ(file.split("test").samples, 10000);
  EXPECT_NEAR(file.info().normalization.mean.at(0), 0.2860, 5e-5);
  EXPECT_NEAR(file.info().normalization.std.at(0), 0.3530, 5e-5);
  std::vector<std::int64_t> labels(60000);
  file.read_labels("train", 0, labels);
  for (std::int64_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::ranges::count(labels, label), 6000);
  }
}

}  // namespace
}  // namespace lockstep::data
