#include "data/importers/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/importers/csv_reader.h"
#include "framework/base/error.h"
#include "tests/data/dataset_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Fields = std::vector<std::string>;

class CsvTest : public DatasetTest {
 protected:
  CsvTest() { options_.out = path("out.h5"); }

  std::vector<Fields> rows_of(const std::string& text, char delimiter = ',') const {
    CsvReader reader(write_text("table.csv", text), delimiter);
    std::vector<Fields> rows;
    Fields fields;
    while (reader.read_row(fields)) rows.push_back(fields);
    return rows;
  }

  DatasetFile import(const std::string& text) {
    options_.file = write_text("table.csv", text);
    import_csv(options_);
    return DatasetFile(options_.out);
  }

  template <class Matcher>
  void expect_refused(const std::string& text, const Matcher& matcher) {
    try {
      import(text);
      FAIL() << "not refused";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path("table.csv")), matcher));
    }
    EXPECT_FALSE(std::filesystem::exists(options_.out));
  }

  static std::vector<float> features_of(const DatasetFile& file, const std::string& split) {
    const std::int64_t rows = file.split(split).samples;
    std::vector<float> features(static_cast<std::size_t>(rows * file.info().feature_shape.count()));
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
    file.read(split, 0, std::as_writable_bytes(std::span(features)), labels);
    return features;
  }
  static std::vector<std::int64_t> labels_of(const DatasetFile& file, const std::string& split) {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(file.split(split).samples));
    file.read_labels(split, 0, labels);
    return labels;
  }

  CsvOptions options_;
};

TEST_F(CsvTest, ReadsRows) {
  EXPECT_THAT(rows_of("a,b\n1,2\n"), ElementsAre(Fields{"a", "b"}, Fields{"1", "2"}));
  EXPECT_THAT(rows_of("a , b\r\n\r\n  \n1,,\n ,2"),
              ElementsAre(Fields{"a", "b"}, Fields{"1", "", ""}, Fields{"", "2"}));
  EXPECT_THAT(rows_of("\xEF\xBB\xBF"
                      "a;b",
                      ';'),
              ElementsAre(Fields{"a", "b"}));
  EXPECT_THAT(rows_of("a\t\tb\n", '\t'), ElementsAre(Fields{"a", "", "b"}));
  EXPECT_THAT(rows_of(""), ElementsAre());
  EXPECT_THAT(rows_of(std::string(9000, 'x') + ",1"),
              ElementsAre(Fields{std::string(9000, 'x'), "1"}));
}

TEST_F(CsvTest, ReadsQuotedFields) {
  EXPECT_THAT(rows_of("\"a,b\",\"say \"\"hi\"\"\"\n"), ElementsAre(Fields{"a,b", "say \"hi\""}));
  EXPECT_THAT(rows_of("\"two\nlines\" , x\n\"\",\"\"\n"),
              ElementsAre(Fields{"two\nlines", "x"}, Fields{"", ""}));
  EXPECT_THROW(rows_of("\"a"), DataError);
  EXPECT_THROW(rows_of("\"a\"b,c"), DataError);
}

TEST_F(CsvTest, CountsLines) {
  CsvReader reader(write_text("table.csv", "\n\"a\nb\",1\n\n2,3\n"), ',');
  Fields fields;
  ASSERT_TRUE(reader.read_row(fields));
  EXPECT_EQ(reader.line(), 2);
  ASSERT_TRUE(reader.read_row(fields));
  EXPECT_EQ(reader.line(), 5);
}

TEST_F(CsvTest, ImportsNumberedClasses) {
  const DatasetFile file = import("1,2.5,0\n-3,4e1,2\n+5,6,0\n");
  EXPECT_EQ(file.info().dtype, DType::float32);
  EXPECT_EQ(file.info().feature_shape, Shape{2});
  EXPECT_EQ(file.info().classes, 3);
  EXPECT_TRUE(file.info().class_names.empty());
  EXPECT_EQ(features_of(file, "train"), (std::vector<float>{1, 2.5, -3, 40, 5, 6}));
  EXPECT_EQ(labels_of(file, "train"), (std::vector<std::int64_t>{0, 2, 0}));
  EXPECT_EQ(file.info().splits.size(), 1);
  EXPECT_NEAR(file.info().normalization.mean.at(0), 1, 1e-12);
  EXPECT_NEAR(file.info().normalization.std.at(0), std::sqrt(32.0 / 3), 1e-12);
}

