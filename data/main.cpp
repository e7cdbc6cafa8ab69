// The `dataset` program: makes, shows and checks data set files.
//
// Exit codes: 0 done; 2 usage; 3 data; 1 anything else (a defect, or no memory).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>

#include "data/dataset_file.h"
#include "data/importers/csv.h"
#include "data/importers/idx.h"
#include "data/inspect.h"
#include "framework/base/error.h"

namespace lockstep::data {
namespace {

constexpr int exit_usage = 2;
constexpr int exit_data = 3;

// Options that every import has.
struct Common {
  std::string out;
  std::string name;
  std::vector<std::string> class_names;
  bool if_missing = false;
};

void add_common(CLI::App& command, Common& common) {
  command.add_option("--out", common.out, "The data set file to write")->required();
  command.add_option("--name", common.name, "Name of the data set");
  command.add_option("--class-names", common.class_names, "Names of the classes, a,b,c")
      ->delimiter(',');
  command.add_flag("--if-missing", common.if_missing,
                   "Do nothing when the file is there and is a valid data set file");
}

// Whether --if-missing leaves nothing to do. A file that is there and is not valid is made again.
bool is_there(const Common& common) {
  if (!common.if_missing || !std::filesystem::exists(common.out)) return false;
  try {
    fmt::print("{} is there: {}\n", common.out, summary(DatasetFile(common.out).info()));
    return true;
  } catch (const DataError& error) {
    fmt::print("{}; importing again\n", error.what());
    return false;
  }
}

void say_written(const Common& common) {
  fmt::print("{}: {}\n", common.out, summary(DatasetFile(common.out).info()));
}

struct IdxCommand {
  Common common;
  std::string folder;
  IdxFiles files;

  void add(CLI::App& parent) {
    CLI::App& command = *parent.add_subcommand("idx", "Import IDX files, as of (Fashion-)MNIST");
    command.add_option("folder", folder,
                       "Folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                       "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, plain or .gz");
    command.add_option("--train-features", files.train_features, "In place of a folder");
    command.add_option("--train-labels", files.train_labels);
    command.add_option("--test-features", files.test_features);
    command.add_option("--test-labels", files.test_labels);
    add_common(command, common);
    command.callback([this] { run(); });
  }

  void run() {
    const bool pairs = files.train_features.empty() == files.train_labels.empty() &&
                       files.test_features.empty() == files.test_labels.empty();
    if (!pairs || folder.empty() == files.train_features.empty() ||
        (!folder.empty() && !files.test_features.empty())) {
      throw UsageError(
          "expected a folder, or --train-features with --train-labels and, for a test "
          "split, --test-features with --test-labels");
    }
    if (is_there(common)) return;
    if (!folder.empty()) files = idx_files_in(folder);
    import_idx(files, {common.out, common.name, common.class_names});
    say_written(common);
  }
};

struct CsvCommand {
  Common common;
  CsvOptions options;
  std::string header = "auto";

  void add(CLI::App& parent) {
    CLI::App& command =
        *parent.add_subcommand("csv", "Import a table: a column of labels, others numbers");
    command.add_option("file", options.file, "The table, plain or .gz")->required();
    auto* const test = command.add_option("--test", options.test_file, "Table of the test split");
    command
        .add_option("--test-fraction", options.test_fraction,
                    "Draw this fraction of the rows for the test split")
        ->check(CLI::Range(0.0, 1.0))
        ->excludes(test);
    command.add_option("--seed", options.seed, "Seed of that draw")->capture_default_str();
    command.add_option("--header", header, "Whether the first row is a header")
        ->check(CLI::IsMember({"auto", "yes", "no"}))
        ->capture_default_str();
    command.add_option("--label", options.label,
                       "Column of the labels: a name, or a number counted from 1 [the last]");
    command.add_option("--delimiter", options.delimiter, "Between fields")->capture_default_str();
    add_common(command, common);
    command.callback([this] { run(); });
  }

  void run() {
    if (is_there(common)) return;
    options.header = header == "yes"  ? CsvHeader::present
                     : header == "no" ? CsvHeader::absent
                                      : CsvHeader::automatic;
    options.out = common.out;
    options.name = common.name;
    options.class_names = common.class_names;
    import_csv(options);
    say_written(common);
  }
};

void verify(const std::string& path) {
  constexpr std::size_t most_shown = 10;
  const DatasetFile file(path);
  const auto damage = find_damage(file);
  for (std::size_t i = 0; i < std::min(damage.size(), most_shown); ++i) {
    fmt::print(stderr, "{}\n", damage[i]);
  }
  if (!damage.empty()) {
    throw DataError(fmt::format("{}: {} damaged blocks", path, damage.size()));
  }
  const auto& splits = file.info().splits;
  const bool checked = std::ranges::all_of(
      splits, [](const SplitInfo& split) { return split.has_checksums || split.samples == 0; });
  fmt::print("{}: {}; every row reads well, {}\n", path, summary(file.info()),
             checked ? "all checksums agree" : "but not every split has checksums");
}

int run(int argc, char** argv) {
  CLI::App app("Make, show and check data set files", "dataset");
  app.require_subcommand(1);
  CLI::App& import = *app.add_subcommand("import", "Make a data set file");
  import.require_subcommand(1);
  IdxCommand idx;
  idx.add(import);
  CsvCommand csv;
  csv.add(import);

  std::string path;
  const auto add_reader = [&](const std::string& name, const std::string& help, auto action) {
    CLI::App& command = *app.add_subcommand(name, help);
    command.add_option("file", path, "A data set file")->required();
    command.callback([&path, action] { action(path); });
  };
  add_reader("inspect", "Show what a file holds",
             [](const std::string& file) { fmt::print("{}", describe(DatasetFile(file))); });
  add_reader("verify", "Read every row and check labels and checksums", verify);

  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_usage;
  } catch (const UsageError& error) {
    fmt::print(stderr, "dataset: {}\n", error.what());
    return exit_usage;
  } catch (const DataError& error) {
    fmt::print(stderr, "dataset: {}\n", error.what());
    return exit_data;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dataset: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace lockstep::data

int main(int argc, char** argv) {
  return lockstep::data::run(argc, argv);
}
