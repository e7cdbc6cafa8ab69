#include "train/command/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "comm/backend.h"
#include "framework/base/error.h"
#include "framework/base/option.h"
#include "train/config/scalar.h"
#include "train/config/suggest.h"
#include "train/version.h"

namespace lockstep::train {
namespace {

constexpr double most_workers = 1024;

// An argument that stands for a key of the configuration.
struct Shorthand {
  const char* flag;
  const char* key;
  const char* doc;
};
constexpr std::array shorthands = {
    Shorthand{"--device", "compute.device", "auto, cuda or cpu"},
    Shorthand{"--backend", "comm.backend", "What carries the collectives"},
    Shorthand{"--interface", "comm.interface", "Network interface for the rendezvous"},
    Shorthand{"--seed", "seed", "Of every random draw"},
    Shorthand{"--trace", "run.trace", "First update to trace"},
    Shorthand{"--run-name", "run.name", "Name of the run's folder"},
};

Override parse_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos) {
    throw ConfigError(
        fmt::format("--set: found {}, expected KEY=VALUE such as train.epochs=5", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1), "--set " + text};
}

std::int64_t parse_integer(const std::string& name, const std::string& text,
                           const base::Range& range) {
  const OptionSpec spec{.name = name,
                        .kind = base::OptionKind::integer,
                        .default_value = {},
                        .doc = {},
                        .range = range};
  base::OptionValue value = read_plain_scalar(text);
  // Shown as it was typed, and not 99999999999999999999 as 1e+20.
  if (std::holds_alternative<double>(value)) value = text;
  return std::get<std::int64_t>(base::checked(spec, value));
}

std::int64_t parse_count(const std::string& name, const std::string& text) {
  return parse_integer(name, text, base::at_least(1));
}

int parse_workers(const std::string& text) {
  return static_cast<int>(parse_integer("--gpus", text, base::between(1, most_workers)));
}

void refuse_repeated(const char* flag, std::vector<std::string> names) {
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    throw ConfigError(fmt::format("{}: found {} twice", flag, *twice));
}

// Each backend by each of the algorithms that it offers. Backends that cannot work here fail when
// they are run, which the comparison shows.
std::vector<Contender> contenders_of(const std::vector<std::string>& backends,
                                     const std::vector<std::string>& algorithms) {
  const auto contains = [](const auto& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const std::string& algorithm : algorithms)
    if (const auto known = comm::algorithm_words(); !contains(known, algorithm))
      throw ConfigError(fmt::format("--algorithms: found {}, expected some of {}", algorithm,
                                    fmt::join(known, ", ")));
  refuse_repeated("--backends", backends);
  refuse_repeated("--algorithms", algorithms);
  std::vector<Contender> all;
  for (const std::string& name : backends) {
    // Whichever auto takes, it offers auto.
    const auto offered =
        name == "auto" ? std::vector<std::string>{"auto"} : comm::find_backend(name).algorithms;
    const std::size_t before = all.size();
    for (const std::string& algorithm : algorithms)
      if (contains(offered, algorithm)) all.push_back({name, algorithm});
    if (all.size() == before)
      throw ConfigError(fmt::format("--algorithms: found {}, expected one that {} offers: {}",
                                    fmt::join(algorithms, ", "), name, fmt::join(offered, ", ")));
  }
  for (const std::string& algorithm : algorithms)
    if (std::ranges::find(all, algorithm, &Contender::algorithm) == all.end())
      throw ConfigError(fmt::format("--algorithms: found {}, which none of {} offers", algorithm,
                                    fmt::join(backends, ", ")));
  return all;
}

class Parser {
 public:
  Parser() {
    app_.set_version_flag("--version", std::string(program_version()));
    add_config_options(app_);
    add_run_options(app_);
    resume_option_ = app_.add_option("--resume", resume_,
                                     "Go on from a checkpoint or from the newest one of a run's "
                                     "folder; without PATH from the newest of this configuration")
                         ->expected(0, 1)
                         ->type_name("[PATH]");

    check_ =
        app_.add_subcommand("check-config", "Check a configuration and print the effective one");
    check_->add_option("FILE", check_file_, "The configuration");
    check_->add_option("--set", sets_, "Override a key")->type_name("KEY=VALUE")->take_all();
    add_run_options(*check_);
    check_->add_flag("--reference", reference_, "Print the reference of all keys instead");

    compare_ =
        app_.add_subcommand("compare", "The same training over several backends, side by side");
    compare_->add_option("--config", comparison_.config, "The configuration")
        ->type_name("FILE")
        ->required();
    compare_->add_option("--gpus", workers_, "Number of replicas")->type_name("N");
    compare_->add_option("--backends", backends_, "Which to compare, such as ring,gloo,mpi")
        ->delimiter(',')
        ->type_name("NAME,...");
    compare_
        ->add_option("--algorithms", algorithms_,
                     "Of those backends that offer them, such as two_shot,bcube")
        ->delimiter(',')
        ->type_name("NAME,...");
    compare_->add_option("--steps", steps_, "Updates of each run")->type_name("N");
    compare_->add_option("--rounds", rounds_, "Runs of each, in turns")->type_name("N");
    compare_->add_option("--set", sets_, "Override a key")->type_name("KEY=VALUE")->take_all();

    plan_ = app_.add_subcommand(
        "plan", "Print the buckets in which a configuration's gradients are averaged");
    plan_->add_option("--config", planned_.config, "The configuration")
        ->type_name("FILE")
        ->required();
    plan_->add_flag("--json", planned_.json, "For programs");
    plan_->add_option("--set", sets_, "Override a key")->type_name("KEY=VALUE")->take_all();
    add_run_options(*plan_);
    evaluate_ = app_.add_subcommand(
        "evaluate", "Evaluate a checkpoint on the test data, on any number of workers");
    evaluate_->add_option("CHECKPOINT", checkpoint_, "The file, or the folder of a run")
        ->required();
    evaluate_->add_option("--gpus", workers_, "Number of replicas")->type_name("N");
    add_launch_options(*evaluate_);
    evaluate_->add_option("--set", sets_, "Override a key of the configuration in the checkpoint")
        ->type_name("KEY=VALUE")
        ->take_all();

    inspect_ = app_.add_subcommand("inspect", "Print what a checkpoint holds");
    inspect_->add_option("CHECKPOINT", checkpoint_, "The file")->required();

    app_.require_subcommand(0, 1);
    for (CLI::App* app : {&app_, compare_, plan_, check_, evaluate_, inspect_}) app->allow_extras();
  }

