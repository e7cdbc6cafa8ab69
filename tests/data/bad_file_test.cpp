// Files that are not data sets, or not quite (check DATA-5): one message with the file, the
// dataset, what was found and what was expected, and the file closed again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "data/dataset_file.h"
#include "data/hdf5.h"
#include "data/hdf5_attributes.h"
#include "framework/base/error.h"
#include "tests/data/dataset_fixture.h"

namespace lockstep::data {
namespace {

using hdf5::Handle;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What a file made by hand consists of; the defaults are right.
struct Content {
  std::vector<hsize_t> features{10, 4};
  hid_t features_type = H5T_NATIVE_UINT8;
  std::string features_name = "features";
  std::vector<hsize_t> labels{10};
  hid_t labels_type = H5T_NATIVE_INT64;
  std::int64_t label = 0;
  std::function<void(hid_t root)> change = [](hid_t) {};
};

class BadFileTest : public DatasetTest {
 protected:
  void write_dataset(hid_t group, const std::string& name, hid_t type,
                     const std::vector<hsize_t>& extents, const void* values) const {
    const Handle space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                       H5Sclose, name);
    const Handle dataset(
        H5Dcreate2(group, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose, name);
    if (values != nullptr) {
      hdf5::check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), name);
    }
  }

  std::string write(const Content& content) const {
    const auto guard = hdf5::lock();
    const std::string name = path("made.h5");
    const Handle file(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose,
                      name);
    hdf5::write_text(file.get(), "format", "lockstep-dataset", name);
    hdf5::write_integer(file.get(), "version", 1, name);
    hdf5::write_integer(file.get(), "classes", 3, name);
    const Handle group(H5Gcreate2(file.get(), "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Gclose, name);
    write_dataset(group.get(), content.features_name, content.features_type, content.features,
                  nullptr);
    const std::vector<std::int64_t> labels(1000, content.label);
    write_dataset(group.get(), "labels", content.labels_type, content.labels,
                  content.labels_type == H5T_NATIVE_INT64 ? labels.data() : nullptr);
    content.change(file.get());
    return name;
  }

  template <class Matcher>
  void expect_refused(const std::string& name, const Matcher& matcher) const {
    try {
      DatasetFile file(name);
      FAIL() << "not refused";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(name), HasSubstr("expected"), Not(HasSubstr("\n")), matcher));
    }
    expect_closed(name);
  }

  static void expect_closed(const std::string& name) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      EXPECT_NE(std::filesystem::read_symlink(entry, ignored), name) << "left open";
    }
  }
};

TEST_F(BadFileTest, AcceptsARightFileMadeByHand) {
  const DatasetFile file(write({}));
  EXPECT_EQ(file.split("train").samples, 10);
  EXPECT_FALSE(file.split("train").has_checksums);
  EXPECT_EQ(file.info().normalization, Normalization{});
  std::vector<std::byte> features(40);
  std::vector<std::int64_t> labels(10, -1);
  file.read("train", 0, features, labels);
  EXPECT_EQ(labels, std::vector<std::int64_t>(10, 0));
}

TEST_F(BadFileTest, ClosesAFile) {
  const std::string name = write({});
  { const DatasetFile file(name); }
  expect_closed(name);
}

TEST_F(BadFileTest, Missing) {
  expect_refused(path("none.h5"), HasSubstr("no such file"));
}

TEST_F(BadFileTest, Directory) {
  std::filesystem::create_directory(path("folder.h5"));
  expect_refused(path("folder.h5"), HasSubstr("found a directory"));
}

TEST_F(BadFileTest, Truncated) {
  const std::string name = write_tagged("set.h5", 1000, 100, 10);
  std::filesystem::resize_file(name, std::filesystem::file_size(name) / 2);
  expect_refused(name, HasSubstr("truncated file"));
}

TEST_F(BadFileTest, RandomBytesEmptyAndText) {
  std::string bytes(100000, '\0');
  std::uint64_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = base::hash64("", state)) >> 56);
  expect_refused(write_text("random.h5", bytes), HasSubstr("signature"));
  expect_refused(write_text("empty.h5", ""), HasSubstr("HDF5"));
  expect_refused(write_text("text.h5", "sepal,petal\n1,2\n"), HasSubstr("HDF5"));
}

