// Bad configurations, command lines and data files: exit code and message, before any work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/hdf5.h"
#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* base_config = R"(seed: 7
model: {name: mlp, hidden: [16, 8]}
data: {file: data.h5}
train: {epochs: 1, batch_size: 64}
optimizer: {name: sgd, lr: 0.05}
)";

// CONF-1, CONF-2
TEST(Configuration, ListsEveryErrorOfTheFileAtOnce) {
  const Sandbox sandbox;
  sandbox.write("bad.yaml", R"(learning_rte: 0.1
model: {name: mlp, hidden: [16, 0]}
data: {file: data.h5, lr: 3}
train:
  epochs: 1.5
  batch_size: -1
optimizer:
  name: sgd
  lr: fast
  momentun: 0.9
data_parallel: {bucket_mib: 0}
)");
  for (const Arguments& command : {Arguments{train_program, "--config", "bad.yaml", "--gpus", "8"},
                                   Arguments{train_program, "check-config", "bad.yaml"}}) {
    const auto end = sandbox.run(command);
    EXPECT_EQ(end.exit_code, 2);
    EXPECT_LT(end.seconds, 5);
    EXPECT_THAT(end.output, AllOf(HasSubstr("bad.yaml:1"), HasSubstr("learning_rte"),
                                  HasSubstr("bad.yaml:2"), HasSubstr("model.hidden")));
    EXPECT_THAT(end.output,
                AllOf(HasSubstr("train.epochs"), HasSubstr("1.5"), HasSubstr("train.batch_size"),
                      HasSubstr("-1"), HasSubstr("optimizer.lr"), HasSubstr("fast"),
                      HasSubstr("optimizer.momentum")));
    EXPECT_THAT(end.output, AllOf(HasSubstr("data_parallel.bucket_mib"), HasSubstr("bad.yaml:10")));
    EXPECT_THAT(end.output, Not(HasSubstr("files of this run")));
  }
  EXPECT_FALSE(fs::exists(sandbox.path("runs")));
}

struct BadText {
  const char* name;
  const char* text;
  const char* expected;
};

class BadConfiguration : public ::testing::TestWithParam<BadText> {};
INSTANTIATE_TEST_SUITE_P(
    Files, BadConfiguration,
    ::testing::Values(BadText{"empty", "", "bad.yaml"},
                      BadText{"not_a_mapping", "- 1\n- 2\n", "bad.yaml"},
                      BadText{"broken", "model: {name: mlp\n", "bad.yaml"},
                      BadText{
                          "nan",
                          "model: {name: mlp}\ndata: {file: d}\ntrain: {epochs: 1, batch_size: 8}\n"
                          "optimizer: {name: sgd, lr: .nan}\n",
                          "optimizer.lr"},
                      BadText{"missing",
                              "model: {name: mlp}\ntrain: {epochs: 1, batch_size: 8}\n"
                              "optimizer: {name: sgd, lr: 1}\n",
                              "data.file"},
                      BadText{"twice", "seed: 1\nseed: 2\nmodel: {name: mlp}\n", "seed"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(BadConfiguration, IsRefused) {
  const Sandbox sandbox;
  sandbox.write("bad.yaml", GetParam().text);
  const auto end = sandbox.run({train_program, "--config", "bad.yaml", "--gpus", "2"});
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, HasSubstr(GetParam().expected));
  EXPECT_THAT(end.output, Not(HasSubstr("bad conversion")));
}

class BadCommandLine : public ::testing::TestWithParam<Arguments> {};
INSTANTIATE_TEST_SUITE_P(
    Words, BadCommandLine,
    ::testing::Values(Arguments{"--config", "config.yaml", "--gpus", "0"},
                      Arguments{"--config", "config.yaml", "--gpus", "-1"},
                      Arguments{"--config", "config.yaml", "--gpus", "eight"},
                      Arguments{"--config", "nothing.yaml", "--gpus", "2"},
                      Arguments{"--config", ".", "--gpus", "2"},
                      Arguments{"--config", "config.yaml", "--gpu", "2"},
                      Arguments{"--config", "config.yaml", "--gpus", "2", "--set", "train.epochs"},
                      Arguments{"--config", "config.yaml", "--gpus", "2", "--set", "a.b=3"},
                      Arguments{"--gpus", "2"}, Arguments{"inspct", "x"}));

TEST_P(BadCommandLine, IsRefusedAtOnce) {
  const Sandbox sandbox;
  Arguments command{train_program};
  command.insert(command.end(), GetParam().begin(), GetParam().end());
  const auto end = sandbox.run(command);
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_LT(end.seconds, 5);
  EXPECT_THAT(end.output, HasSubstr("error: "));
  EXPECT_FALSE(fs::exists(sandbox.path("runs")));
}

// DATA-5
void write_file_with(const std::string& path, hid_t features_type, std::vector<hsize_t> features,
                     std::vector<hsize_t> labels, const std::string& features_name = "features") {
  namespace hdf5 = data::hdf5;
  fs::copy_file(fs::path(path).parent_path() / "data.h5", path);
  const auto lock = hdf5::lock();
  const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, path);
  for (const char* name : {"/train/features", "/train/labels"})
    H5Ldelete(file.get(), name, H5P_DEFAULT);
  const auto make = [&](const std::string& name, hid_t type, const std::vector<hsize_t>& extents) {
    const hdf5::Handle space(
        H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
        name);
    const hdf5::Handle dataset(H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT,
                                          H5P_DEFAULT, H5P_DEFAULT),
                               H5Dclose, name);
  };
  make("/train/" + features_name, features_type, features);
  make("/train/labels", H5T_STD_I64LE, labels);
}

