#include "train/config/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/config/scalar.h"
#include "train/config/schema.h"

namespace lockstep::train {
namespace {

constexpr std::size_t width = 100;

std::string default_of(const OptionSpec& spec) {
  return spec.required ? "required" : write_value(spec.kind, spec.default_value);
}

// `text` in comment lines of at most `width` columns.
std::string comment(std::string_view text, std::string_view indent) {
  std::string result;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) result += fmt::format("{}#{}\n", indent, line);
    line.clear();
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (indent.size() + 2 + line.size() + word.size() > width) end_line();
    line += ' ';
    line += word;
    begin = end + 1;
  }
  end_line();
  return result;
}

class Writer {
 public:
  explicit Writer(Comments comments) : comments_(comments) {}

  void section(const Section& section) {
    text_ += '\n';
    if (comments_ == Comments::with) text_ += comment(section.doc, "");
    text_ += section.name + ":\n";
    indent_ = "  ";
  }

  void key(const OptionSpec& spec, const base::OptionValue& value) {
    if (comments_ == Comments::with) {
      text_ += comment(fmt::format("{} ({}; {}{})", spec.doc, allowed(spec),
                                   spec.required ? "" : "default ", default_of(spec)),
                       indent_);
    }
    text_ += fmt::format("{}{}: {}\n", indent_, spec.name, write_value(spec.kind, value));
  }

  std::string text() && { return std::move(text_); }

 private:
  Comments comments_;
  std::string_view indent_;
  std::string text_;
};

// In a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t bar = text.find('|'); bar != text.npos; bar = text.find('|', bar + 2)) {
    text.insert(bar, 1, '\\');
  }
  return text;
}

std::string table_head() {
  return "\n| Key | Allowed | Default | Meaning |\n|---|---|---|---|\n";
}

std::string table_row(const std::string& path, const OptionSpec& spec, const std::string& note) {
  return fmt::format("| `{}` | {} | {} | {}{} |\n", path, cell(allowed(spec)),
                     spec.required ? "required" : '`' + cell(default_of(spec)) + '`',
                     cell(spec.doc), note);
}

std::string row_of(const Key& key) {
  const std::string note = key.only_with ? fmt::format(" Only with `{}`: {}.", key.only_with->key,
                                                       fmt::join(key.only_with->values, " or "))
                                         : "";
  return table_row(key.path(), key.spec, note);
}

std::string rows_of(std::string_view section) {
  std::string rows;
  for (const Key& key : keys()) {
    if (key.section == section) rows += row_of(key);
  }
  return rows;
}

}  // namespace

std::string to_yaml(const Config& config, Comments comments) {
  Writer writer(comments);
  const auto keys_of = [&](std::string_view section) {
    for (const Key& key : keys()) {
      if (key.section == section && key.applies_to(config)) writer.key(key.spec, key.get(config));
    }
  };
  keys_of("");
  for (const Section& section : sections()) {
    writer.section(section);
    keys_of(section.name);
    if (section.name != "model") continue;
    for (const OptionSpec& spec : models::find_model(config.model.name).options) {
      writer.key(spec, config.model.options.at(spec.name));
    }
  }
  return std::move(writer).text();
}

std::string to_lines(const Config& config) {
  std::string lines;
  const auto add = [&](const std::string& path, const OptionSpec& spec,
                       const base::OptionValue& value) {
    lines += fmt::format("{}: {}\n", path, write_value(spec.kind, value));
  };
  for (const Key& key : keys())
    if (key.applies_to(config)) add(key.path(), key.spec, key.get(config));
  const auto& specs = models::find_model(config.model.name).options;
  const Options options = base::complete(specs, config.model.options);
  for (const OptionSpec& spec : specs) add("model." + spec.name, spec, options.at(spec.name));
  return lines;
}

std::string configuration_reference() {
  std::string text =
      "# Configuration\n\n"
      "Every key of a configuration file. This page is generated: `train check-config "
      "--reference`.\n\n"
      "A key can also be given on the command line, as `--set section.key=value`, which goes "
      "before "
      "the file. `train check-config FILE` shows a file's effective configuration. Unknown keys, "
      "wrong types and values out of range are errors, all of them reported at once; so is a key "
      "that has no effect with the others.\n";
  text += table_head() + rows_of("");
  for (const Section& section : sections()) {
    text += fmt::format("\n## {}\n\n{}\n{}{}", section.name, section.doc, table_head(),
                        rows_of(section.name));
    if (section.name != "model") continue;
    for (const models::ModelSpec& model : models::models()) {
      text += fmt::format("\n### name: {}\n\n{}\n{}", model.name, model.doc, table_head());
      for (const OptionSpec& spec : model.options)
        text += table_row("model." + spec.name, spec, "");
    }
  }
  return text;
}

}  // namespace lockstep::train