  Request parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return PrintRequest{app_.help()};
    } catch (const CLI::CallForVersion&) {
      return PrintRequest{fmt::format("train {}\n", program_version())};
    } catch (const CLI::ParseError& error) {
      throw ConfigError(fmt::format("{}; `train --help` lists the arguments", error.what()));
    }
    refuse_extras();
    if (compare_->parsed()) return compare_request();
    if (plan_->parsed()) {
      planned_.overrides = overrides();
      read_workers(planned_, *plan_);
      return planned_;
    }
    if (check_->parsed()) return check_request();
    if (inspect_->parsed()) return InspectRequest{checkpoint_};
    if (evaluate_->parsed()) {
      request_.evaluate = checkpoint_;
      return run_request();
    }
    return train_request();
  }

 private:
  void add_config_options(CLI::App& app) {
    app.add_option("--config", request_.config, "The configuration, a file or one of configs/")
        ->type_name("FILE");
    app.add_option("--set", sets_, "Override a key of the configuration; may be repeated")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->take_all();
  }

  // Of what a run comes to.
  void add_run_options(CLI::App& app) {
    app.add_option("--gpus", workers_, "Number of replicas, one for each GPU or CPU worker")
        ->type_name("N");
    for (std::size_t i = 0; i < shorthands.size(); ++i) {
      app.add_option(
             shorthands[i].flag, values_[i],
             fmt::format("{}; the same as --set {}=...", shorthands[i].doc, shorthands[i].key))
          ->type_name("VALUE");
    }
    add_launch_options(app);
  }

  void add_launch_options(CLI::App& app) {
    app.add_option("--launcher", launcher_,
                   "processes, or threads of one process, which workers that share a GPU must be")
        ->type_name("KIND");
    app.add_flag("--oversubscribe", oversubscribe_, "Allow several workers on one GPU");
  }

  void refuse_extras() const {
    for (const CLI::App* app :
         {static_cast<const CLI::App*>(&app_), static_cast<const CLI::App*>(compare_),
          static_cast<const CLI::App*>(plan_), static_cast<const CLI::App*>(check_),
          static_cast<const CLI::App*>(evaluate_), static_cast<const CLI::App*>(inspect_)}) {
      const std::vector<std::string> extras = app->remaining();
      if (extras.empty()) continue;
      const std::string& extra = extras.front();
      if (extra.starts_with('-')) throw unknown_flag(*app, extra);
      throw ConfigError(
          fmt::format("unexpected argument '{}'; `train --help` lists what there is", extra));
    }
  }

  static ConfigError unknown_flag(const CLI::App& app, const std::string& flag) {
    std::vector<KnownKey> known;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back({"--" + name, {}});
    }
    return ConfigError(fmt::format("unknown argument {}, {}", flag,
                                   suggest(flag.substr(0, flag.find('=')), known)));
  }

  Request compare_request() {
    comparison_.overrides = overrides();
    comparison_.workers = parse_workers(workers_);
    comparison_.steps = parse_integer("--steps", steps_, base::at_least(warm_up_steps + 1));
    comparison_.rounds = static_cast<int>(parse_count("--rounds", rounds_));
    comparison_.contenders = contenders_of(backends_, algorithms_);
    return comparison_;
  }

  Request check_request() {
    if (reference_) return ReferenceRequest{};
    if (check_file_.empty()) throw ConfigError("check-config: expected a FILE or --reference");
    CheckConfigRequest request;
    request.config = check_file_;
    request.overrides = overrides();
    read_workers(request, *check_);
    return request;
  }

  Request train_request() {
    if (request_.config.empty()) {
      throw ConfigError(
          "--config is missing, expected a file such as configs/mlp.yaml; "
          "`train --help` lists the arguments");
    }
    if (resume_option_->count() > 0) request_.resume = resume_;
    return run_request();
  }

  Request run_request() {
    request_.overrides = overrides();
    read_workers(request_, evaluate_->parsed() ? *evaluate_ : app_);
    return request_;
  }

  // `app`: where they were given.
  void read_workers(WorkersRequest& request, const CLI::App& app) const {
    request.workers = parse_workers(workers_);
    request.workers_given = app.get_option("--gpus")->count() > 0;
    request.oversubscribe = oversubscribe_;
    if (launcher_ == "processes") {
      request.kind = LaunchKind::processes;
    } else if (launcher_ == "threads") {
      request.kind = LaunchKind::threads;
    } else if (launcher_) {
      throw ConfigError(
          fmt::format("--launcher: found {}, expected processes or threads", *launcher_));
    }
  }

  std::vector<Override> overrides() const {
    std::vector<Override> all;
    for (const std::string& text : sets_) all.push_back(parse_set(text));
    for (std::size_t i = 0; i < shorthands.size(); ++i) {
      if (values_[i]) all.push_back({shorthands[i].key, *values_[i], shorthands[i].flag});
    }
    return all;
  }

  CLI::App app_{"Lockstep: data-parallel training whose replicas stay bit-identical.", "train"};
  CLI::App* compare_ = nullptr;
  CLI::App* check_ = nullptr;
  CLI::App* plan_ = nullptr;
  CLI::App* evaluate_ = nullptr;
  CLI::App* inspect_ = nullptr;
  CLI::Option* resume_option_ = nullptr;
  TrainRequest request_;
  CompareOptions comparison_;
  PlanRequest planned_;
  std::vector<std::string> backends_{"ring"};
  std::vector<std::string> algorithms_{"auto"};
  std::string steps_ = "60";
  std::string rounds_ = "3";
  std::string workers_ = "1";
  std::optional<std::string> launcher_;
  bool oversubscribe_ = false;
  std::string resume_;
  std::vector<std::string> sets_;
  std::array<std::optional<std::string>, shorthands.size()> values_;
  std::string check_file_;
  bool reference_ = false;
  std::string checkpoint_;
};

}  // namespace

Request parse_command_line(int argc, const char* const* argv) {
  return Parser().parse(argc, argv);
}

}  // namespace lockstep::train
