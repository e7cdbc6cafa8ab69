#include "train/command/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

Request parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string error_of(std::vector<const char*> arguments) {
  try {
    parse(std::move(arguments));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(CommandLine, ReadsARequestToTrain) {
  const auto request = std::get<TrainRequest>(
      parse({"--config", "mlp.yaml", "--gpus", "8", "--set", "a.b=c=d", "--set=e=[1, 2]",
             "--launcher", "threads", "--seed", "7", "--device=cpu", "--oversubscribe"}));
  EXPECT_EQ(request.config, "mlp.yaml");
  EXPECT_EQ(request.workers, 8);
  EXPECT_EQ(request.kind, LaunchKind::threads);
  EXPECT_TRUE(request.oversubscribe);
  EXPECT_FALSE(request.resume);
  ASSERT_EQ(request.overrides.size(), 4u);
  EXPECT_EQ(request.overrides[0].path, "a.b");
  EXPECT_EQ(request.overrides[0].value, "c=d");
  EXPECT_EQ(request.overrides[0].origin, "--set a.b=c=d");
  EXPECT_EQ(request.overrides[1].value, "[1, 2]");
  EXPECT_EQ(request.overrides[2].path, "compute.device");
  EXPECT_EQ(request.overrides[2].origin, "--device");
  EXPECT_EQ(request.overrides[3].path, "seed");
  EXPECT_EQ(request.overrides[3].value, "7");
}

TEST(CommandLine, HasDefaults) {
  const auto request = std::get<TrainRequest>(parse({"--config=mlp.yaml"}));
  EXPECT_EQ(request.workers, 1);
  EXPECT_FALSE(request.kind);
  EXPECT_TRUE(request.overrides.empty());
}

TEST(CommandLine, ResumesWithAndWithoutAPath) {
  EXPECT_EQ(std::get<TrainRequest>(parse({"--config", "a", "--resume"})).resume, "");
  EXPECT_EQ(std::get<TrainRequest>(parse({"--config", "a", "--resume", "b.h5"})).resume, "b.h5");
  EXPECT_EQ(std::get<TrainRequest>(parse({"--resume", "--config", "a"})).resume, "");
}

TEST(CommandLine, ReadsSubcommands) {
  const auto check =
      std::get<CheckConfigRequest>(parse({"check-config", "a.yaml", "--set", "b=c"}));
  EXPECT_EQ(check.config, "a.yaml");
  EXPECT_EQ(check.overrides.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ReferenceRequest>(parse({"check-config", "--reference"})));
  EXPECT_EQ(std::get<InspectRequest>(parse({"inspect", "c.h5"})).checkpoint, "c.h5");
  EXPECT_THAT(std::get<PrintRequest>(parse({"--help"})).text, HasSubstr("--gpus"));
  EXPECT_THAT(std::get<PrintRequest>(parse({"check-config", "--help"})).text,
              HasSubstr("--reference"));
  EXPECT_THAT(std::get<PrintRequest>(parse({"--version"})).text, HasSubstr("train "));
}

TEST(CommandLine, RefusesWrongNumbersOfReplicas) {
  for (const char* const value : {"0", "-1", "eight", "1.5", "", "1025"}) {
    EXPECT_EQ(error_of({"--config", "a", "--gpus", value}), std::string("--gpus: found ") +
                                                                (*value == '\0' ? "null" : value) +
                                                                ", expected integer in [1, 1024]");
  }
  EXPECT_THAT(error_of({"--config", "a", "--gpus"}), HasSubstr("--gpus"));
}

TEST(CommandLine, NamesTheNearestArgument) {
  EXPECT_EQ(error_of({"--config", "a", "--gpu", "8"}),
            "unknown argument --gpu, did you mean --gpus?");
  EXPECT_EQ(error_of({"--confg=a"}), "unknown argument --confg=a, did you mean --config?");
  EXPECT_EQ(error_of({"check-config", "--refrence"}),
            "unknown argument --refrence, did you mean --reference?");
  EXPECT_THAT(error_of({"--config", "a", "stray"}), HasSubstr("unexpected argument 'stray'"));
  EXPECT_THAT(error_of({"inspect", "a", "b"}), HasSubstr("unexpected argument 'b'"));
}

TEST(CommandLine, SaysWhatIsMissingOrWrong) {
  EXPECT_THAT(error_of({}), HasSubstr("--config is missing"));
  EXPECT_THAT(error_of({"inspect"}), HasSubstr("CHECKPOINT"));
  EXPECT_THAT(error_of({"check-config"}), HasSubstr("expected a FILE or --reference"));
  EXPECT_THAT(error_of({"--config", "a", "--set", "b"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(error_of({"--config", "a", "--set", "=b"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(error_of({"--config", "a", "--launcher", "mpi"}),
              HasSubstr("--launcher: found mpi, expected processes or threads"));
}

}  // namespace
}  // namespace lockstep::train
