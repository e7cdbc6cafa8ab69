#include "train/config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "comm/backend.h"
#include "framework/kernels/product_precision.h"
#include "train/config/binding.h"
#include "train/parallel/hooks/hooks.h"

namespace lockstep::train {
namespace {

using base::above;
using base::at_least;
using base::between;
using base::from_below;
using base::OptionKind;
using base::Range;

// The rows of the table.

OptionSpec row(std::string name, OptionKind kind, Range range, std::vector<std::string> words,
               std::string doc) {
  return {.name = std::move(name),
          .kind = kind,
          .default_value = {},
          .doc = std::move(doc),
          .range = range,
          .words = std::move(words)};
}

OptionSpec boolean(std::string name, std::string doc) {
  return row(std::move(name), OptionKind::boolean, {}, {}, std::move(doc));
}
OptionSpec integer(std::string name, Range range, std::string doc) {
  return row(std::move(name), OptionKind::integer, range, {}, std::move(doc));
}
OptionSpec real(std::string name, Range range, std::string doc) {
  return row(std::move(name), OptionKind::real, range, {}, std::move(doc));
}
OptionSpec bytes(std::string name, Range range, std::string doc) {
  return row(std::move(name), OptionKind::bytes, range, {}, std::move(doc));
}
OptionSpec text(std::string name, std::string doc) {
  return row(std::move(name), OptionKind::text, {}, {}, std::move(doc));
}
OptionSpec choice(std::string name, std::vector<std::string> words, std::string doc) {
  return row(std::move(name), OptionKind::choice, {}, std::move(words), std::move(doc));
}

OptionSpec required(OptionSpec spec) {
  spec.required = true;
  return spec;
}
OptionSpec nullable(OptionSpec spec) {
  spec.nullable = true;
  return spec;
}

// The keys of one section.
template <class S>
class Rows {
 public:
  Rows(std::vector<Key>& all, std::string section, S Config::*in)
      : all_(all), section_(std::move(section)), in_(in) {}

  template <class T>
  Key& operator()(T S::*member, const OptionSpec& spec) {
    return all_.emplace_back(member_key(section_, in_, member, spec));
  }