TEST_F(CsvTest, ImportsNamedClasses) {
  options_.label = "kind";
  const DatasetFile file = import("kind,width\nrose,1\ndaisy,2\nrose,3\n");
  EXPECT_THAT(file.info().class_names, ElementsAre("daisy", "rose"));
  EXPECT_EQ(labels_of(file, "train"), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(features_of(file, "train"), (std::vector<float>{1, 2, 3}));

  options_.class_names = {"rose", "tulip", "daisy"};
  EXPECT_EQ(labels_of(import("kind,width\nrose,1\ndaisy,2\n1,3\n"), "train"),
            (std::vector<std::int64_t>{0, 2, 1}));
}

TEST_F(CsvTest, FindsTheHeaderAndTheLabels) {
  EXPECT_EQ(import("a,b\n1,0\n").split("train").samples, 1);
  EXPECT_EQ(import("1,0\n1,0\n").split("train").samples, 2);
  options_.header = CsvHeader::present;
  EXPECT_EQ(import("1,0\n1,0\n").split("train").samples, 1);
  options_.header = CsvHeader::absent;
  options_.label = "1";
  EXPECT_EQ(labels_of(import("0,7\n1,8\n"), "train"), (std::vector<std::int64_t>{0, 1}));
  options_.label = "3";
  std::filesystem::remove(options_.out);
  expect_refused("0,7\n", HasSubstr(":1: found no column '3' for the labels, expected a number"));
  options_.header = CsvHeader::automatic;
  options_.label = "size";
  expect_refused("kind,width\n",
                 HasSubstr("found no column 'size' for the labels, expected a name"));
}

TEST_F(CsvTest, DrawsATestSplit) {
  std::string text;
  for (int row = 0; row < 1000; ++row)
    text += std::to_string(row) + "," + std::to_string(row % 2) + "\n";
  options_.test_fraction = 0.25;
  const DatasetFile file = import(text);
  EXPECT_EQ(file.split("train").samples, 750);
  const auto test = features_of(file, "test");
  EXPECT_EQ(test.size(), 250);
  EXPECT_GT(test.back(), 900);
  auto all = features_of(file, "train");
  all.insert(all.end(), test.begin(), test.end());
  std::ranges::sort(all);
  for (std::size_t row = 0; row < all.size(); ++row) EXPECT_EQ(all[row], static_cast<float>(row));

  EXPECT_EQ(features_of(import(text), "test"), test);
  options_.seed = 1;
  EXPECT_NE(features_of(import(text), "test"), test);
  options_.test_fraction = 1;
  EXPECT_THROW(import(text), UsageError);
  options_.test_fraction = 0.9;
  std::filesystem::remove(options_.out);
  expect_refused("1,0\n2,0\n", HasSubstr("left for training"));
}

TEST_F(CsvTest, TakesATestFile) {
  options_.test_file = write_text("test.csv", "9,a\n8,b\n");
  const DatasetFile file = import("1,b\n2,a\n");
  EXPECT_EQ(labels_of(file, "test"), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(features_of(file, "test"), (std::vector<float>{9, 8}));
  EXPECT_NEAR(file.info().normalization.mean.at(0), 1.5, 1e-12);
  write_text("test.csv", "9,c\n");
  EXPECT_THROW(import("1,b\n2,a\n"), DataError);
  write_text("test.csv", "9,9,a\n");
  EXPECT_THROW(import("1,b\n2,a\n"), DataError);
}

TEST_F(CsvTest, NamesThePlaceOfAnError) {
  expect_refused("", HasSubstr("found no rows"));
  expect_refused("a,b\n", HasSubstr("found no rows after the header"));
  expect_refused("1;0\n", HasSubstr(":1: found 1 column with the delimiter ','"));
  expect_refused("1,0\n2,3,1\n", HasSubstr(":2: found 3 columns, expected 2"));
  expect_refused("width,kind\n1,0\n\nwide,1\n",
                 HasSubstr(":4: column 1 (width): found 'wide', expected a finite number"));
  expect_refused("1,0\n,1\n", HasSubstr(":2: column 1: found '', expected a finite number"));
  expect_refused("1,0\nnan,1\n", HasSubstr(":2: column 1: found 'nan'"));
  expect_refused("1,0\n1e99,1\n", HasSubstr(":2: column 1: found '1e99'"));
  options_.class_names = {"a", "b"};
  expect_refused("1,a\n2,c\n", HasSubstr(":2: column 2: found label 'c', expected one of a, b"));
  expect_refused("1,a\n2,2\n", HasSubstr("found label '2', expected one of a, b"));
}

TEST_F(CsvTest, RefusesLabelsThatAreNoClasses) {
  std::string text;
  for (int row = 0; row < 10002; ++row) text += "1," + std::to_string(row) + ".5\n";
  expect_refused(text, HasSubstr(":10001: column 2: found label '10000.5'"));
}

}  // namespace
}  // namespace lockstep::data