TEST(DataFile, ThatIsWrongIsExplained) {
  const Sandbox sandbox;
  const auto size = fs::file_size(sandbox.path("data.h5"));
  fs::copy_file(sandbox.path("data.h5"), sandbox.path("half.h5"));
  fs::resize_file(sandbox.path("half.h5"), size / 2);
  sandbox.write("noise.h5", std::string(10'000, '~'));
  fs::create_directory(sandbox.path("folder.h5"));
  write_file_with(sandbox.path("misnamed.h5"), H5T_IEEE_F32LE, {10, 12}, {10}, "featurs");
  const data::hdf5::Handle text(H5Tcopy(H5T_C_S1), H5Tclose, "text");
  write_file_with(sandbox.path("text.h5"), text.get(), {10, 12}, {10});
  write_file_with(sandbox.path("labels.h5"), H5T_IEEE_F32LE, {10, 12}, {10, 1});
  write_file_with(sandbox.path("rows.h5"), H5T_IEEE_F32LE, {10, 12}, {9});
  write_file_with(sandbox.path("double.h5"), H5T_IEEE_F64LE, {10, 12}, {10});
  for (const char* name : {"missing.h5", "half.h5", "noise.h5", "folder.h5", "misnamed.h5",
                           "text.h5", "labels.h5", "rows.h5", "double.h5"}) {
    const auto end = sandbox.run(sandbox.train(4, {std::string("data.file=") + name}));
    EXPECT_EQ(end.exit_code, 3) << name << ": " << end.output;
    EXPECT_LT(end.seconds, 5);
    EXPECT_THAT(end.last_line, HasSubstr(name));
    EXPECT_THAT(end.output, Not(HasSubstr("HDF5-DIAG"))) << "the library's stack dump";
    EXPECT_THAT(end.output, Not(HasSubstr("buckets:"))) << "before training";
  }
}

TEST(RunFolder, ThatCannotBeIsFoundBeforeTheFirstStep) {
  const Sandbox sandbox;
  sandbox.write("a_file", "x");
  const auto end = sandbox.run(sandbox.train(2, {"run.folder=a_file"}));
  EXPECT_EQ(end.exit_code, 4) << end.output;
  EXPECT_THAT(end.output, HasSubstr("a_file"));
}

// CONF-1: what a key is set to shows in the effective configuration that a run keeps.
// With a number of workers check-config refuses what train does on this machine, in its words;
// without, the file may be for another machine, and a line says what would be refused here.
TEST(Configuration, IsCheckedForThisMachineWhereWorkersAreGiven) {
  const Sandbox sandbox;
  struct Case {
    Arguments more;
    int code;
    std::string text;
  };
  const std::vector<Case> cases{
      {{"--device", "cpu", "--set", "compute.graph=on"}, 2, "compute.graph: found on"},
      {{"--set", "compute.products=tf32", "--device", "cpu"}, 2, "compute.products: found tf32"},
      {{"--backend", "gloo", "--set", "comm.algorithm=two_shot"}, 2, "error: comm."},
      {{"--interface", "nosuch0"}, 2, "comm.interface: found nosuch0"},
  };
  for (const Case& c : cases) {
    Arguments check{train_program, "check-config", "config.yaml", "--gpus", "2"};
    check.insert(check.end(), c.more.begin(), c.more.end());
    const auto checked = sandbox.run(check);
    EXPECT_EQ(checked.exit_code, c.code) << checked.output;
    EXPECT_THAT(checked.last_line, HasSubstr(c.text));
    const auto trained = sandbox.run(sandbox.train(2, {}, c.more));
    EXPECT_EQ(trained.exit_code, c.code);
    EXPECT_EQ(trained.last_line, checked.last_line);
  }
}

TEST(Configuration, ForGpusIsRightAndRefusedHere) {
  const Sandbox sandbox;
  const Arguments settings{"--set", "compute.graph=on", "--set", "compute.products=bfloat16"};
  for (const bool has_gpus : {false, true}) {
    Arguments check{LOCKSTEP_TRAIN_EMULATED, "check-config", "config.yaml"};
    check.insert(check.end(), settings.begin(), settings.end());
    const Environment environment{{"LOCKSTEP_EMULATION_DEVICES", has_gpus ? "2" : "0"}};
    const auto file = sandbox.run(check, environment);
    EXPECT_EQ(file.exit_code, 0) << file.output;
    EXPECT_EQ(file.output.find("warning: train would refuse this on this machine: compute.") !=
                  std::string::npos,
              !has_gpus)
        << file.output;
    check.insert(check.end(), {"--gpus", "2"});
    const auto here = sandbox.run(check, environment);
    EXPECT_EQ(here.exit_code, has_gpus ? 0 : 2) << here.output;
    if (has_gpus) {
      EXPECT_THAT(here.output,
                  AllOf(HasSubstr("# world size 2: training on 2 GPUs"), HasSubstr("device: cuda"),
                        HasSubstr("# backend ring: auto"), HasSubstr("backend: ring")));
    }
  }
}

TEST(Configuration, EffectiveIsKeptAndReadsBack) {
  const Sandbox sandbox;
  sandbox.write("other.yaml", base_config);
  const auto end = sandbox.run({train_program, "--config", "other.yaml", "--gpus", "2", "--set",
                                "optimizer.momentum=0.5", "--set", "data.prefetch=3"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  const std::string kept = run_folder(sandbox, end) + "/config.yaml";
  const auto shown = sandbox.run({train_program, "check-config", kept});
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, AllOf(HasSubstr("momentum: 0.5"), HasSubstr("prefetch: 3")));
  const auto again = sandbox.run({train_program, "--config", kept, "--gpus", "2"});
  EXPECT_EQ(final_weights(again), final_weights(end));
}

TEST(CommandLine, ShowsCountsAsTheyWereTyped) {
  const Sandbox sandbox;
  const auto end =
      sandbox.run({train_program, "--config", "config.yaml", "--gpus", "99999999999999999999"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.output, ::testing::HasSubstr("found 99999999999999999999,"));
}

}  // namespace
}  // namespace lockstep::tests