 private:
  std::vector<Key>& all_;
  std::string section_;
  S Config::*in_;
};

Range above_up_to(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .without_minimum = true};
}

const Range seconds = above_up_to(0, 1e6);     // keeps deadlines far from overflowing
const Range mebibytes = between(7e-5, 65536);  // from 64 bytes on, below which there is no bucket

// The table.

void model_keys(std::vector<Key>& all) {
  using Model = Config::Model;
  Rows add(all, "model", &Config::model);
  std::vector<std::string> names;
  for (const models::ModelSpec& model : models::models()) names.push_back(model.name);
  add(&Model::name, required(choice("name", names, "Which model; its own keys follow.")))
      .other_names = {"type", "arch"};
}

void data_keys(std::vector<Key>& all) {
  using Data = Config::Data;
  Rows add(all, "data", &Config::data);
  add(&Data::file, required(text("file",
                                 "Data set in HDF5, as the program `dataset` writes it. A relative "
                                 "path starts where `train` is run.")));
  add(&Data::shuffle,
      boolean("shuffle",
              "A new order in each epoch, given by the seed; false keeps the order of the file."));
  add(&Data::drop_last,
      boolean("drop_last",
              "Leave out the last batch of an epoch when it is smaller than the others."));
  add(&Data::prefetch,
      integer("prefetch", between(0, 1024),
              "Batches read ahead in the background; 0 reads a batch when it is needed."));
  add(&Data::memory_limit,
      bytes("memory_limit", at_least(0),
            "A data set up to this size is read once and shared by the workers of a host; a "
            "larger one is read in chunks."));
  add(&Data::wait_warning,
      real("wait_warning", between(0, 1),
           "Share of the time spent waiting for data above which the log says so."));
}

void train_keys(std::vector<Key>& all) {
  using Train = Config::Train;
  Rows add(all, "train", &Config::train);
  add(&Train::epochs, integer("epochs", at_least(1), "Passes over the training data."))
      .other_names = {"num_epochs", "max_epochs"};
  add(&Train::steps,
      nullable(integer("steps", at_least(1),
                       "Ends the run after this many updates, if the epochs last that long.")))
      .other_names = {"max_steps", "iterations"};
  add(&Train::batch_size, required(integer("batch_size", at_least(1),
                                           "Samples of one update, over all workers together.")))
      .other_names = {"batch", "global_batch_size"};
  add(&Train::accumulate,
      integer("accumulate", at_least(1),
              "Micro-batches into which the batch of an update is cut, to need less memory."))
      .other_names = {"gradient_accumulation", "accumulation_steps"};
  add(&Train::on_nonfinite,
      choice("on_nonfinite", {"stop", "skip"},
             "What to do when a loss or gradient is NaN or infinite: stop the run, or skip that "
             "update on all ranks."));
  add(&Train::loss_scale,
      choice(
          "loss_scale", {"none", "dynamic"},
          "dynamic multiplies the loss so that small gradients do not vanish, leaves out updates "
          "whose gradients overflow, and adjusts itself."));
  add(&Train::dtype,
      choice("dtype", {"float32", "float64"}, "Type of the parameters and of the arithmetic."));
  add(&Train::label_smoothing,
      real("label_smoothing", from_below(0, 1),
           "Probability mass spread evenly over all classes in the training loss."));
  add(&Train::evaluate_every,
      integer("evaluate_every", at_least(0),
              "Epochs between evaluations on the test data; 0: only after the last."));
  add(&Train::log_every, integer("log_every", at_least(0),
                                 "Updates between progress lines; 0: about one line a second."));
}

void optimizer_keys(std::vector<Key>& all) {
  using Optimizer = Config::Optimizer;
  const Condition sgd{"optimizer.name", {"sgd"}};
  const Condition adam{"optimizer.name", {"adam", "adamw"}};
  Rows add(all, "optimizer", &Config::optimizer);
  add(&Optimizer::name, required(choice("name", {"sgd", "adam", "adamw"},
                                        "adamw is Adam with decoupled weight decay.")))
      .other_names = {"type"};
  add(&Optimizer::lr,
      required(real("lr", above(0), "Learning rate, which the schedule multiplies with a factor.")))
      .other_names = {"learning_rate", "step_size"};
  add(&Optimizer::momentum,
      real("momentum", from_below(0, 1), "Share of the previous update that is kept."))
      .only_with = sgd;
  add(&Optimizer::nesterov, boolean("nesterov", "Nesterov's form of momentum, which must be > 0."))
      .only_with = sgd;
  add(&Optimizer::beta1, real("beta1", from_below(0, 1), "Decay of the first moment.")).only_with =
      adam;
  add(&Optimizer::beta2, real("beta2", from_below(0, 1), "Decay of the second moment.")).only_with =
      adam;
  Key& epsilon = add(&Optimizer::epsilon,
                     real("epsilon", above(0), "Added to the denominator of the update."));
  epsilon.only_with = adam;
  epsilon.other_names = {"eps"};
  add(&Optimizer::weight_decay,
      real("weight_decay", at_least(0),
           "Pull of the parameters towards zero: sgd and adam add it to the gradient, adamw keeps "
           "it apart."))
      .other_names = {"l2", "wd"};
  add(&Optimizer::clip_norm,
      nullable(real("clip_norm", above(0),
                    "Largest norm of the averaged gradient over all parameters; a longer one is "
                    "scaled down to it.")))
      .other_names = {"max_grad_norm", "grad_clip", "gradient_clip"};
  add(&Optimizer::clip_value,
      nullable(real("clip_value", above(0),
                    "Largest magnitude of an element of the averaged gradient; larger ones are set "
                    "to it. Not together with clip_norm.")))
      .other_names = {"gradient_clip_val"};
  add(&Optimizer::per_bucket,
      choice("per_bucket", {"auto", "on", "off"},
             "Update the parameters of a bucket while later buckets still travel. auto: on, unless "
             "a decision over all gradients comes first (train.on_nonfinite: skip, "
             "train.loss_scale: dynamic, clip_norm, data_parallel.sharding: optimizer)."));
}

void schedule_keys(std::vector<Key>& all) {
  using Schedule = Config::Schedule;
  const Condition step{"schedule.name", {"step"}};
  Rows add(all, "schedule", &Config::schedule);
  add(&Schedule::name, choice("name", {"constant", "step", "cosine"},
                              "How the learning rate changes: not at all, by a factor every few "
                              "epochs, or along half a cosine over the whole run."))
      .other_names = {"type"};
  add(&Schedule::warmup_steps,
      integer("warmup_steps", at_least(0),
              "Updates over which the learning rate first grows linearly."))
      .other_names = {"warmup"};
  add(&Schedule::step_every,
      integer("step_every", at_least(1), "Epochs between two steps of the learning rate."))
      .only_with = step;
  Key& factor = add(&Schedule::factor, real("factor", above_up_to(0, 1),
                                            "What each step multiplies the learning rate with."));
  factor.only_with = step;
  factor.other_names = {"gamma"};
  Key& minimum = add(&Schedule::minimum,
                     real("minimum", between(0, 1), "Where the cosine ends, as a fraction of lr."));
  minimum.only_with = Condition{"schedule.name", {"cosine"}};
  minimum.other_names = {"min_lr", "eta_min"};
}

void data_parallel_keys(std::vector<Key>& all) {
  using DataParallel = Config::DataParallel;
  Rows add(all, "data_parallel", &Config::data_parallel);
  all.push_back(member_or_word_key(
      "data_parallel", &Config::data_parallel, &DataParallel::bucket_mib, "auto",
      real("bucket_mib", mebibytes,
           "Size in MiB of the buckets in which gradients are averaged; auto: by the size of the "
           "model and what a collective of the backend costs.")));
  all.back().other_names = {"bucket_cap_mb", "bucket_size"};
  add(&DataParallel::first_bucket_mib,
      real("first_bucket_mib", mebibytes,
           "Size in MiB of the first bucket; a small one starts the communication early."));
  add(&DataParallel::overlap,
      boolean("overlap",
              "Average buckets while the backward pass goes on; false averages them after it."));
  add(&DataParallel::sharding,
      choice(
          "sharding", {"none", "optimizer"},
          "Whether each worker keeps the whole optimizer state and updates all parameters, or "
          "its share of both (ZeRO stage 1), for less memory. The same bits on the ring backend, "
          "whose comm.algorithm ring and halving_doubling alone add in another order."))
      .other_names = {"zero", "zero_stage", "fsdp"};
  std::vector<std::string> words, summaries;
  for (const HookSpec& hook : hooks()) {
    words.push_back(hook.name);
    summaries.push_back(fmt::format("{}: {}", hook.name, hook.summary));
  }
  add(&DataParallel::hook,
      choice("hook", words,
             fmt::format("What travels of a bucket of gradients ({}). See docs/hooks.md.",
                         fmt::join(summaries, "; "))))
      .other_names = {"comm_hook", "compression"};
  add(&DataParallel::top_k_ratio,
      real("top_k_ratio", above_up_to(0, 1),
           "Share of a bucket's gradients that each worker sends; pays below 1 / workers."))
      .only_with = Condition{"data_parallel.hook", {"top_k"}};
  const Condition power_sgd{"data_parallel.hook", {"power_sgd"}};
  add(&DataParallel::power_sgd_rank,
      integer("power_sgd_rank", between(1, 1024),
              "Rank of the approximation: a weight [n, m] takes rank * (n + m) elements."))
      .only_with = power_sgd;
  add(&DataParallel::power_sgd_start,
      integer("power_sgd_start", at_least(1),
              "The first update that is compressed; those before it, when gradients change most, "
              "travel as they are."))
      .only_with = power_sgd;
  add(&DataParallel::unused_parameters,
      choice("unused_parameters", {"error", "zero"},
             "A parameter that an update does not reach ends the run, named, before the update; or "
             "its gradient is zero."));
  add(&DataParallel::buffers,
      choice("buffers", {"broadcast", "average"},
             "How buffers (the running statistics of batch norm) become equal on all workers: rank "
             "0's hold, and are broadcast where they are used; or after each update the mean, in "
             "which all its samples count alike."))
      .other_names = {"broadcast_buffers"};
}

void comm_keys(std::vector<Key>& all) {
  using Comm = Config::Comm;
  Rows add(all, "comm", &Config::comm);
  std::vector<std::string> backends;
  for (const comm::Backend& backend : comm::backends())
    backends.push_back(fmt::format("{}: {}", backend.name, backend.summary));
  add(&Comm::backend,
      choice("backend", comm::backend_words(),
             fmt::format("What carries the collectives ({}); auto chooses by the devices.",
                         fmt::join(backends, "; "))));
  add(&Comm::algorithm,
      choice("algorithm", comm::algorithm_words(),
             "Of the all-reduce, as far as the backend offers it; auto leaves it to the backend, "
             "which goes by size and number of workers."));
  const Condition by_auto{"comm.algorithm", {"auto"}};
  Key& tuning_file = add(
      &Comm::tuning_file,
      nullable(text("tuning_file",
                    "Measured by benchmarks/all_reduce --tune on this machine: which algorithm "
                    "auto takes for which size, with the ring backend; null: a built-in table.")));
  tuning_file.only_with = by_auto;
  Key& tuning =
      add(&Comm::tuning,
          nullable(text("tuning",
                        "The same, said here: \"one_shot<=16KiB, two_shot\". A run writes into its "
                        "configuration what the file says, and a resumed run keeps it.")));
  tuning.only_with = by_auto;
  add(&Comm::timeout,
      real("timeout", seconds, "Seconds that one collective waits for the other ranks."));
  add(&Comm::start_timeout,
      real("start_timeout", seconds, "Seconds until all ranks have to be there."));
  add(&Comm::interface,
      nullable(
          text("interface",
               "Network interface at whose address the ranks find each other and Gloo connects "
               "them; null: a private socket, or with comm.port the loopback.")));
  add(&Comm::port,
      nullable(integer("port", between(1, 65535),
                       "TCP port at which the ranks find each other; null: none is opened, or with "
                       "comm.interface a free one.")));
  add(&Comm::check,
      choice("check", {"every", "plan", "off"},
             "When the ranks make sure that they call the same collectives: at every call, when "
             "the plan changes, or never. ring always does, it costs nothing there; nccl does not "
             "at every call."));
  add(&Comm::ranks_per_host,
      nullable(integer("ranks_per_host", at_least(1),
                       "So many ranks in a row count as those of one host, to try the backends "
                       "ring+... on one machine; null: hosts are what they are.")));
}

void consistency_keys(std::vector<Key>& all) {
  using Consistency = Config::Consistency;
  Rows add(all, "consistency", &Config::consistency);
  add(&Consistency::every,
      integer(
          "every", at_least(0),
          "Updates between checks that all replicas hold the same bits in parameters, buffers "
          "and optimizer state; before a checkpoint is written there is one in any case, and one "
          "that its parameters are finite. 0: never."));
  add(&Consistency::on_divergence,
      choice("on_divergence", {"stop", "resync", "warn"},
             "When they do not: stop the run; give all of them the values of the majority (of rank "
             "0 where there is none) and go on; or only say so."));
}

void checkpoint_keys(std::vector<Key>& all) {
  using Checkpoint = Config::Checkpoint;
  Rows add(all, "checkpoint", &Config::checkpoint);
  add(&Checkpoint::every_steps,
      nullable(integer("every_steps", at_least(1),
                       "Updates between checkpoints; null: only by epochs.")));
  add(&Checkpoint::every_epochs,
      nullable(integer("every_epochs", at_least(1),
                       "Epochs between checkpoints; null: only by steps. With both null none is "
                       "written.")));
  add(&Checkpoint::keep_last, integer("keep_last", between(1, 1'000'000),
                                      "How many checkpoints are kept; older ones are deleted."));
  add(&Checkpoint::on_error,
      choice("on_error", {"stop", "continue"},
             "When a checkpoint cannot be written: stop the run, or go on to the next one."));
}

void compute_keys(std::vector<Key>& all) {
  using Compute = Config::Compute;
  Rows add(all, "compute", &Config::compute);
  add(&Compute::device, choice("device", {"auto", "cuda", "cpu"},
                               "auto: GPUs if this machine has any, otherwise CPU workers."));
  all.push_back(member_or_word_key(
      "compute", &Config::compute, &Compute::threads, "auto",
      integer("threads", between(1, 4096),
              "Compute threads of each worker; auto: cores divided by workers, at least 1. Never "
              "changes a result.")));
  add(&Compute::pin,
      choice(
          "pin", {"auto", "on", "off"},
          "Confine each worker to neighbouring cores of its own; auto: where there are cores for "
          "all threads of more than one worker. Never changes a result."));
  add(&Compute::products,
      choice(
          "products", kernels::product_precision_names(),
          "In what a GPU multiplies matrices of float32: the two others round both factors, to "
          "10 or 7 bits behind the point, for its matrix units; for bfloat16 the optimizer keeps "
          "a copy of the parameters beside them, unless it is sharded. Parameters, sums and all "
          "else stay float32."));
  add(&Compute::graph,
      choice("graph", {"auto", "on", "off"},
             "Capture a GPU's step into a CUDA graph and launch that; auto: where nothing of a "
             "step is decided on the host, the backend's collectives can be captured and no two "
             "workers share a GPU. Never changes a result."));
}

void run_keys(std::vector<Key>& all) {
  using Run = Config::Run;
  Rows add(all, "run", &Config::run);
  add(&Run::folder, text("folder", "Where each run gets a folder of its own."));
  add(&Run::name, nullable(text("name", "Name of the run's folder; null: <config>-<time>.")));
  add(&Run::log_level, choice("log_level", {"debug", "info", "warning", "error"},
                              "The least important lines that are logged."));
  all.push_back(member_or_word_key(
      "run", &Config::run, &Run::trace, "off",
      integer("trace", at_least(1),
              "The first update of which every event on every rank is written to trace.json in the "
              "run's folder, for chrome://tracing or ui.perfetto.dev; off: none.")));
  add(&Run::trace_steps,
      integer("trace_steps", between(1, 1000), "How many updates are traced from run.trace on."));
}

std::vector<Key> make_keys() {
  std::vector<Key> all;
  all.push_back(
      member_key(&Config::seed, nullable(integer("seed", at_least(0),
                                                 "Of every random draw: initial weights, order of "
                                                 "the data, dropout. null draws one and logs "
                                                 "it."))));
  model_keys(all);
  data_keys(all);
  train_keys(all);
  optimizer_keys(all);
  schedule_keys(all);
  data_parallel_keys(all);
  comm_keys(all);
  consistency_keys(all);
  checkpoint_keys(all);
  compute_keys(all);
  run_keys(all);
  return all;
}

}  // namespace

