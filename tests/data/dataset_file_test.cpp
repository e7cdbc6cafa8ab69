#include "data/dataset_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/inspect.h"
#include "framework/base/error.h"
#include "tests/data/dataset_fixture.h"

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DatasetFileTest : public DatasetTest {};

TEST_F(DatasetFileTest, GivesBackWhatWasWritten) {
  DatasetInfo info;
  info.name = "table";
  info.dtype = DType::float32;
  info.feature_shape = Shape{3};
  info.classes = 2;
  info.class_names = {"no", "yes"};
  DatasetWriter writer(path("table.h5"), info);
  const std::vector<float> features{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> labels{1, 0};
  writer.append("train", std::as_bytes(std::span(features)), labels);
  writer.add_split("test");
  const Normalization normalization{0.5, {1, 2, 3}, {4}};
  writer.set_normalization(normalization);
  writer.finish();

  const DatasetFile file(path("table.h5"));
  EXPECT_EQ(file.info().name, "table");
  EXPECT_EQ(file.info().dtype, DType::float32);
  EXPECT_EQ(file.info().feature_shape, Shape{3});
  EXPECT_EQ(file.info().classes, 2);
  EXPECT_EQ(file.info().class_names, info.class_names);
  EXPECT_EQ(file.info().normalization, normalization);
  ASSERT_EQ(file.info().splits.size(), 2);
  EXPECT_EQ(file.info().splits[0].name, "train");
  EXPECT_EQ(file.split("train").samples, 2);
  EXPECT_EQ(file.split("test").samples, 0);
  std::vector<float> read(6);
  std::vector<std::int64_t> read_labels(2);
  file.read("train", 0, std::as_writable_bytes(std::span(read)), read_labels);
  EXPECT_EQ(read, features);
  EXPECT_EQ(read_labels, labels);
}

TEST_F(DatasetFileTest, ReadsAnyRange) {
  const DatasetFile file(write_tagged("tagged.h5", 1003, 5, 10));
  EXPECT_EQ(file.split("train").chunk_rows, 10);
  EXPECT_TRUE(file.split("train").has_checksums);
  for (const auto& [first, rows] : {std::pair{0, 1003}, {0, 1}, {1002, 1}, {5, 17}, {10, 10}}) {
    std::vector<std::byte> features(static_cast<std::size_t>(rows) * tagged_bytes);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
    file.read("train", first, features, labels);
    for (int row = 0; row < rows; ++row) {
      const auto begin = features.begin() + static_cast<long>(tagged_bytes) * row;
      EXPECT_EQ(std::vector(begin, begin + tagged_bytes), tagged_row(first + row));
      EXPECT_EQ(labels[static_cast<std::size_t>(row)], (first + row) % tagged_classes);
    }
  }
  std::vector<std::byte> features(2 * tagged_bytes);
  std::vector<std::int64_t> labels(2);
  EXPECT_THROW(file.read("train", 1002, features, labels), UsageError);
  EXPECT_THROW(file.read("train", -1, features, labels), UsageError);
  EXPECT_THROW(file.read("train", 0, std::span(features).first(3), labels), UsageError);
}

TEST_F(DatasetFileTest, ReadsInBlocksOfAboutAMebibyte) {
  const DatasetFile small_chunks(write_tagged("small.h5", 20, 0, 10));
  EXPECT_EQ(small_chunks.split("train").block_rows % 10, 0);
  EXPECT_NEAR(static_cast<double>(small_chunks.split("train").block_rows), 65536, 10);
  const DatasetFile default_chunks(write_tagged("default.h5", 20));
  EXPECT_EQ(default_chunks.split("train").chunk_rows, 65536);
  EXPECT_EQ(default_chunks.split("train").block_rows, 65536);
}

TEST_F(DatasetFileTest, EqualInputGivesEqualFiles) {
  const auto bytes = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string first = bytes(write_tagged("first.h5", 100, 10));
  EXPECT_EQ(first, bytes(write_tagged("second.h5", 100, 10)));
}

TEST_F(DatasetFileTest, AppearsOnlyWhenFinished) {
  const std::int64_t label = 0;
  {
    DatasetWriter writer(path("new/set.h5"), tagged_info());
    writer.append("train", tagged_row(0), std::span(&label, 1));
    EXPECT_FALSE(std::filesystem::exists(path("new/set.h5")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(path("new")));

  const std::string old = write_tagged("new/set.h5", 3);
  {
    DatasetWriter writer(old, tagged_info());
    writer.append("train", tagged_row(0), std::span(&label, 1));
    EXPECT_EQ(DatasetFile(old).split("train").samples, 3);
    writer.finish();
  }
  EXPECT_EQ(DatasetFile(old).split("train").samples, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("new")), {}), 1);
}

TEST_F(DatasetFileTest, WriterRefusesWhatDoesNotFit) {
  DatasetInfo info = tagged_info();
  info.class_names = {"only one"};
  EXPECT_THROW(DatasetWriter(path("x.h5"), info), UsageError);
  info = tagged_info();
  info.dtype = DType::float64;
  EXPECT_THROW(DatasetWriter(path("x.h5"), info), UsageError);

  DatasetWriter writer(path("x.h5"), tagged_info());
  const std::int64_t label = tagged_classes;
  EXPECT_THROW(writer.append("train", tagged_row(0), std::span(&label, 1)), DataError);
  EXPECT_THROW(writer.append("train", {}, std::span(&label, 1)), UsageError);
  EXPECT_THROW(DatasetWriter("/proc/none/x.h5", tagged_info()), DataError);
}

TEST_F(DatasetFileTest, NoticesAChangedByte) {
  const std::string name = write_tagged("tagged.h5", 100, 20, 10);
  EXPECT_THAT(find_damage(DatasetFile(name)), ElementsAre());
  damage_row(name, 57);
  const DatasetFile file(name);
  std::vector<std::byte> features(10 * tagged_bytes);
  std::vector<std::int64_t> labels(10);
  file.read("train", 40, features, labels);
  file.read("train", 50, features, labels, false);
  try {
    file.read("train", 50, features, labels);
    FAIL() << "the damage was not noticed";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr(name + ": /train: rows [50, 60) are damaged"));
    EXPECT_THAT(error.what(), HasSubstr("expected"));
  }
  EXPECT_THAT(find_damage(file), ElementsAre(HasSubstr("rows [50, 60)")));
}

TEST_F(DatasetFileTest, DescribesItself) {
  const DatasetFile file(write_tagged("tagged.h5", 15, 7));
  EXPECT_EQ(summary(file.info()), "15 train and 7 test samples of uint8 [2, 8], 7 classes");
  EXPECT_THAT(describe(file), HasSubstr("name      tagged\n"));
  EXPECT_THAT(describe(file),
              HasSubstr("        0  -                                  3           1"));
}

}  // namespace
}  // namespace lockstep::data
