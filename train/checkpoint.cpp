#include "train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "data/hdf5.h"
#include "data/hdf5_attributes.h"
#include "framework/base/hash.h"
#include "train/parallel/host_view.h"

namespace lockstep::train {
namespace {

namespace hdf5 = data::hdf5;
using hdf5::Handle;

constexpr const char* format_name = "lockstep-checkpoint";
constexpr std::int64_t format_version = 1;

// A tensor under the name it has in the file.
struct Entry {
  std::string path;
  Tensor tensor;
};

std::vector<Entry> parameter_entries(const nn::ParameterArena& arena) {
  std::vector<Entry> entries;
  for (const auto& segment : arena.segments())
    for (const auto& entry : segment.entries)
      entries.push_back({"/parameters/" + entry.name, entry.parameter.value()});
  return entries;
}

std::vector<Entry> optimizer_entries(const nn::ParameterArena& arena,
                                     const OptimizerState& optimizer) {
  std::vector<Entry> entries;
  for (const auto& state : optimizer)
    for (std::size_t s = 0; s < arena.segments().size(); ++s)
      for (const auto& entry : arena.segments()[s].entries)
        entries.push_back({fmt::format("/optimizer/{}/{}", state.name, entry.name),
                           state.segments[s]
                               .slice(0, entry.begin, entry.end)
                               .reshape(entry.parameter.value().shape())});
  return entries;
}

std::vector<Entry> all_entries(Replica& replica, const OptimizerState& optimizer) {
  std::vector<Entry> entries = parameter_entries(replica.arena());
  for (const auto& buffer : replica.model().named_buffers())
    entries.push_back({"/buffers/" + buffer.name, buffer.tensor});
  for (auto& entry : optimizer_entries(replica.arena(), optimizer))
    entries.push_back(std::move(entry));
  return entries;
}

std::string digest_of(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  std::string lines;
  for (const auto& [path, tensor] : entries)
    lines += fmt::format("{} {}\n", path, base::digest(HostView(tensor).bytes()));
  return base::digest(std::as_bytes(std::span(lines)));
}

hid_t file_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return H5T_IEEE_F32LE;
    case DType::float64:
      return H5T_IEEE_F64LE;
    case DType::bfloat16:
    case DType::float16:
      return H5T_STD_U16LE;  // the bits
    case DType::int32:
      return H5T_STD_I32LE;
    case DType::int64:
      return H5T_STD_I64LE;
    case DType::uint8:
      return H5T_STD_U8LE;
  }
  __builtin_unreachable();
}

std::vector<hsize_t> extents_of(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

std::string to_string(const std::vector<hsize_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

// --- Writing ------------------------------------------------------------------------------------

void write_entry(hid_t file, const Entry& entry) {
  const auto extents = extents_of(entry.tensor.shape());
  const Handle space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                     H5Sclose, entry.path);
  const Handle create(H5Pcreate(H5P_LINK_CREATE), H5Pclose, entry.path);
  hdf5::check(H5Pset_create_intermediate_group(create.get(), 1), entry.path);
  const hid_t type = file_type(entry.tensor.dtype());
  Handle dataset(H5Dcreate2(file, entry.path.c_str(), type, space.get(), create.get(), H5P_DEFAULT,
                            H5P_DEFAULT),
                 H5Dclose, "cannot create " + entry.path);
  const HostView view(entry.tensor);
  hdf5::check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, view.bytes().data()),
              "cannot write " + entry.path);
  dataset.close("cannot write " + entry.path);
}

Handle make_group(hid_t file, const char* name) {
  return Handle(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                fmt::format("cannot create {}", name));
}

void write_text_dataset(hid_t file, const char* path, const std::string& text) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, path);
  hdf5::check(H5Tset_size(type.get(), std::max<std::size_t>(text.size(), 1)), path);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, path);
  Handle dataset(
      H5Dcreate2(file, path, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose, path);
  hdf5::check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
              path);
}