std::string Key::path() const {
  return section.empty() ? spec.name : section + "." + spec.name;
}

bool Key::applies_to(const Config& config) const {
  if (!only_with) return true;
  const auto value = std::get<std::string>(find_key(only_with->key)->get(config));
  return std::ranges::find(only_with->values, value) != only_with->values.end();
}

std::span<const Section> sections() {
  static const std::array all = {
      Section{"model", "What is trained."},
      Section{"data", "What it is trained on."},
      Section{"train", "How long, and in which steps."},
      Section{"optimizer", "How gradients change the parameters."},
      Section{"schedule", "How the learning rate changes over the run."},
      Section{"data_parallel", "How the replicas' gradients are averaged."},
      Section{"comm", "How the ranks talk to each other."},
      Section{"consistency", "Checks that the replicas stay bit-identical."},
      Section{"checkpoint", "When the run is saved."},
      Section{"compute", "What each worker computes with."},
      Section{"run", "Where the files of a run go."},
  };
  return all;
}

std::span<const Key> keys() {
  static const std::vector<Key> all = make_keys();
  return all;
}

const Key* find_key(std::string_view path) {
  const auto found =
      std::ranges::find_if(keys(), [&](const Key& key) { return key.path() == path; });
  return found == keys().end() ? nullptr : &*found;
}

std::string allowed(const OptionSpec& spec) {
  // base::describe() speaks of values as they are held.
  return spec.kind == OptionKind::bytes ? "size such as 64KiB or 1GiB" : base::describe(spec);
}

}  // namespace lockstep::train
