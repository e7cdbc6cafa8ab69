#include "train/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "framework/base/error.h"
#include "framework/base/units.h"
#include "train/config/document.h"
#include "train/config/rules.h"
#include "train/config/schema.h"
#include "train/config/suggest.h"

namespace lockstep::train {
namespace {

using base::OptionKind;
using base::OptionValue;

constexpr int after_all_lines = std::numeric_limits<int>::max();

class Loader {
 public:
  Loader(const std::string& name, Document document, std::span<const Override> overrides)
      : name_(name),
        mistakes_(std::move(document.mistakes)),
        entries_(std::move(document.entries)) {
    // Nothing else can be said about a text that is not a configuration at all.
    if (entries_.empty() && !mistakes_.empty()) throw_mistakes();
    for (const Override& override : overrides) {
      entries_.push_back(read_value(override.path, override.value, override.origin));
      entries_.back().line = after_all_lines;
    }
    rename_sections();
  }

  Config load() {
    choose_model();
    for (const Entry& entry : entries_) take(entry);
    for (const Key& key : keys()) complete(key.path(), key.spec);
    for (const OptionSpec& spec : model_options_) complete("model." + spec.name, spec);
    if (mistakes_.empty()) check_conditions();
    if (mistakes_.empty()) check_rules();
    if (!mistakes_.empty()) throw_mistakes();
    return std::move(config_);
  }

 private:
  void mistake(const Entry& entry, const std::string& text) {
    mistakes_.push_back({entry.line, fmt::format("{}: {}: {}", entry.origin, entry.path, text)});
  }

  [[noreturn]] void throw_mistakes() {
    std::ranges::stable_sort(mistakes_, {}, &Mistake::line);
    std::string text =
        mistakes_.size() == 1 ? "" : fmt::format("{}: {} mistakes\n", name_, mistakes_.size());
    for (const Mistake& found : mistakes_) text += found.text + '\n';
    text.pop_back();
    throw ConfigError(text);
  }

  // A section whose name is nearly right is one mistake, not one for each key in it.
  void rename_sections() {
    std::vector<std::string> names;
    for (const Section& section : sections()) names.push_back(section.name);
    std::map<std::string, std::string> renamed;
    for (Entry& entry : entries_) {
      const std::size_t dot = entry.path.find('.');
      const std::string first = entry.path.substr(0, dot);
      if (entry.is_section && dot == std::string::npos && !is_section(first)) {
        const std::string name = nearest(first, names);
        if (name.empty()) continue;
        mistake(entry, fmt::format("unknown section, did you mean {}?", name));
        renamed[first] = name;
      }
      if (const auto found = renamed.find(first); found != renamed.end()) {
        entry.path.replace(0, first.size(), found->second);
      }
    }
  }

  static bool is_section(std::string_view path) {
    return std::ranges::find(sections(), path, &Section::name) != sections().end();
  }

  // The last entry wins: what the command line says.
  const Entry* last_entry(std::string_view path) const {
    const auto found = std::ranges::find(entries_.rbegin(), entries_.rend(), path, &Entry::path);
    return found == entries_.rend() ? nullptr : &*found;
  }

  void choose_model() {
    const Entry* const entry = last_entry("model.name");
    const std::string* const name =
        entry == nullptr || !entry->value ? nullptr : std::get_if<std::string>(&*entry->value);
    for (const models::ModelSpec& model : models::models()) {
      if (name == nullptr || model.name != *name) continue;
      model_options_ = model.options;
      model_is_known_ = true;
    }
  }

  const OptionSpec* find_model_option(std::string_view path) const {
    if (!path.starts_with("model.")) return nullptr;
    const auto found = std::ranges::find(model_options_, path.substr(6), &OptionSpec::name);
    return found == model_options_.end() ? nullptr : &*found;
  }