void write_file(const std::string& path, Replica& replica, const OptimizerState& state,
                const Progress& progress, const std::string& config,
                const std::vector<SavedState>& hook_state) {
  const auto lock = hdf5::lock();
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose,
              "cannot create it");
  hdf5::write_text(file.get(), "format", format_name, "/");
  hdf5::write_integer(file.get(), "version", format_version, "/");
  const Handle optimizer = make_group(file.get(), "/optimizer");
  hdf5::write_text(optimizer.get(), "name", std::string(replica.optimizer().name()), "/optimizer");
  hdf5::write_integer(optimizer.get(), "updates", replica.optimizer().updates(), "/optimizer");
  for (const auto& entry : all_entries(replica, state)) write_entry(file.get(), entry);
  const Handle hook = make_group(file.get(), "/hook");
  hdf5::write_text(hook.get(), "name", std::string(replica.reduction().name()), "/hook");
  for (const auto& saved : hook_state)
    write_entry(file.get(), {"/hook/" + saved.path, saved.values});

  const Handle group = make_group(file.get(), "/progress");
  hdf5::write_integer(group.get(), "epoch", progress.epoch, "/progress");
  hdf5::write_integer(group.get(), "step_in_epoch", progress.step_in_epoch, "/progress");
  hdf5::write_integer(group.get(), "steps_done", progress.steps_done, "/progress");
  hdf5::write_integer(group.get(), "world_size", progress.world_size, "/progress");
  hdf5::write_reals(group.get(), "loss_scale", std::array{progress.loss_scale.value}, "/progress");
  hdf5::write_integer(group.get(), "clean_steps", progress.loss_scale.clean_steps, "/progress");
  write_text_dataset(file.get(), "/config", config);
  const Handle digests = make_group(file.get(), "/digests");
  hdf5::write_text(digests.get(), "weights", weights_digest(replica.arena()), "/digests");
  hdf5::write_text(digests.get(), "optimizer", optimizer_digest(replica.arena(), state),
                   "/digests");
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "cannot write it");
  file.close("cannot write it");
}

void sync_to_disk(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0)
    throw CheckpointError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  if (result != 0)
    throw CheckpointError(fmt::format("cannot flush '{}': {}", path, std::strerror(error)));
}

// --- Reading ------------------------------------------------------------------------------------

Handle open_checkpoint(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw CheckpointError(fmt::format("checkpoint '{}': not found or not a file", path));
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "not an HDF5 file");
  const auto format = hdf5::read_text(file.get(), "format", "/");
  if (format != format_name)
    throw DataError(fmt::format("attribute format: found '{}', expected '{}'",
                                format.value_or("nothing"), format_name));
  const auto version = hdf5::read_integer(file.get(), "version", "/");
  if (version != format_version)
    throw DataError(fmt::format("attribute version: found {}, expected {}", version.value_or(-1),
                                format_version));
  return file;
}

Handle open_group(hid_t file, const char* name) {
  return Handle(H5Gopen2(file, name, H5P_DEFAULT), H5Gclose,
                fmt::format("group {} is missing", name));
}

std::int64_t required_integer(const Handle& group, const char* name, const char* where) {
  const auto value = hdf5::read_integer(group.get(), name, where);
  if (!value) throw DataError(fmt::format("{}: attribute {} is missing", where, name));
  return *value;
}

double required_real(const Handle& group, const char* name, const char* where) {
  const auto values = hdf5::read_reals(group.get(), name, where);
  if (!values || values->size() != 1)
    throw DataError(fmt::format("{}: attribute {} is missing", where, name));
  return values->front();
}

std::string required_text(const Handle& group, const char* name, const char* where) {
  const auto value = hdf5::read_text(group.get(), name, where);
  if (!value) throw DataError(fmt::format("{}: attribute {} is missing", where, name));
  return *value;
}

bool has_hook(hid_t file) {
  return H5Lexists(file, "/hook", H5P_DEFAULT) > 0;
}

Progress read_progress(hid_t file) {
  const Handle group = open_group(file, "/progress");
  return {
      .epoch = required_integer(group, "epoch", "/progress"),
      .step_in_epoch = required_integer(group, "step_in_epoch", "/progress"),
      .steps_done = required_integer(group, "steps_done", "/progress"),
      .world_size = static_cast<int>(required_integer(group, "world_size", "/progress")),
      .loss_scale = {required_real(group, "loss_scale", "/progress"),
                     required_integer(group, "clean_steps", "/progress")},
      .hook = has_hook(file) ? required_text(open_group(file, "/hook"), "name", "/hook") : "none"};
}

