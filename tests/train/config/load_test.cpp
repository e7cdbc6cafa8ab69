#include "train/config/load.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "framework/base/error.h"
#include "train/config/locate.h"
#include "train/config/print.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

constexpr const char* minimal =
    "model: {name: mlp}\n"
    "data: {file: a.h5}\n"
    "train: {batch_size: 64}\n"
    "optimizer: {name: sgd, lr: 0.1}\n";

std::string errors_of(const std::string& text, const std::vector<Override>& overrides = {}) {
  try {
    parse_config(text, "mlp.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

Config with(const std::string& path, const std::string& value) {
  const std::vector<Override> overrides = {{path, value, "--set"}};
  return parse_config(minimal, "mlp.yaml", overrides);
}
std::string error_with(const std::string& path, const std::string& value) {
  return errors_of(minimal, {{path, value, "--set"}});
}

TEST(LoadConfig, FillsInTheDefaults) {
  const Config config = parse_config(minimal, "mlp.yaml");
  Config expected;
  expected.model.name = "mlp";
  expected.model.options = config.model.options;
  expected.data.file = "a.h5";
  expected.train.batch_size = 64;
  expected.optimizer.name = "sgd";
  expected.optimizer.lr = 0.1;
  EXPECT_EQ(config, expected);
  EXPECT_EQ(config.model.options.integers("hidden"), (std::vector<std::int64_t>{512, 256}));
  EXPECT_EQ(config.model.options.text("activation"), "relu");
}

TEST(LoadConfig, ReadsEveryWayToWriteAValue) {
  EXPECT_EQ(with("optimizer.lr", "1e-3").optimizer.lr, 1e-3);
  EXPECT_EQ(with("optimizer.lr", "3").optimizer.lr, 3.0);
  EXPECT_EQ(with("optimizer.lr", "+.5").optimizer.lr, 0.5);
  EXPECT_EQ(with("data.memory_limit", "1.5MiB").data.memory_limit, std::size_t{3} << 19);
  EXPECT_EQ(with("data.memory_limit", "4096").data.memory_limit, 4096u);
  EXPECT_EQ(with("data.memory_limit", "2 GB").data.memory_limit, 2'000'000'000u);
  EXPECT_EQ(with("data.file", "\"7\"").data.file, "7");
  EXPECT_EQ(with("data.file", "a b.h5").data.file, "a b.h5");
  EXPECT_EQ(with("data.shuffle", "false").data.shuffle, false);
  EXPECT_EQ(with("optimizer.per_bucket", "off").optimizer.per_bucket, "off");
  EXPECT_EQ(with("checkpoint.every_epochs", "null").checkpoint.every_epochs, std::nullopt);
  EXPECT_EQ(with("checkpoint.every_epochs", "").checkpoint.every_epochs, std::nullopt);
  EXPECT_EQ(with("checkpoint.every_epochs", "~").checkpoint.every_epochs, std::nullopt);
  EXPECT_EQ(with("compute.threads", "auto").compute.threads, std::nullopt);
  EXPECT_EQ(with("compute.threads", "3").compute.threads, 3);
  EXPECT_EQ(with("train.dtype", "float64").train.dtype, DType::float64);
  EXPECT_EQ(with("seed", "9223372036854775807").seed, 9223372036854775807u);
  EXPECT_EQ(with("model.hidden", "[]").model.options.integers("hidden").size(), 0u);
  EXPECT_EQ(with("model.hidden", "[7, 8]").model.options.integers("hidden").size(), 2u);
}

TEST(LoadConfig, SaysEveryMistakeAtOnceWithItsPlace) {
  const std::string text =
      "learning_rte: 0.1\n"
      "model: {name: mlp, hiden: [1]}\n"
      "data:\n"
      "  file: a.h5\n"
      "  lr: 0.1\n"
      "  deep: {er: {learning_rte: 0.1}}\n"
      "train:\n"
      "  epochs: 1.5\n"
      "  epochs: 2\n"
      "  batch_size: 0\n"
      "optimizer:\n"
      "  name: sgd\n"
      "  lr: fast\n"
      "data_parallel: {bucket_mib: 0}\n"
      "schedule: cosine\n"
      "shedule: {warmup_steps: -1}\n";
  EXPECT_EQ(
      errors_of(text),
      "mlp.yaml: 12 mistakes\n"
      "mlp.yaml:1: learning_rte: unknown key, did you mean optimizer.lr?\n"
      "mlp.yaml:2: model.hiden: unknown key, did you mean model.hidden?\n"
      "mlp.yaml:5: data.lr: unknown key, did you mean optimizer.lr?\n"
      "mlp.yaml:6: data.deep.er.learning_rte: unknown key, did you mean optimizer.lr?\n"
      "mlp.yaml:8: train.epochs: found 1.5, expected integer >= 1\n"
      "mlp.yaml:9: train.epochs: is given twice, first in line 8\n"
      "mlp.yaml:10: train.batch_size: found 0, expected integer >= 1\n"
      "mlp.yaml:13: optimizer.lr: found fast, expected number > 0\n"
      "mlp.yaml:14: data_parallel.bucket_mib: found 0, expected number in [7e-05, 65536] or auto\n"
      "mlp.yaml:15: schedule: found cosine, expected a section\n"
      "mlp.yaml:16: shedule: unknown section, did you mean schedule?\n"
      "mlp.yaml:16: schedule.warmup_steps: found -1, expected integer >= 0");
}

TEST(LoadConfig, NamesWhatIsMissing) {
  EXPECT_EQ(errors_of("train: {epochs: 3}\n"),
            "mlp.yaml: 5 mistakes\n"
            "mlp.yaml: model.name: is missing, expected mlp\n"
            "mlp.yaml: data.file: is missing, expected text\n"
            "mlp.yaml: train.batch_size: is missing, expected integer >= 1\n"
            "mlp.yaml: optimizer.name: is missing, expected sgd, adam or adamw\n"
            "mlp.yaml: optimizer.lr: is missing, expected number > 0");
}

TEST(LoadConfig, RefusesWrongValues) {
  const std::pair<const char*, const char*> cases[] = {
      {"optimizer.lr", ".nan"},
      {"optimizer.lr", ".inf"},
      {"optimizer.lr", "0"},
      {"optimizer.lr", "-1"},
      {"optimizer.lr", "\"0.1\""},
      {"optimizer.lr", "[0.1]"},
      {"optimizer.lr", "{a: 1}"},
      {"optimizer.lr", "null"},
      {"optimizer.lr", "true"},
      {"optimizer.lr", "[1"},
      {"optimizer.lr", "nan"},
      {"optimizer.lr", "0x10"},
      {"optimizer.lr", "1_000"},
      {"train.epochs", "1e3"},
      {"train.epochs", "1.0"},
      {"train.epochs", "99999999999999999999"},
      {"data.shuffle", "yes"},
      {"data.shuffle", "1"},
      {"data.file", "7"},
      {"data.file", "\"\""},
      {"data.file", "null"},
      {"data.file", "[a]"},
      {"data.memory_limit", "-1"},
      {"data.memory_limit", "lots"},
      {"data.memory_limit", "1.5"},
      {"data.memory_limit", "1 XB"},
      {"model.hidden", "512"},
      {"model.hidden", "[0]"},
      {"model.hidden", "[a, b]"},
      {"model.hidden", "[1.5]"},
      {"model.hidden", "[[1]]"},
      {"model.dropout", "1"},
      {"model.activation", "step"},
      {"comm.backend", "carrier_pigeon"},
      {"compute.threads", "0"},
      {"compute.threads", "null"},
      {"comm.port", "65536"},
      {"checkpoint.keep_last", "0"},
      {"run.name", "a/b"},
      {"run.name", ".."},
      {"seed", "-1"},
      {"optimizer", "sgd"},
      {"comm.timeout", "1e300"},
  };
  for (const auto& [path, value] : cases) {
    EXPECT_THAT(error_with(path, value), HasSubstr(fmt::format("--set: {}: found", path))) << value;
  }
}

TEST(LoadConfig, ShowsTheValueAsItWasWritten) {
  EXPECT_EQ(error_with("optimizer.lr", ".nan"),
            "--set: optimizer.lr: found .nan, expected number > 0");
  EXPECT_EQ(errors_of("model: {name: mlp}\ndata: {file: [a, \"b\", {c: d}, null]}\n"
                      "train: {batch_size: 64}\noptimizer: {name: sgd, lr: 0.1}\n"),
            "mlp.yaml:2: data.file: found [a, \"b\", a section, null], expected text");
}

TEST(LoadConfig, AnUnknownModelIsOneMistake) {
  EXPECT_EQ(errors_of("model: {name: mpl, hidden: [1], depth: 3}\ndata: {file: a.h5}\n"
                      "train: {batch_size: 64}\noptimizer: {name: sgd, lr: 0.1}\n"),
            "mlp.yaml:1: model.name: found mpl, expected mlp");
}

TEST(LoadConfig, RefusesKeysWithoutEffect) {
  EXPECT_EQ(error_with("optimizer.beta1", "0.5"),
            "--set: optimizer.beta1: has an effect only with optimizer.name: adam or adamw, found "
            "sgd");
  EXPECT_THAT(error_with("schedule.factor", "0.5"), HasSubstr("only with schedule.name: step"));
  EXPECT_THAT(error_with("schedule.minimum", "0.5"), HasSubstr("only with schedule.name: cosine"));
  EXPECT_EQ(error_with("optimizer.beta1", "0.9"), "no error");  // which is what holds anyway
}

TEST(LoadConfig, ChecksKeysAgainstEachOther) {
  EXPECT_EQ(error_with("train.accumulate", "65"),
            "--set: train.accumulate: found 65, expected at most train.batch_size, which is 64");
  EXPECT_EQ(error_with("train.accumulate", "64"), "no error");
  EXPECT_THAT(error_with("optimizer.nesterov", "true"), HasSubstr("expected momentum > 0"));
  EXPECT_THAT(errors_of(minimal, {{"optimizer.per_bucket", "on", "--set"},
                                  {"train.on_nonfinite", "skip", "--set"}}),
              HasSubstr("optimizer.per_bucket: found on"));
  EXPECT_THAT(errors_of(minimal, {{"optimizer.per_bucket", "on", "--set"},
                                  {"data_parallel.sharding", "optimizer", "--set"}}),
              HasSubstr("optimizer.per_bucket: found on"));
  EXPECT_THAT(errors_of(minimal, {{"optimizer.clip_norm", "1", "--set"},
                                  {"optimizer.clip_value", "0.5", "--set"}}),
              HasSubstr("optimizer.clip_value: found 0.5 with optimizer.clip_norm: 1"));
  EXPECT_EQ(error_with("optimizer.clip_value", "0.5"), "no error");
  EXPECT_EQ(error_with("compute.products", "tf32"), "no error");
  EXPECT_THAT(errors_of(minimal, {{"compute.products", "bfloat16", "--set"},
                                  {"compute.device", "cpu", "--set"}}),
              HasSubstr("compute.products: found bfloat16, expected float32 for workers on CPUs"));
  EXPECT_THAT(errors_of(minimal, {{"compute.products", "tf32", "--set"},
                                  {"train.dtype", "float64", "--set"}}),
              HasSubstr("compute.products: found tf32 with train.dtype: float64"));
  EXPECT_THAT(error_with("optimizer.clip_value", "1e-300"),
              HasSubstr("optimizer.clip_value: found 1e-300, which is 0 in float32"));
  EXPECT_EQ(errors_of(minimal, {{"optimizer.clip_value", "1e-300", "--set"},
                                {"train.dtype", "float64", "--set"}}),
            "no error");
  EXPECT_THAT(error_with("run.trace_steps", "7"), HasSubstr("an effect only with run.trace"));
  EXPECT_EQ(error_with("run.trace_steps", "20"), "no error");  // what it is anyway
  EXPECT_EQ(error_with("comm.ranks_per_host", "2"), "no error");
  EXPECT_EQ(errors_of(minimal, {{"comm.ranks_per_host", "2", "--set"},
                                {"comm.backend", "ring+gloo", "--set"}}),
            "no error");
  EXPECT_THAT(errors_of(minimal,
                        {{"comm.ranks_per_host", "2", "--set"}, {"comm.backend", "gloo", "--set"}}),
              HasSubstr("comm.ranks_per_host: has an effect only with comm.backend"));
  EXPECT_THAT(error_with("comm.tuning_file", "\"\""), HasSubstr("comm.tuning_file: found"));
  EXPECT_THAT(error_with("data_parallel.bucket_mib", "6e-5"),
              HasSubstr("data_parallel.bucket_mib: found 6e-5, expected"));
  EXPECT_THAT(error_with("data_parallel.first_bucket_mib", "1e-9"),
              HasSubstr("data_parallel.first_bucket_mib: found 1e-9, expected"));
  EXPECT_THAT(error_with("model.hidden", "[4, 3000000000]"), HasSubstr("model.hidden: found"));
  EXPECT_EQ(error_with("data_parallel.sharding", "optimizer"), "no error");
  EXPECT_THAT(errors_of(minimal, {{"data_parallel.hook", "top_k", "--set"},
                                  {"data_parallel.sharding", "optimizer", "--set"}}),
              HasSubstr("data_parallel.hook: found top_k, expected none"));
}

TEST(LoadConfig, RefusesGraphsThatCannotBe) {
  const auto error = [](const std::string& key, const std::string& value) {
    return errors_of(minimal, {{"compute.graph", "on", "--set"}, {key, value, "--set"}});
  };
  EXPECT_THAT(error("data_parallel.hook", "top_k"),
              HasSubstr("compute.graph: found on, expected auto or off with data_parallel.hook: "
                        "top_k, for which the host waits in every update"));
  EXPECT_EQ(error("train.on_nonfinite", "skip"), "no error");
  EXPECT_EQ(error("data_parallel.sharding", "optimizer"), "no error");
  EXPECT_THAT(error("compute.device", "cpu"), HasSubstr("cpu, which has no graphs"));
  EXPECT_THAT(error("comm.backend", "gloo"), HasSubstr("comm.backend: gloo, whose collectives"));
  EXPECT_EQ(error_with("compute.graph", "on"), "no error");
}

TEST(LoadConfig, TheCommandLineGoesFirst) {
  const std::vector<Override> overrides = {{"optimizer.lr", "0.2", "--set"},
                                           {"optimizer.lr", "0.3", "--set"}};
  EXPECT_EQ(parse_config(minimal, "mlp.yaml", overrides).optimizer.lr, 0.3);
  EXPECT_EQ(error_with("optimiser.lr", "0.3"),
            "--set: optimiser.lr: unknown key, did you mean optimizer.lr?");
  EXPECT_EQ(error_with("lr", "0.3"), "--set: lr: unknown key, did you mean optimizer.lr?");
  EXPECT_EQ(error_with("xyzzy", "0.3").find("--set: xyzzy: unknown key, the nearest known key is"),
            0u);
}

TEST(LoadConfig, RefusesWhatIsNoConfiguration) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "mlp.yaml: is empty"},
      {"# nothing\n", "mlp.yaml: is empty"},
      {"~\n", "mlp.yaml: is empty"},
      {"- a\n- b\n", "mlp.yaml:1: found [a, b], expected sections"},
      {"7\n", "mlp.yaml:1: found 7, expected sections"},
      {"a: 1\n b: 2\n", "mlp.yaml:2: is not YAML"},
      {"model: [1\n", "is not YAML"},
      {"model: *mlp\n", "is not YAML"},
      {"model: {name: mlp}\n---\nmodel: {name: mlp}\n", "found more than one YAML document"},
      {",e}d: null\nmodel: {name: mlp}\n", "found more than one YAML document"},
      {"optimizer.lr: 0.1\n", "mlp.yaml:1: optimizer.lr: is not the name of a key"},
      {"[1]: 2\n", "is not the name of a key"},
      {"model: &m {name: mlp, again: *m}\n", "is nested too deeply"},
      {std::string("model: \0", 8), "mlp.yaml"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(errors_of(text), HasSubstr(message)) << text;
  }
}

TEST(LoadConfig, EmptySectionsAreFine) {
  EXPECT_EQ(parse_config(std::string(minimal) + "run:\ncomm: {}\n", "mlp.yaml"),
            parse_config(minimal, "mlp.yaml"));
}

TEST(LoadConfig, AnchorsWork) {
  EXPECT_EQ(parse_config("model: {name: &n mlp}\ndata: {file: *n}\ntrain: {batch_size: 64}\n"
                         "optimizer: {name: sgd, lr: 0.1}\n",
                         "mlp.yaml")
                .data.file,
            "mlp");
}

// Whatever comes, a configuration or a ConfigError.
TEST(LoadConfig, SurvivesDamage) {
  std::mt19937 random(7);
  const std::string text = to_yaml(parse_config(minimal, "mlp.yaml"));
  const std::string_view spice = "{}[]:,-#&*!|>'\"%@`\n\t ~.0aZ\xff";
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (int edits = static_cast<int>(random() % 4); edits >= 0; --edits) {
      const std::size_t at = random() % damaged.size();
      const char letter = spice[random() % spice.size()];
      switch (random() % 3) {
        case 0:
          damaged[at] = letter;
          break;
        case 1:
          damaged.insert(at, 1, letter);
          break;
        default:
          damaged.erase(at, random() % 8);
      }
    }
    try {
      parse_config(damaged, "mlp.yaml");
    } catch (const ConfigError&) {
    }
  }
}

class ConfigFiles : public ::testing::Test {
 protected:
  ConfigFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ConfigFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }
  static std::string error_of(const std::string& file) {
    try {
      load_config(file);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigFiles, AreReadAndNamedInMessages) {
  EXPECT_EQ(load_config(write("a.yaml", minimal)), parse_config(minimal, "a.yaml"));
  EXPECT_EQ(error_of(write("bad.yaml", std::string(minimal) + "sead: 1\n")),
            "bad.yaml:5: sead: unknown key, did you mean seed?");
}

TEST_F(ConfigFiles, HaveToBeFiles) {
  EXPECT_THAT(error_of(folder_ / "none.yaml"), HasSubstr("none.yaml': No such file"));
  EXPECT_THAT(error_of(folder_), HasSubstr("it is a directory"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("it is not a regular file"));
  EXPECT_THAT(error_of(write("empty.yaml", "")), HasSubstr("empty.yaml: is empty"));
  EXPECT_THAT(error_of(write("huge.yaml", std::string(2 << 20, '#'))), HasSubstr("larger than"));
}

TEST_F(ConfigFiles, AreFoundAsGivenOrAmongThoseOfTheProgram) {
  const std::string here = write("here.yaml", minimal);
  EXPECT_EQ(locate_config(here), here);
  EXPECT_TRUE(std::filesystem::exists(locate_config("mlp.yaml")));  // of the repository
  try {
    locate_config("nosuch.yaml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nosuch.yaml"));
    EXPECT_THAT(error.what(), HasSubstr("configs"));
  }
}

}  // namespace
}  // namespace lockstep::train
