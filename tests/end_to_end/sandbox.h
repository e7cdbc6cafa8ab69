// Sandbox: a folder of its own for one test of the `train` program, with a data set and a
// configuration.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace lockstep::tests {

// What the rows of a made data set look like: class-dependent, so that a model can learn them.
struct MadeData {
  std::int64_t training_samples = 1003;
  std::int64_t test_samples = 203;
  std::int64_t features = 12;
  std::int64_t classes = 5;
  std::int64_t chunk_rows = 0;  // 0: the writer's choice
};

using Arguments = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

class Sandbox {
 public:
  // Holds data.h5 and config.yaml: a small MLP, batch 64, plain SGD, two epochs, seed 7.
  explicit Sandbox(const MadeData& data = {});
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void make_data(const std::string& name, const MadeData& data) const;
  // A training sample of data.h5 gets a feature that is not finite.
  void put_nan(std::int64_t sample, std::int64_t element) const;
  void write(const std::string& name, const std::string& text) const;

  // "train --config config.yaml --gpus <workers> --set ..."; `settings` are "a.b=c".
  Arguments train(int workers, const Arguments& settings = {}, const Arguments& more = {}) const;
  ProgramOptions options(const Environment& environment = {}) const;
  Program::End run(const Arguments& command, const Environment& environment = {}) const {
    return tests::run(command, options(environment));
  }

 private:
  std::filesystem::path folder_;
};

extern const std::string train_program;  // paths of the programs under test
extern const std::string dataset_program;

// What a finished run said and left. `sandbox` is where it ran.
std::string run_folder(const Sandbox& sandbox, const Program::End& end);  // absolute
std::string final_weights(const Program::End& end);                       // digest of 32 digits
std::vector<nlohmann::json> metrics(const std::string& run_folder, const std::string& kind);
std::string rank_log(const std::string& run_folder, int rank);  // its text
std::string newest_checkpoint_of(const std::string& run_folder);
// Every parameter of a checkpoint as doubles, in the order of their names.
std::vector<double> parameters_of(const std::string& checkpoint);
double largest_relative_difference(const std::vector<double>& a, const std::vector<double>& b);

// Sample indices by step and rank, from the ranks' debug logs (run.log_level=debug).
std::map<std::int64_t, std::vector<std::vector<std::int64_t>>> sample_indices(
    const std::string& run_folder, int workers);

}  // namespace lockstep::tests