void read_entry(hid_t file, const Entry& entry) {
  const Handle dataset(H5Dopen2(file, entry.path.c_str(), H5P_DEFAULT), H5Dclose,
                       entry.path + " is missing");
  const Handle space(H5Dget_space(dataset.get()), H5Sclose, entry.path);
  std::vector<hsize_t> found(
      static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  H5Sget_simple_extent_dims(space.get(), found.data(), nullptr);
  const auto expected = extents_of(entry.tensor.shape());
  if (found != expected)
    throw DataError(fmt::format("{}: found shape {}, this run's has {}", entry.path,
                                to_string(found), to_string(expected)));
  const Handle type(H5Dget_type(dataset.get()), H5Tclose, entry.path);
  const hid_t wanted = file_type(entry.tensor.dtype());
  if (H5Tequal(type.get(), wanted) <= 0)
    throw DataError(fmt::format("{}: found elements of type {}, this run's are {}", entry.path,
                                hdf5::describe_type(type.get()),
                                base::name_of(entry.tensor.dtype())));
  const bool on_host = entry.tensor.device().kind == DeviceKind::cpu;
  std::vector<std::byte> staging(on_host ? 0 : entry.tensor.bytes());
  hdf5::check(H5Dread(dataset.get(), wanted, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                      on_host ? entry.tensor.data() : staging.data()),
              "cannot read " + entry.path);
  if (!on_host) entry.tensor.context().upload(entry.tensor.data(), staging.data(), staging.size());
}

// What the run would leave unread is as wrong as what is missing: the models differ. `below`: what
// is in the group's groups too, as paths.
std::vector<std::string> members_of(hid_t file, const std::string& group_path, bool below = false) {
  std::vector<std::string> names;
  if (H5Lexists(file, group_path.c_str(), H5P_DEFAULT) <= 0) return names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->push_back(name);
    return 0;
  };
  const Handle group = open_group(file, group_path.c_str());
  const herr_t status =
      below ? H5Lvisit(group.get(), H5_INDEX_NAME, H5_ITER_NATIVE, collect, &names)
            : H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &names);
  hdf5::check(status, group_path);
  return names;
}

// Residuals and the like mean something to the hook that left them only.
void load_hook_state(hid_t file, const Progress& progress, Replica& replica) {
  if (progress.hook != replica.reduction().name()) return;
  std::set<std::string> used;
  const auto has_used_of = [&](const std::string& group) {
    const auto first = used.lower_bound(group + "/");
    return first != used.end() && first->compare(0, group.size() + 1, group + "/") == 0;
  };
  try {
    restore_reduction_state(replica.reduction(), replica.communicator(), replica.context(),
                            progress.world_size,
                            [&](const std::string& path, const Tensor& values) {
                              read_entry(file, {"/hook/" + path, values});
                              used.insert("/hook/" + path);
                            });
    for (const auto& name : members_of(file, "/hook/shared", true))
      if (const std::string path = "/hook/shared/" + name; !used.count(path) && !has_used_of(path))
        throw DataError(path + " has no use in this run");
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("{}; the state of hook {} needs the buckets and options that it was saved with",
                    error.what(), progress.hook));
  }
}

void require_same_parameters(hid_t file, const nn::ParameterArena& arena) {
  std::map<std::string, bool> known;
  for (const auto& segment : arena.segments())
    for (const auto& entry : segment.entries) known[entry.name] = true;
  for (const auto& name : members_of(file, "/parameters"))
    if (!known.count(name))
      throw DataError(fmt::format("parameter '{}' does not exist in this run's model", name));
}

std::string read_text_dataset(hid_t file, const char* path) {
  const Handle dataset(H5Dopen2(file, path, H5P_DEFAULT), H5Dclose,
                       fmt::format("{} is missing", path));
  const Handle type(H5Dget_type(dataset.get()), H5Tclose, path);
  std::string text(H5Tget_size(type.get()), '\0');
  hdf5::check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), path);
  return text;
}

void require_digest(const char* what, const std::string& stored, const std::string& computed) {
  if (stored != computed)
    throw DataError(fmt::format("the digest of the {} is {}, the file says {}: it is damaged", what,
                                computed, stored));
}

// Runs `read` on the open file; whatever HDF5 finds wrong becomes an error about this checkpoint.
template <class Read>
auto reading(const std::string& path, Read read) {
  const auto lock = hdf5::lock();
  try {
    const Handle file = open_checkpoint(path);
    return read(file.get());
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("checkpoint '{}': {}", path, error.what()));
  }
}

}  // namespace

std::string weights_digest(const nn::ParameterArena& arena) {
  return digest_of(parameter_entries(arena));
}

