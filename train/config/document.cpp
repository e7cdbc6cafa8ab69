#include "train/config/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "framework/base/error.h"
#include "framework/base/units.h"
#include "train/config/scalar.h"

namespace lockstep::train {
namespace {

constexpr std::uintmax_t largest_file = 1 << 20;
constexpr int deepest = 8;  // an alias may refer to what contains it

std::string written(const YAML::Node& node, int depth = 0) {
  if (depth > deepest || node.IsMap()) return "a section";
  if (node.IsNull()) return "null";
  if (node.IsScalar()) return node.Tag() == "!" ? '"' + node.Scalar() + '"' : node.Scalar();
  std::string list;
  for (const YAML::Node& element : node) {
    list += (list.empty() ? "" : ", ") + written(element, depth + 1);
  }
  return '[' + list + ']';
}

std::optional<base::OptionValue> value_of(const YAML::Node& node) {
  if (node.IsNull()) return base::OptionValue();
  if (node.IsScalar()) {
    // "!" is the tag of a quoted scalar.
    if (node.Tag() == "!") return base::OptionValue(node.Scalar());
    return read_plain_scalar(node.Scalar());
  }
  if (!node.IsSequence()) return std::nullopt;
  std::vector<std::int64_t> list;
  for (const YAML::Node& element : node) {
    if (!element.IsScalar()) return std::nullopt;
    const std::optional<base::OptionValue> number = value_of(element);
    if (!std::holds_alternative<std::int64_t>(*number)) return std::nullopt;
    list.push_back(std::get<std::int64_t>(*number));
  }
  return list;
}

// Takes no notice of what is in a document.
class Deaf final : public YAML::EventHandler {
  using Mark = YAML::Mark;
  using Text = const std::string&;
  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark&, YAML::anchor_t) override {}
  void OnAlias(const Mark&, YAML::anchor_t) override {}
  void OnScalar(const Mark&, Text, YAML::anchor_t, Text) override {}
  void OnSequenceStart(const Mark&, Text, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark&, Text, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll would tell as well, but never ends on some texts that are no YAML, such as ",}".
bool has_second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Deaf handler;
  return parser.HandleNextDocument(handler) && parser.HandleNextDocument(handler);
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Document read(const std::string& text) {
    try {
      const YAML::Node document = YAML::Load(text);
      if (has_second_document(text)) {
        mistake(0, "found more than one YAML document, expected one");
      } else if (document.IsNull()) {
        mistake(0, "is empty, expected the sections of a configuration");
      } else if (!document.IsMap()) {
        mistake(1, fmt::format("found {}, expected sections such as 'model:'", written(document)));
      } else {
        section(document, "", 0);
      }
    } catch (const YAML::ParserException& error) {
      mistake(error.mark.line + 1, "is not YAML: " + error.msg);
    }
    return std::move(document_);
  }

 private:
  std::string origin(int line) const {
    return line > 0 ? fmt::format("{}:{}", name_, line) : name_;
  }
  void mistake(int line, const std::string& text) {
    document_.mistakes.push_back({line, origin(line) + ": " + text});
  }

  void section(const YAML::Node& map, const std::string& prefix, int depth) {
    std::map<std::string, int> seen;
    for (const auto& item : map) {
      const int line = item.first.Mark().line + 1;
      const std::string key = written(item.first);
      const std::string path = prefix + key;
      if (!item.first.IsScalar() || key.empty() || key.find('.') != key.npos) {
        mistake(line, fmt::format("{}: is not the name of a key, which is one word; sections "
                                  "contain their keys indented",
                                  path));
        continue;
      }
      if (const auto [first, is_new] = seen.emplace(key, line); !is_new) {
        mistake(line, fmt::format("{}: is given twice, first in line {}", path, first->second));
        continue;
      }
      add(path, item.second, line, depth);
    }
  }

  void add(const std::string& path, const YAML::Node& node, int line, int depth) {
    Entry entry{.path = path, .origin = origin(line), .written = written(node), .line = line};
    entry.is_section = node.IsMap();
    if (!entry.is_section) entry.value = value_of(node);
    document_.entries.push_back(std::move(entry));
    if (!node.IsMap()) return;
    if (depth == deepest) {
      mistake(line, path + ": is nested too deeply");
    } else {
      section(node, path + ".", depth + 1);
    }
  }

  const std::string& name_;
  Document document_;
};

}  // namespace

std::string read_text_file(const std::string& file, std::string_view what) {
  const auto fail = [&](const std::string& why) {
    return ConfigError(fmt::format("cannot read the {} '{}': {}", what, file, why));
  };
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error) throw fail(error.message());
  if (std::filesystem::is_directory(status)) throw fail("it is a directory");
  if (!std::filesystem::is_regular_file(status)) throw fail("it is not a regular file");
  if (std::filesystem::file_size(file) > largest_file)
    throw fail(fmt::format("it is larger than {}", base::format_bytes(largest_file)));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw fail(std::strerror(errno));
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

Document read_document(std::string_view text, const std::string& name) {
  return Reader(name).read(std::string(text));
}

Entry read_value(const std::string& path, const std::string& text, const std::string& origin) {
  Entry entry{.path = path, .origin = origin, .written = text};
  try {
    entry.value = value_of(YAML::Load(text));
  } catch (const YAML::ParserException&) {  // no value then
  }
  return entry;
}

}  // namespace lockstep::train
