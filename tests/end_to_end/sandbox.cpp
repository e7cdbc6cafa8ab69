#include "tests/end_to_end/sandbox.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "data/dataset_writer.h"
#include "data/hdf5.h"
#include "framework/base/random.h"
#include "train/checkpoint_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* config = R"(seed: 7
model: {name: mlp, hidden: [16, 8], activation: relu}
data: {file: data.h5}
train: {epochs: 2, batch_size: 64}
optimizer: {name: sgd, lr: 0.05}
)";

void append_rows(data::DatasetWriter& writer, const MadeData& data, const std::string& split,
                 std::int64_t rows) {
  writer.add_split(split);
  const base::RandomStream noise(11, "made data: " + split);
  std::vector<float> features(static_cast<std::size_t>(rows * data.features));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::int64_t>(
        noise.below(static_cast<std::uint64_t>(data.classes), static_cast<std::uint64_t>(row)));
    labels[static_cast<std::size_t>(row)] = label;
    for (std::int64_t f = 0; f < data.features; ++f) {
      const auto index = static_cast<std::size_t>(row * data.features + f);
      const float centre = f % data.classes == label ? 1.0f : 0.0f;
      features[index] = centre + noise.uniform(1'000'000 + index) - 0.5f;
    }
  }
  writer.append(split, std::as_bytes(std::span(features)), labels);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The word behind `before` in `text`, the last time it stands there.
std::string word_after(const std::string& text, const std::string& before) {
  const auto at = text.rfind(before);
  if (at == text.npos) throw std::runtime_error(fmt::format("no '{}' in:\n{}", before, text));
  std::istringstream rest(text.substr(at + before.size()));
  std::string word;
  rest >> word;
  return word;
}

}  // namespace

const std::string train_program = LOCKSTEP_TRAIN_PROGRAM;
const std::string dataset_program = LOCKSTEP_DATASET_PROGRAM;

Sandbox::Sandbox(const MadeData& data) {
  std::string name = (fs::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder " + name);
  folder_ = name;
  make_data("data.h5", data);
  write("config.yaml", config);
}

Sandbox::~Sandbox() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Sandbox::make_data(const std::string& name, const MadeData& data) const {
  data::DatasetInfo info;
  info.name = "made";
  info.dtype = DType::float32;
  info.feature_shape = Shape{data.features};
  info.classes = data.classes;
  data::DatasetWriter writer(path(name), info, data.chunk_rows);
  append_rows(writer, data, "train", data.training_samples);
  append_rows(writer, data, "test", data.test_samples);
  writer.finish();
}

void Sandbox::put_nan(std::int64_t sample, std::int64_t element) const {
  namespace hdf5 = data::hdf5;
  const auto lock = hdf5::lock();
  const hdf5::Handle file(H5Fopen(path("data.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                          "data.h5");
  const hdf5::Handle dataset(H5Dopen2(file.get(), "/train/features", H5P_DEFAULT), H5Dclose,
                             "features");
  const hdf5::Handle space(H5Dget_space(dataset.get()), H5Sclose, "space");
  const hsize_t place[] = {static_cast<hsize_t>(sample), static_cast<hsize_t>(element)};
  const hsize_t one[] = {1, 1};
  H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, place, nullptr, one, nullptr);
  const hdf5::Handle memory(H5Screate_simple(2, one, nullptr), H5Sclose, "memory");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  hdf5::check(
      H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, memory.get(), space.get(), H5P_DEFAULT, &nan),
      "write");
  // A file may go without checksums; these are no longer right.
  H5Ldelete(file.get(), "/train/checksums", H5P_DEFAULT);
}

void Sandbox::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name)) << text;
}

Arguments Sandbox::train(int workers, const Arguments& settings, const Arguments& more) const {
  Arguments command{train_program, "--config", "config.yaml", "--gpus", std::to_string(workers)};
  for (const auto& setting : settings) {
    command.push_back("--set");
    command.push_back(setting);
  }
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

ProgramOptions Sandbox::options(const Environment& environment) const {
  return {.folder = folder_.string(), .environment = environment};
}

std::string run_folder(const Sandbox& sandbox, const Program::End& end) {
  return sandbox.path(word_after(end.output, "files of this run: "));
}

std::string final_weights(const Program::End& end) {
  return word_after(end.output, "final weights ");
}

std::vector<nlohmann::json> metrics(const std::string& run_folder, const std::string& kind) {
  std::istringstream lines(text_of(run_folder + "/metrics.jsonl"));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) {
    auto record = nlohmann::json::parse(line);
    if (record.at("kind") == kind) records.push_back(std::move(record));
  }
  return records;
}

std::string rank_log(const std::string& run_folder, int rank) {
  return text_of(fmt::format("{}/rank-{}.log", run_folder, rank));
}

std::string newest_checkpoint_of(const std::string& run_folder) {
  const auto newest = train::newest_checkpoint(run_folder + "/checkpoints");
  if (!newest) throw std::runtime_error("no checkpoint in " + run_folder);
  return *newest;
}

std::vector<double> parameters_of(const std::string& checkpoint) {
  namespace hdf5 = data::hdf5;
  const auto lock = hdf5::lock();
  const hdf5::Handle file(H5Fopen(checkpoint.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                          checkpoint);
  const hdf5::Handle group(H5Gopen2(file.get(), "/parameters", H5P_DEFAULT), H5Gclose,
                           "/parameters");
  std::vector<std::string> names;
  H5Literate(
      group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
        static_cast<std::vector<std::string>*>(into)->push_back(name);
        return 0;
      },
      &names);
  std::vector<double> values;
  for (const auto& name : names) {
    const hdf5::Handle dataset(H5Dopen2(group.get(), name.c_str(), H5P_DEFAULT), H5Dclose, name);
    const hdf5::Handle space(H5Dget_space(dataset.get()), H5Sclose, name);
    const auto count = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
    values.resize(values.size() + count);
    hdf5::check(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                        values.data() + values.size() - count),
                name);
  }
  return values;
}

double largest_relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty())
    throw std::runtime_error("different numbers of parameters");
  double scale = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    scale = std::max(scale, std::abs(a[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference / scale;
}

std::map<std::int64_t, std::vector<std::vector<std::int64_t>>> sample_indices(
    const std::string& run_folder, int workers) {
  std::map<std::int64_t, std::vector<std::vector<std::int64_t>>> by_step;
  for (int rank = 0; rank < workers; ++rank) {
    std::istringstream lines(rank_log(run_folder, rank));
    for (std::string line; std::getline(lines, line);) {
      const auto step_at = line.find("step ");
      const auto samples_at = line.find(": samples");
      if (step_at == line.npos || samples_at == line.npos) continue;
      auto& ranks = by_step[std::stoll(line.substr(step_at + 5))];
      ranks.resize(static_cast<std::size_t>(workers));
      std::istringstream numbers(line.substr(samples_at + 9));
      for (std::int64_t index; numbers >> index;)
        ranks[static_cast<std::size_t>(rank)].push_back(index);
    }
  }
  return by_step;
}

}  // namespace lockstep::tests