std::string optimizer_digest(const nn::ParameterArena& arena, const OptimizerState& state) {
  return digest_of(optimizer_entries(arena, state));
}

void save_checkpoint(const std::string& path, Replica& replica, const OptimizerState& optimizer,
                     const Progress& progress, const std::string& config,
                     const std::vector<SavedState>& hook_state) {
  const std::string temporary = path + ".tmp";
  try {
    write_file(temporary, replica, optimizer, progress, config, hook_state);
    sync_to_disk(temporary, O_RDONLY);
    std::filesystem::rename(temporary, path);
    sync_to_disk(std::filesystem::path(path).parent_path().string(), O_RDONLY | O_DIRECTORY);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw CheckpointError(fmt::format("cannot save checkpoint '{}': {}", path, error.what()));
  }
}

Progress at_next_batch(Progress progress, std::int64_t steps_per_epoch) {
  if (progress.step_in_epoch > steps_per_epoch)
    throw ConfigError(
        fmt::format("the checkpoint goes on after step {} of an epoch, which has {} steps here: "
                    "expected the train.batch_size, data.drop_last and data.file that it was "
                    "saved with",
                    progress.step_in_epoch, steps_per_epoch));
  if (progress.step_in_epoch == steps_per_epoch) {
    ++progress.epoch;
    progress.step_in_epoch = 0;
  }
  return progress;
}

Progress load_checkpoint(const std::string& path, Replica& replica) {
  return reading(path, [&](hid_t file) {
    require_same_parameters(file, replica.arena());
    const Handle optimizer = open_group(file, "/optimizer");
    const std::string name = required_text(optimizer, "name", "/optimizer");
    if (name != replica.optimizer().name())
      throw DataError(fmt::format("it was saved with optimizer {}, this run uses {}", name,
                                  replica.optimizer().name()));
    const OptimizerState state = replica.blank_optimizer_state();
    for (const auto& entry : all_entries(replica, state)) read_entry(file, entry);
    replica.optimizer().set_updates(required_integer(optimizer, "updates", "/optimizer"));
    const Handle digests = open_group(file, "/digests");
    require_digest("weights", required_text(digests, "weights", "/digests"),
                   weights_digest(replica.arena()));
    require_digest("optimizer state", required_text(digests, "optimizer", "/digests"),
                   optimizer_digest(replica.arena(), state));
    replica.take_optimizer_state(state);
    const Progress progress = read_progress(file);
    load_hook_state(file, progress, replica);
    return progress;
  });
}

CheckpointSummary summarize_checkpoint(const std::string& path) {
  return reading(path, [&](hid_t file) {
    CheckpointSummary summary;
    summary.progress = read_progress(file);
    for (const auto& name : members_of(file, "/parameters")) {
      const Handle dataset(H5Dopen2(file, ("/parameters/" + name).c_str(), H5P_DEFAULT), H5Dclose,
                           name);
      const Handle space(H5Dget_space(dataset.get()), H5Sclose, name);
      summary.parameters += H5Sget_simple_extent_npoints(space.get());
    }
    const Handle optimizer = open_group(file, "/optimizer");
    summary.optimizer = required_text(optimizer, "name", "/optimizer");
    const Handle digests = open_group(file, "/digests");
    summary.weights_digest = required_text(digests, "weights", "/digests");
    summary.optimizer_digest = required_text(digests, "optimizer", "/digests");
    summary.config = read_text_dataset(file, "/config");
    return summary;
  });
}

void inspect_checkpoint(const std::string& path) {
  const CheckpointSummary summary = summarize_checkpoint(path);
  fmt::print("checkpoint  {}\n", path);
  fmt::print("step        {}\n", summary.progress.steps_done);
  fmt::print("epoch       {} (step {} of it is next)\n", summary.progress.epoch + 1,
             summary.progress.step_in_epoch + 1);
  fmt::print("world size  {}\n", summary.progress.world_size);
  fmt::print("parameters  {}\n", summary.parameters);
  fmt::print("optimizer   {}\n", summary.optimizer);
  fmt::print("digests     weights    {}\n", summary.weights_digest);
  fmt::print("            optimizer  {}\n", summary.optimizer_digest);
  fmt::print("            config     {}\n", base::digest(std::as_bytes(std::span(summary.config))));
  fmt::print("\n{}", summary.config);
}

}  // namespace lockstep::train
