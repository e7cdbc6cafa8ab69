#include "train/launch/worker_command.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::string_view command_name = "__worker";

struct Field {
  std::string_view name;
  int WorkerCommand::*member;
};
constexpr std::array fields = {
    Field{"rank", &WorkerCommand::rank},       Field{"world_size", &WorkerCommand::world_size},
    Field{"control", &WorkerCommand::control}, Field{"scoreboard", &WorkerCommand::scoreboard},
    Field{"store", &WorkerCommand::store},
};

}  // namespace

std::vector<std::string> worker_arguments(const std::string& program,
                                          const WorkerCommand& command) {
  std::vector<std::string> arguments = {program, std::string(command_name)};
  for (const Field& field : fields) {
    arguments.push_back(fmt::format("{}={}", field.name, command.*field.member));
  }
  return arguments;
}

std::optional<WorkerCommand> parse_worker_command(int argc, char** argv) {
  if (argc < 2 || argv[1] != command_name) return std::nullopt;
  const auto fail = [&] {
    return ConfigError(fmt::format("{} is for the launcher alone", command_name));
  };
  if (argc != 2 + static_cast<int>(fields.size())) throw fail();
  WorkerCommand command;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::string_view argument = argv[2 + i];
    const std::string prefix = fmt::format("{}=", fields[i].name);
    if (!argument.starts_with(prefix)) throw fail();
    argument.remove_prefix(prefix.size());
    const char* const end = argument.data() + argument.size();
    const auto [rest, error] = std::from_chars(argument.data(), end, command.*fields[i].member);
    if (error != std::errc{} || rest != end) throw fail();
  }
  return command;
}

}  // namespace lockstep::train
