#include "train/fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 7> place_names = {
    "start", "read", "forward", "before_allreduce", "gradient", "after_step", "save"};
constexpr std::array<std::string_view, 7> deed_names = {"raise", "nan",  "inf", "flip",
                                                        "stall", "exit", "kill"};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class T>
T number(std::string_view text, std::string_view what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0)) {
    throw ConfigError(fmt::format("{}: found '{}', expected a number >= 0", what, text));
  }
  return value;
}

FaultPlace place_of(std::string_view name) {
  const auto* const found = std::ranges::find(place_names, name);
  if (found == place_names.end()) {
    throw ConfigError(
        fmt::format("at: found '{}', expected one of {}", name, fmt::join(place_names, ", ")));
  }
  return static_cast<FaultPlace>(found - place_names.begin());
}

[[noreturn]] void throw_at(FaultPlace place, const std::string& message) {
  switch (place) {
    case FaultPlace::read:
      throw DataError(message);
    case FaultPlace::save:
      throw CheckpointError(message);
    case FaultPlace::start:
      throw StartupError(message);
    default:
      throw Error(message);
  }
}

}  // namespace

std::string_view name_of(FaultPlace place) {
  return place_names[static_cast<std::size_t>(place)];
}

FaultHook FaultHook::from_environment() {
  const char* const faults = std::getenv("TRAIN_FAULT");
  return faults == nullptr ? FaultHook() : FaultHook(faults);
}

FaultHook::FaultHook(std::string_view faults) {
  for (const std::string_view text : split(faults, ';')) {
    try {
      faults_.push_back(parse(text));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("TRAIN_FAULT '{}': {}", text, error.what()));
    }
  }
}

void FaultHook::parse_deed(std::string_view text, Fault& fault) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const std::string_view detail = text.substr(std::min(colon + 1, text.size()));
  const auto* const found = std::ranges::find(deed_names, name);
  const auto deed = static_cast<Deed>(found - deed_names.begin());
  const bool takes_detail = deed == Deed::stall || deed == Deed::exit;
  if (found == deed_names.end() || (colon < text.size() && !takes_detail)) {
    throw ConfigError(fmt::format(
        "do: found '{}', expected raise, nan, inf, flip, stall:SECONDS, exit:CODE or kill", text));
  }
  fault.deed = deed;
  if (deed == Deed::stall) fault.seconds = number<double>(detail, "do=stall:SECONDS");
  if (deed == Deed::exit) fault.code = number<int>(detail, "do=exit:CODE");
}

FaultHook::Fault FaultHook::parse(std::string_view text) {
  Fault fault;
  fault.text = text;
  bool has_place = false;
  bool has_deed = false;
  for (const std::string_view field : split(text, ',')) {
    const std::size_t equals = field.find('=');
    const std::string_view key = field.substr(0, equals);
    const std::string_view value =
        equals == field.npos ? std::string_view() : field.substr(equals + 1);
    if (key == "rank") {
      fault.rank = number<int>(value, "rank");
    } else if (key == "step") {
      fault.step = number<std::int64_t>(value, "step");
    } else if (key == "at") {
      fault.place = place_of(value);
      has_place = true;
    } else if (key == "do") {
      parse_deed(value, fault);
      has_deed = true;
    } else {
      throw ConfigError(fmt::format("found '{}', expected rank=, step=, at= or do=", field));
    }
  }
  if (!has_place) throw ConfigError("at= is missing");
  if (!has_deed) throw ConfigError("do= is missing");
  return fault;
}

bool FaultHook::expects(int rank, FaultPlace place) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.place == place && fault.rank.value_or(rank) == rank;
  });
}

Damage FaultHook::hit(int rank, std::int64_t step, FaultPlace place) const {
  Damage damage = Damage::none;
  for (const Fault& fault : faults_) {
    if (fault.place != place || (fault.rank && *fault.rank != rank) ||
        (fault.step && *fault.step != step)) {
      continue;
    }
    const std::string line = fmt::format("TRAIN_FAULT '{}' strikes rank {} in step {} at {}",
                                         fault.text, rank, step, name_of(place));
    std::fprintf(stderr, "%s\n", line.c_str());
    switch (fault.deed) {
      case Deed::raise:
        throw_at(place, line);
      case Deed::nan:
        damage = Damage::nan;
        break;
      case Deed::inf:
        damage = Damage::inf;
        break;
      case Deed::flip:
        damage = Damage::flip;
        break;
      case Deed::stall:
        std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
        break;
      case Deed::exit:
        ::_exit(fault.code);
      case Deed::kill:
        ::kill(::getpid(), SIGKILL);
        break;
    }
  }
  return damage;
}

}  // namespace lockstep::train