  void take(const Entry& entry) {
    const bool empty_section = entry.value && std::holds_alternative<std::monostate>(*entry.value);
    if (is_section(entry.path)) {
      if (!entry.is_section && !empty_section) {
        mistake(entry, fmt::format("found {}, expected a section", entry.written));
      }
    } else if (const Key* key = find_key(entry.path)) {
      if (const auto value = check(entry, key->spec)) key->set(config_, *value);
    } else if (const OptionSpec* option = find_model_option(entry.path)) {
      if (const auto value = check(entry, *option)) config_.model.options.set(option->name, *value);
    } else if (!entry.is_section && !explained_by_parent(entry.path)) {
      mistake(entry, "unknown key, " + suggest(entry.path, known_keys()));
    }
  }

  // Keys inside something that is no section, and keys of a model that is not known, have been said
  // to be wrong with their parent.
  bool explained_by_parent(const std::string& path) const {
    if (!model_is_known_ && path.starts_with("model.")) return true;
    for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
      const std::string parent = path.substr(0, dot);
      if (find_key(parent) != nullptr || find_model_option(parent) != nullptr) return true;
    }
    return false;
  }

  std::vector<KnownKey> known_keys() const {
    std::vector<KnownKey> known;
    for (const Key& key : keys()) known.push_back({key.path(), key.other_names});
    for (const OptionSpec& spec : model_options_) known.push_back({"model." + spec.name, {}});
    return known;
  }

  std::optional<OptionValue> check(const Entry& entry, const OptionSpec& spec) {
    if (auto value = entry.value ? held(spec, *entry.value) : std::nullopt) return value;
    mistake(entry, fmt::format("found {}, expected {}", entry.written, allowed(spec)));
    return std::nullopt;
  }

  // The value as the key's kind holds it; nothing when it is not allowed.
  static std::optional<OptionValue> held(const OptionSpec& spec, OptionValue value) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text != nullptr && spec.kind == OptionKind::text && text->empty()) return std::nullopt;
    try {
      if (text != nullptr && spec.kind == OptionKind::bytes) {
        value = static_cast<std::int64_t>(base::parse_bytes(*text));
      }
      value = base::checked(spec, value);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
    const auto* const real = std::get_if<double>(&value);
    if (real != nullptr && !std::isfinite(*real)) return std::nullopt;
    return value;
  }

  void complete(const std::string& path, const OptionSpec& spec) {
    if (last_entry(path) != nullptr) return;
    if (spec.required) {
      mistakes_.push_back({after_all_lines, fmt::format("{}: {}: is missing, expected {}", name_,
                                                        path, allowed(spec))});
    } else if (find_model_option(path) != nullptr) {
      config_.model.options.set(spec.name, base::checked(spec, spec.default_value));
    }
  }

  // A key that has no effect is a misunderstanding, unless it says what holds anyway.
  void check_conditions() {
    for (const Key& key : keys()) {
      const Entry* const entry = last_entry(key.path());
      if (entry == nullptr || key.applies_to(config_)) continue;
      if (key.get(config_) == key.spec.default_value) continue;
      mistake(*entry, fmt::format("has an effect only with {}: {}, found {}", key.only_with->key,
                                  fmt::join(key.only_with->values, " or "),
                                  base::to_string(find_key(key.only_with->key)->get(config_))));
    }
  }

  void check_rules() {
    for (const BrokenRule& rule : broken_rules(config_)) {
      const Entry* const entry = last_entry(rule.key);
      mistakes_.push_back({entry == nullptr ? after_all_lines : entry->line,
                           fmt::format("{}: {}: {}", entry == nullptr ? name_ : entry->origin,
                                       rule.key, rule.text)});
    }
  }

  const std::string& name_;
  std::vector<Mistake> mistakes_;
  std::vector<Entry> entries_;
  std::vector<OptionSpec> model_options_;
  bool model_is_known_ = false;
  Config config_;
};

}  // namespace

Config parse_config(std::string_view text, const std::string& name,
                    std::span<const Override> overrides) {
  return Loader(name, read_document(text, name), overrides).load();
}

Config load_config(const std::string& file, std::span<const Override> overrides) {
  return parse_config(read_text_file(file, "configuration"), std::filesystem::path(file).filename(),
                      overrides);
}

}  // namespace lockstep::train
