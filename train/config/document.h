// The YAML text of a configuration as a flat list of paths and values, each with its place. Knows
// YAML, not the schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/option.h"

namespace lockstep::train {

struct Entry {
  std::string path;     // "optimizer.lr"
  std::string origin;   // "mlp.yaml:12", "--set optimizer.lr=0.1"
  std::string written;  // as it stands there
  // A section is listed before what it contains; nothing where no option can hold the value, such
  // as a list of words.
  std::optional<base::OptionValue> value = {};
  bool is_section = false;
  int line = 0;  // for the order of messages
};

struct Mistake {
  int line = 0;
  std::string text;
};

struct Document {
  std::vector<Entry> entries;
  std::vector<Mistake> mistakes;
};

// `name` is what the text is called in messages.
Document read_document(std::string_view text, const std::string& name);

// The text of a regular file of at most 1 MiB. ConfigError, "cannot read the <what> 'x.yaml': ...".
std::string read_text_file(const std::string& file, std::string_view what);

// One value on its own, a scalar or a list.
Entry read_value(const std::string& path, const std::string& text, const std::string& origin);

}  // namespace lockstep::train
