// Every key of the schema, by the schema itself: nothing is accepted and then without effect,
// everything that is printed reads back.
#include "train/config/schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "framework/base/error.h"
#include "train/config/load.h"
#include "train/config/locate.h"
#include "train/config/print.h"
#include "train/config/scalar.h"

namespace lockstep::train {
namespace {

using base::OptionKind;
using base::OptionValue;
using ::testing::HasSubstr;

constexpr const char* base_text =
    "model: {name: mlp}\n"
    "data: {file: a.h5}\n"
    "train: {batch_size: 64}\n"
    "optimizer: {name: sgd, lr: 0.1}\n";

Config load_with(const std::vector<Override>& overrides) {
  return parse_config(base_text, "test", overrides);
}

// What makes the key have an effect.
std::vector<Override> premises(const Key& key) {
  std::vector<Override> overrides;
  if (key.only_with) overrides.push_back({key.only_with->key, key.only_with->values.front(), "a"});
  if (key.path() == "optimizer.nesterov") overrides.push_back({"optimizer.momentum", "0.9", "b"});
  if (key.path() == "run.trace_steps") overrides.push_back({"run.trace", "5", "b"});
  return overrides;
}

// Allowed values other than `current`, as they are written.
std::vector<std::string> other_values(const OptionSpec& spec, const OptionValue& current) {
  std::vector<OptionValue> candidates;
  for (const std::string& word : spec.words) candidates.emplace_back(word);
  if (spec.nullable) candidates.emplace_back();
  switch (spec.kind) {
    case OptionKind::boolean:
      candidates.insert(candidates.end(), {true, false});
      break;
    case OptionKind::integer:
    case OptionKind::bytes:
      for (const std::int64_t value : {0, 1, 2, 7, 64}) candidates.emplace_back(value);
      break;
    case OptionKind::real:
      for (const double value : {0.0, 0.015625, 0.3, 1e-12, 1.0, 17.5, 123456.789}) {
        candidates.emplace_back(value);
      }
      break;
    case OptionKind::text:
      if (spec.name == "tuning") {  // a text with a form of its own
        for (const char* const value : {"ring", "one_shot<=4KiB, two_shot"})
          candidates.emplace_back(std::string(value));
        break;
      }
      for (const char* const value : {"other", "with space", "7", "null", "a: b # c", "\"q\"\\\n\t",
                                      "-", "true", "\xc3\xa9t\xc3\xa9"}) {
        candidates.emplace_back(std::string(value));
      }
      break;
    case OptionKind::integers:
      candidates.emplace_back(std::vector<std::int64_t>{});
      candidates.emplace_back(std::vector<std::int64_t>{1, 2, 3});
      break;
    case OptionKind::choice:
      break;
  }
  std::vector<std::string> written;
  for (const OptionValue& candidate : candidates) {
    try {
      if (base::checked(spec, candidate) == current) continue;
    } catch (const ConfigError&) {
      continue;
    }
    written.push_back(write_value(spec.kind, candidate));
  }
  return written;
}

void expect_round_trip(const Config& config) {
  for (const Comments comments : {Comments::without, Comments::with}) {
    EXPECT_EQ(parse_config(to_yaml(config, comments), "test"), config) << to_yaml(config, comments);
  }
}

TEST(Schema, EveryKeyChangesTheEffectiveConfiguration) {
  for (const Key& key : keys()) {
    std::vector<Override> overrides = premises(key);
    const Config before = load_with(overrides);
    overrides.emplace_back();
    const std::vector<std::string> values = other_values(key.spec, key.get(before));
    if (key.path() == "model.name") continue;  // as long as there is one model
    ASSERT_FALSE(values.empty()) << key.path();
    for (const std::string& value : values) {
      overrides.back() = {key.path(), value, "--set"};
      const Config after = load_with(overrides);
      EXPECT_NE(after, before) << key.path() << ": " << value;
      EXPECT_NE(to_yaml(after), to_yaml(before)) << key.path() << ": " << value;
      expect_round_trip(after);
    }
  }
}

TEST(Schema, EveryModelOptionChangesTheEffectiveConfiguration) {
  for (const models::ModelSpec& model : models::models()) {
    const Override name{"model.name", model.name, "--set"};
    const Config before = load_with({name});
    for (const OptionSpec& spec : model.options) {
      const auto values = other_values(spec, before.model.options.at(spec.name));
      ASSERT_FALSE(values.empty()) << spec.name;
      for (const std::string& value : values) {
        const Config after = load_with({name, {"model." + spec.name, value, "--set"}});
        EXPECT_NE(to_yaml(after), to_yaml(before)) << spec.name << ": " << value;
        expect_round_trip(after);
      }
    }
  }
}

TEST(Schema, KeysAreDocumentedAndInAKnownSection) {
  std::set<std::string> paths;
  std::set<std::string> section_names = {""};
  for (const Section& section : sections()) section_names.insert(section.name);
  for (const Key& key : keys()) {
    EXPECT_TRUE(paths.insert(key.path()).second) << key.path();
    EXPECT_TRUE(section_names.contains(key.section)) << key.path();
    EXPECT_TRUE(key.spec.doc.ends_with('.')) << key.path();
    EXPECT_EQ(find_key(key.path()), &key);
    if (key.only_with) {
      EXPECT_NE(find_key(key.only_with->key), nullptr) << key.path();
    }
    if (!key.spec.required) {
      EXPECT_EQ(base::checked(key.spec, key.spec.default_value), key.spec.default_value)
          << key.path();
    }
  }
}

// A member that no key sets would be dead, a key of the wrong member would set two.
TEST(Schema, EachKeySetsAMemberOfItsOwn) {
  for (const Key& key : keys()) {
    std::vector<Override> overrides = premises(key);
    const Config before = load_with(overrides);
    const auto values = other_values(key.spec, key.get(before));
    if (values.empty()) continue;
    overrides.push_back({key.path(), values.front(), "--set"});
    const Config after = load_with(overrides);
    for (const Key& other : keys()) {
      EXPECT_EQ(other.get(before) != other.get(after), other.path() == key.path())
          << key.path() << " and " << other.path();
    }
  }
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::filesystem::path repository() {
  return std::filesystem::path(locate_config("mlp.yaml")).parent_path().parent_path();
}

TEST(Reference, IsCurrent) {
  EXPECT_EQ(read(repository() / "docs/configuration.md"), configuration_reference())
      << "write it anew with: train check-config --reference > docs/configuration.md";
}

TEST(Configs, OfTheRepositoryShowAndExplainEveryKey) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(repository() / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++found;
    const Config config = load_config(entry.path());
    expect_round_trip(config);
    const std::string text = read(entry.path());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.ends_with(':')) continue;
      EXPECT_THAT(line + " ", HasSubstr("# ")) << entry.path();
    }
    for (const Key& key : keys()) {
      if (!key.applies_to(config)) continue;
      EXPECT_THAT(
          text, HasSubstr(fmt::format("{}{}: ", key.section.empty() ? "" : "\n  ", key.spec.name)))
          << entry.path() << " does not show " << key.path();
    }
  }
  EXPECT_GE(found, 2);
}

}  // namespace
}  // namespace lockstep::train