TEST_F(BadFileTest, AnotherFormatOrVersion) {
  expect_refused(write({.change = [](hid_t root) { H5Adelete(root, "format"); }}),
                 HasSubstr("'format': found none, expected 'lockstep-dataset'"));
  const auto format = [](hid_t root) {
    H5Adelete(root, "format");
    hdf5::write_text(root, "format", "lockstep-checkpoint", "");
  };
  expect_refused(write({.change = format}), HasSubstr("found 'lockstep-checkpoint'"));
  const auto number = [](hid_t root) {
    H5Adelete(root, "format");
    hdf5::write_integer(root, "format", 1, "");
  };
  expect_refused(write({.change = number}), HasSubstr("'format': found 1 value(s) of type int64"));
  const auto version = [](hid_t root) {
    H5Adelete(root, "version");
    hdf5::write_integer(root, "version", 2, "");
  };
  expect_refused(write({.change = version}), HasSubstr("'version': found 2, expected 1"));
}

TEST_F(BadFileTest, AnotherDatasetName) {
  expect_refused(write({.features_name = "x"}),
                 AllOf(HasSubstr("/train: found 'labels', 'x'"), HasSubstr("'features'")));
}

TEST_F(BadFileTest, NoSplits) {
  const auto change = [](hid_t root) { H5Ldelete(root, "train", H5P_DEFAULT); };
  expect_refused(write({.change = change}), HasSubstr("found no groups"));
}

TEST_F(BadFileTest, ADatasetForASplit) {
  const auto change = [this](hid_t root) {
    write_dataset(root, "x", H5T_NATIVE_INT64, {3}, nullptr);
  };
  expect_refused(write({.change = change}), HasSubstr("/x: found something else than a group"));
}

TEST_F(BadFileTest, FeaturesOfAnotherType) {
  const auto guard = hdf5::lock();
  const Handle text(H5Tcopy(H5T_C_S1), H5Tclose, "");
  H5Tset_size(text.get(), 8);
  expect_refused(write({.features_type = text.get()}),
                 HasSubstr("/train/features: found elements of type text, expected uint8"));
  expect_refused(write({.features_type = H5T_NATIVE_DOUBLE}),
                 HasSubstr("/train/features: found elements of type float64"));
  expect_refused(write({.features_type = H5T_NATIVE_INT8}), HasSubstr("type int8"));
}

TEST_F(BadFileTest, FeaturesOfAnotherShape) {
  expect_refused(write({.features = {10}}), HasSubstr("found shape [10], expected [N, ...]"));
  expect_refused(write({.features = {10, 0}}), HasSubstr("found shape [10, 0]"));
  expect_refused(write({.features = {10, 1, 1, 1, 1, 1, 1, 1, 1}}), HasSubstr("1 to 7 feature"));
  expect_refused(write({.features = {}}), HasSubstr("found shape []"));
}

TEST_F(BadFileTest, MoreRowsThanCanBeAddressed) {
  const hsize_t rows = hsize_t{1} << 62;
  const auto change = [&](hid_t root) {
    const Handle group(H5Gcreate2(root, "test", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                       "test");
    for (const auto& [name, type] :
         {std::pair{"features", H5T_NATIVE_UINT8}, {"labels", H5T_NATIVE_INT64}}) {
      const std::vector<hsize_t> extents =
          name == std::string("labels") ? std::vector{rows / 8} : std::vector<hsize_t>{rows / 8, 4};
      std::vector<hsize_t> chunk(extents.size(), 4);
      const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, name);
      H5Pset_chunk(layout.get(), static_cast<int>(chunk.size()), chunk.data());
      const Handle space(
          H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
          name);
      const Handle dataset(
          H5Dcreate2(group.get(), name, type, space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT),
          H5Dclose, name);
    }
  };
  try {
    DatasetFile file(write({.change = change}));
    FAIL() << "not refused";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("more than can be addressed"));
  }
}

