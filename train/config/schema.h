// The schema of the configuration file: the one table of every key. Loading, `--set`, the effective
// configuration, the messages and docs/configuration.md are all made from it.
//
// The default of a key is the initialiser of its member in config.h. The keys of the `model`
// section besides `name` are not here: they come from the model's own table (models/registry.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/option.h"
#include "train/config/config.h"

namespace lockstep::train {

// A key that means something only where another key has one of these values.
struct Condition {
  std::string key;
  std::vector<std::string> values;
};

struct Key {
  std::string section;  // empty: at the top of the file
  OptionSpec spec;      // `name` is the key within its section; `default_value` is filled in
  std::function<base::OptionValue(const Config&)> get;
  std::function<void(Config&, const base::OptionValue&)>
      set;  // takes what base::checked() returned
  std::optional<Condition> only_with = {};
  std::vector<std::string> other_names = {};  // what users of other programs may write instead

  std::string path() const;  // "optimizer.lr"
  bool applies_to(const Config& config) const;
};

struct Section {
  std::string name;
  std::string doc;
};

// In the order in which a configuration is written.
std::span<const Section> sections();
std::span<const Key> keys();

const Key* find_key(std::string_view path);  // nullptr when there is none

// What may stand in the file for this option: "integer >= 1", "size such as 64KiB or 1GiB".
std::string allowed(const OptionSpec& spec);

}  // namespace lockstep::train
