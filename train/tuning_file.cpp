#include "train/tuning_file.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "comm/ring/algorithm_table.h"
#include "framework/base/error.h"
#include "train/config/document.h"
#include "train/placement.h"

namespace lockstep::train {
namespace {

constexpr const char* format_name = "lockstep-tuning";
constexpr std::int64_t version = 1;

std::optional<int> number_of_ranks(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 2) return std::nullopt;
  return number;
}

// Takes the entries one after the other; throws at the first that is wrong.
class Reader {
 public:
  explicit Reader(std::string file)
      : file_(std::move(file)), name_(fmt::format("tuning file {}", file_)) {}

  TuningFile read() {
    const Document document = read_document(read_text_file(file_, "tuning file"), name_);
    if (!document.mistakes.empty()) throw ConfigError(document.mistakes.front().text);
    for (const Entry& entry : document.entries) take(entry);
    for (const char* key :
         {"format", "version", "machine.processor", "machine.cores", "all_reduce"})
      if (!seen_[key]) throw ConfigError(fmt::format("{}: {}: is missing", name_, key));
    return std::move(tuning_);
  }

 private:
  [[noreturn]] static void refuse(const Entry& entry, const std::string& expected) {
    throw ConfigError(fmt::format("{}: {}: found {}, expected {}", entry.origin, entry.path,
                                  entry.is_section ? "a section" : entry.written, expected));
  }

  template <class T>
  static T value(const Entry& entry, const std::string& expected) {
    if (entry.value)
      if (const T* found = std::get_if<T>(&*entry.value)) return *found;
    refuse(entry, expected);
  }

  void take(const Entry& entry) {
    seen_[entry.path] = true;
    if (entry.path == "format") {
      if (value<std::string>(entry, format_name) != format_name) refuse(entry, format_name);
    } else if (entry.path == "version") {
      if (value<std::int64_t>(entry, "1") != version) refuse(entry, "1");
    } else if (entry.path == "machine.processor") {
      tuning_.machine.processor = value<std::string>(entry, "a processor's name");
    } else if (entry.path == "machine.cores") {
      const auto cores = value<std::int64_t>(entry, "a number of cores");
      if (cores < 1 || cores > 1'000'000) refuse(entry, "a number of cores");
      tuning_.machine.cores = static_cast<int>(cores);
    } else if (entry.path == "machine" || entry.path == "all_reduce" ||
               entry.path == "all_reduce.processes" || entry.path == "all_reduce.threads") {
      if (!entry.is_section) refuse(entry, "a section");
    } else if (entry.path.starts_with("all_reduce.processes.") ||
               entry.path.starts_with("all_reduce.threads.")) {
      take_algorithms(entry);
    } else {
      throw ConfigError(fmt::format("{}: {}: unknown key", entry.origin, entry.path));
    }
  }

  void take_algorithms(const Entry& entry) {
    const std::size_t kind = entry.path.find('.') + 1, dot = entry.path.find('.', kind);
    const auto ranks = number_of_ranks(std::string_view(entry.path).substr(dot + 1));
    if (!ranks)
      throw ConfigError(fmt::format("{}: {}: found {}, expected a number of ranks from 2 on",
                                    entry.origin, entry.path, entry.path.substr(dot + 1)));
    const auto text = value<std::string>(entry, "algorithms such as \"one_shot<=16KiB, two_shot\"");
    try {
      comm::ring::AlgorithmTable::parse(text);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}: {}", entry.origin, entry.path, error.what()));
    }
    tuning_.all_reduce[entry.path.substr(kind, dot - kind)][*ranks] = text;
  }

  const std::string file_, name_;
  TuningFile tuning_;
  std::map<std::string, bool> seen_;
};

std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return '"' + result + '"';
}

std::string describe(const Machine& machine) {
  return fmt::format("{} with {} core{}", machine.processor, machine.cores,
                     machine.cores == 1 ? "" : "s");
}

}  // namespace

Machine this_machine() {
  Machine machine{"unknown processor", usable_cores()};
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == line.npos) continue;
    machine.processor = line.substr(colon + 2);
    break;
  }
  return machine;
}

TuningFile read_tuning_file(const std::string& file) {
  return Reader(file).read();
}

void write_tuning_file(const std::string& file, const TuningFile& tuning) {
  std::string text =
      fmt::format("format: {}\nversion: {}\nmachine: {{processor: {}, cores: {}}}\nall_reduce:\n",
                  format_name, version, quoted(tuning.machine.processor), tuning.machine.cores);
  for (const auto& [kind, by_ranks] : tuning.all_reduce) {
    text += fmt::format("  {}:\n", kind);
    for (const auto& [ranks, algorithms] : by_ranks)
      text += fmt::format("    {}: {}\n", ranks, quoted(algorithms));
  }
  std::ofstream stream(file, std::ios::trunc);
  stream << text;
  if (!stream.flush()) throw ConfigError("cannot write " + file);
}

std::string tuning_for(const TuningFile& tuning, const std::string& file, const Machine& machine,
                       const std::string& kind, int ranks) {
  if (tuning.machine != machine)
    throw ConfigError(fmt::format("comm.tuning_file: {} was measured on {}, found {}", file,
                                  describe(tuning.machine), describe(machine)));
  std::vector<std::string> measured;
  for (const auto& [known, by_ranks] : tuning.all_reduce)
    for (const auto& [number, algorithms] : by_ranks) {
      if (known == kind && number == ranks) return algorithms;
      measured.push_back(fmt::format("{} {}", number, known));
    }
  throw ConfigError(
      fmt::format("comm.tuning_file: {} was measured for {}, found {} {}; "
                  "benchmarks/all_reduce --tune adds them",
                  file, measured.empty() ? "nothing" : fmt::format("{}", fmt::join(measured, ", ")),
                  ranks, kind));
}

std::string take_tuning_file(Config::Comm& comm, const std::string& kind, int ranks) {
  if (!comm.tuning_file) return {};
  const std::string file = *std::exchange(comm.tuning_file, std::nullopt);
  comm.tuning = tuning_for(read_tuning_file(file), file, this_machine(), kind, ranks);
  return file;
}

}  // namespace lockstep::train