TEST_F(BadFileTest, LabelsOfAnotherTypeOrShape) {
  expect_refused(write({.labels = {10, 1}}),
                 HasSubstr("/train/labels: found shape [10, 1], expected [N]"));
  expect_refused(write({.labels = {9}}),
                 HasSubstr("/train/labels: found 9 rows, expected 10 as in 'features'"));
  expect_refused(write({.labels_type = H5T_NATIVE_DOUBLE}),
                 HasSubstr("type float64, expected int64"));
  expect_refused(write({.labels_type = H5T_NATIVE_INT32}), HasSubstr("type int32, expected int64"));
}

TEST_F(BadFileTest, LabelsOutOfRange) {
  for (const std::int64_t label : {std::int64_t{3}, std::int64_t{-1}}) {
    const DatasetFile file(write({.label = label}));
    std::vector<std::byte> features(8);
    std::vector<std::int64_t> labels(2);
    try {
      file.read("train", 4, features, labels);
      FAIL() << "not refused";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("/train/labels: found label " + std::to_string(label) +
                                          " in row 4, expected 0 to 2"));
    }
    EXPECT_THROW(file.read_labels("train", 0, labels), DataError);
  }
}

TEST_F(BadFileTest, SplitsThatDiffer) {
  const auto change = [this](hid_t root) {
    const Handle group(H5Gcreate2(root, "test", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                       "test");
    write_dataset(group.get(), "features", H5T_NATIVE_FLOAT, {2, 4}, nullptr);
    write_dataset(group.get(), "labels", H5T_NATIVE_INT64, {2}, nullptr);
  };
  expect_refused(write({.change = change}),
                 HasSubstr("/test/features: found samples of float32 [4], expected uint8 [4] as in "
                           "/train"));
}

TEST_F(BadFileTest, ClassesAndNames) {
  expect_refused(write({.change = [](hid_t root) { H5Adelete(root, "classes"); }}),
                 HasSubstr("'classes': found none"));
  const auto zero = [](hid_t root) {
    H5Adelete(root, "classes");
    hdf5::write_integer(root, "classes", 0, "");
  };
  expect_refused(write({.change = zero}), HasSubstr("'classes': found 0"));
  const auto names = [](hid_t root) {
    hdf5::write_texts(root, "class_names", std::vector<std::string>{"a", "b"}, "");
  };
  expect_refused(write({.change = names}), HasSubstr("'class_names': found 2 names, expected 3"));
}

TEST_F(BadFileTest, NormalizationThatDoesNotFit) {
  const auto with = [&](const std::string& name, const std::vector<double>& values) {
    return write({.change = [&](hid_t root) { hdf5::write_reals(root, name, values, ""); }});
  };
  expect_refused(with("mean", {1, 2}), HasSubstr("'mean': found 2 values, expected 1 or 4"));
  expect_refused(with("mean", {NAN}), HasSubstr("'mean': found nan, expected a finite number"));
  expect_refused(with("std", {0}), HasSubstr("'std': found 0, expected a positive number"));
  expect_refused(with("scale", {0}), HasSubstr("'scale': found [0]"));
  const auto text = [](hid_t root) { hdf5::write_text(root, "mean", "0.5", ""); };
  expect_refused(write({.change = text}), HasSubstr("'mean': found 1 value(s) of type text"));
}

TEST_F(BadFileTest, ChecksumsThatDoNotFit) {
  const auto change = [this](hid_t root) {
    const Handle group(H5Gopen2(root, "train", H5P_DEFAULT), H5Gclose, "train");
    write_dataset(group.get(), "checksums", H5T_NATIVE_UINT64, {3}, nullptr);
  };
  expect_refused(write({.change = change}), HasSubstr("/train/checksums: found type uint64 and"));
}

TEST_F(BadFileTest, AnotherSplitName) {
  const DatasetFile file(write({}));
  try {
    file.split("validation");
    FAIL() << "not refused";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("found splits 'train', expected 'validation'"));
  }
}

TEST_F(BadFileTest, ReadsTextsOfFixedLength) {
  const auto change = [](hid_t root) {
    H5Adelete(root, "format");
    const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "");
    H5Tset_size(type.get(), 20);
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "");
    const Handle attribute(
        H5Acreate2(root, "format", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
        "");
    H5Awrite(attribute.get(), type.get(), "lockstep-dataset\0\0\0\0");
  };
  EXPECT_EQ(DatasetFile(write({.change = change})).split("train").samples, 10);
}

}  // namespace
}  // namespace lockstep::data
