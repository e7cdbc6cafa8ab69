// Data set files for tests: rows that know who they are, and a folder that goes away.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/dataset_writer.h"
#include "framework/base/hash.h"

namespace lockstep::data {

inline constexpr std::int64_t tagged_classes = 7;
inline constexpr std::size_t tagged_bytes = 16;

// How row `index` begins: its index and a hash of it, as uint8.
inline std::vector<std::byte> tagged_row(std::int64_t index) {
  std::vector<std::byte> row(tagged_bytes);
  std::memcpy(row.data(), &index, sizeof(index));
  const std::uint64_t hash = base::hash64(std::span(row).first(sizeof(index)));
  std::memcpy(row.data() + sizeof(index), &hash, sizeof(hash));
  return row;
}

// The index of a row that came back as numbers; fails the test when it is not what tagged_row()
// made.
template <class T>
std::int64_t tag_of(std::span<const T> values) {
  std::vector<std::byte> row;
  for (const T value : values.first(tagged_bytes)) row.push_back(static_cast<std::byte>(value));
  std::int64_t index = 0;
  std::memcpy(&index, row.data(), sizeof(index));
  EXPECT_EQ(row, tagged_row(index));
  return index;
}

inline DatasetInfo tagged_info(std::size_t row_bytes = tagged_bytes) {
  DatasetInfo info;
  info.name = "tagged";
  info.feature_shape = Shape{2, static_cast<std::int64_t>(row_bytes) / 2};
  info.classes = tagged_classes;
  return info;
}

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    std::ranges::replace(name, '/', '-');
    folder_ = std::filesystem::temp_directory_path() /
              ("lockstep-" + name + "-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~DatasetTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write_text(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  // Changes one byte of the tag of row `index` of a file.
  static void damage_row(const std::string& file, std::int64_t index) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    const auto tag = tagged_row(index);
    const std::size_t at =
        bytes.find(std::string(reinterpret_cast<const char*>(tag.data()), tag.size()));
    ASSERT_NE(at, std::string::npos);
    stream.clear();
    stream.seekp(static_cast<std::streamoff>(at + tag.size() - 1));
    stream.put(static_cast<char>(~bytes[at + tag.size() - 1]));
  }

  // A file of `train` (and `test`) rows that begin as tagged_row() says, of `row_bytes` bytes.
  std::string write_tagged(const std::string& name, std::int64_t train, std::int64_t test = 0,
                           std::int64_t chunk_rows = 0, std::size_t row_bytes = tagged_bytes) const;

 private:
  std::filesystem::path folder_;
};

inline std::string DatasetTest::write_tagged(const std::string& name, std::int64_t train,
                                             std::int64_t test, std::int64_t chunk_rows,
                                             std::size_t row_bytes) const {
  DatasetWriter writer(path(name), tagged_info(row_bytes), chunk_rows);
  std::vector<std::byte> bytes(row_bytes);
  const auto append = [&](const std::string& split, std::int64_t rows) {
    writer.add_split(split);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t label = row % tagged_classes;
      std::ranges::copy(tagged_row(row), bytes.begin());
      writer.append(split, bytes, std::span(&label, 1));
    }
  };
  append("train", train);
  append("test", test);
  writer.finish();
  return path(name);
}

}  // namespace lockstep::data
