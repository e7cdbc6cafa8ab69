#include "train/compare/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "framework/base/units.h"

namespace lockstep::train {
namespace {

struct Column {
  const char* title;
  bool is_number;
};
constexpr std::array columns = {
    Column{"backend", false},   Column{"algorithm", false},  Column{"step", true},
    Column{"compute", true},    Column{"hidden comm", true}, Column{"exposed comm", true},
    Column{"busbw", true},      Column{"bytes/step", true},  Column{"start-up", true},
    Column{"final loss", true}, Column{"weights", false},    Column{"equal", false},
};
using Row = std::array<std::string, columns.size()>;

std::string equality(const Measured& reference, const Measured& measured) {
  if (&reference == &measured) return "reference";
  const std::int64_t step = first_difference(reference, measured);
  return step == 0 ? "yes" : fmt::format("from step {} not", step);
}

Row row_of(const ComparisonReport& report, const Measured& measured) {
  Row row;
  row[0] = measured.contender.backend;
  row[1] = measured.contender.algorithm;
  if (!measured.failure.empty()) {
    row[2] = "failed";
    return row;
  }
  row[2] = base::format_duration(measured.step);
  row[3] = base::format_duration(measured.compute);
  row[4] = base::format_duration(measured.hidden());
  row[5] = base::format_duration(measured.exposed);
  row[6] = fmt::format("{:.2f} GB/s", measured.bus_bandwidth(report.workers) / 1e9);
  row[7] = base::format_bytes(static_cast<std::uint64_t>(measured.bytes));
  row[8] = base::format_duration(measured.start_up);
  row[9] = fmt::format("{:.6f}", measured.final_loss);
  row[10] = measured.weights.empty() ? "" : measured.weights.back().substr(0, 8);
  row[11] = equality(report.measured.front(), measured);
  return row;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

// One bar for each contender: the step above, and below it when its buckets travelled. What lies
// under compute is hidden, what stands out behind it is exposed.
std::string bars(const ComparisonReport& report) {
  constexpr double left = 170, width = 620, height = 58;
  double longest = 0;
  for (const auto& measured : report.measured) longest = std::max(longest, measured.step);
  if (longest <= 0) return "";
  const double scale = width / longest;
  std::string svg = fmt::format("<svg viewBox='0 0 {} {}' role='img'>\n", left + width + 90,
                                height * static_cast<double>(report.measured.size()) + 8);
  double y = 8;
  const auto bar = [&](const char* kind, double x, double top, double seconds) {
    if (seconds > 0)
      svg += fmt::format(
          "<rect class='{}' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='18'><title>{} "
          "{}</title></rect>\n",
          kind, left + x * scale, top, seconds * scale, kind, base::format_duration(seconds));
  };
  for (const auto& measured : report.measured) {
    svg += fmt::format("<text x='0' y='{:.1f}'>{}</text>\n", y + 24,
                       escaped(measured.contender.name()));
    bar("compute", 0, y, measured.compute);
    bar("hidden", std::max(0.0, measured.compute - measured.hidden()), y + 22, measured.hidden());
    bar("exposed", measured.compute, y + 22, measured.exposed);
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}'>{}</text>\n", left + measured.step * scale + 6,
                       y + 24,
                       measured.failure.empty() ? base::format_duration(measured.step) : "failed");
    y += height;
  }
  return svg + "</svg>\n";
}

constexpr const char* style = R"(
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1080px;padding:0 1rem;color:#1f2328}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0;font-size:14px}
th,td{padding:.3rem .7rem;border-bottom:1px solid #d0d7de;text-align:left}td,th{white-space:nowrap}td.n,th.n{text-align:right}
svg{width:100%;font:13px system-ui,sans-serif}.compute{fill:#54aeff}.hidden{fill:#4ac26b}.exposed{fill:#fa4549}
.key i{display:inline-block;width:1em;height:1em;margin:0 .3em 0 1em;vertical-align:-.1em}
)";

}  // namespace

std::string ComparisonReport::table() const {
  std::vector<Row> rows;
  Row titles;
  for (std::size_t c = 0; c < columns.size(); ++c) titles[c] = columns[c].title;
  rows.push_back(titles);
  for (const auto& one : measured) rows.push_back(row_of(*this, one));
  std::array<std::size_t, columns.size()> widths{};
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += columns[c].is_number ? fmt::format("{:>{}}  ", row[c], widths[c])
                                   : fmt::format("{:<{}}  ", row[c], widths[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const auto& one : measured)
    if (!one.failure.empty()) text += fmt::format("{}: {}\n", one.contender.name(), one.failure);
  return text;
}

std::string ComparisonReport::json() const {
  nlohmann::ordered_json document{
      {"config", config}, {"workers", workers}, {"steps", steps}, {"rounds", rounds}};
  auto& list = document["contenders"] = nlohmann::ordered_json::array();
  for (const auto& one : measured) {
    nlohmann::ordered_json entry{{"backend", one.contender.backend},
                                 {"algorithm", one.contender.algorithm}};
    if (!one.failure.empty()) {
      entry["failure"] = one.failure;
    } else {
      entry["step_seconds"] = one.step;
      entry["compute_seconds"] = one.compute;
      entry["communication_seconds"] = one.communication;
      entry["hidden_seconds"] = one.hidden();
      entry["exposed_seconds"] = one.exposed;
      entry["busbw_bytes_per_second"] = one.bus_bandwidth(workers);
      entry["reduced_bytes"] = one.bytes;
      entry["start_up_seconds"] = one.start_up;
      entry["final_loss"] = one.final_loss;
      entry["weights"] = one.weights.empty() ? "" : one.weights.back();
      entry["first_different_step"] = first_difference(measured.front(), one);
    }
    list.push_back(std::move(entry));
  }
  return document.dump(2) + "\n";
}

std::string ComparisonReport::html() const {
  std::string head, body;
  for (const auto& column : columns)
    head += fmt::format("<th{}>{}</th>", column.is_number ? " class='n'" : "", column.title);
  for (const auto& one : measured) {
    const Row row = row_of(*this, one);
    body += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      body +=
          fmt::format("<td{}>{}</td>", columns[c].is_number ? " class='n'" : "", escaped(row[c]));
    body += "</tr>\n";
    if (!one.failure.empty())
      body +=
          fmt::format("<tr><td colspan='{}'>{}</td></tr>\n", columns.size(), escaped(one.failure));
  }
  return fmt::format(
      "<!doctype html><html lang='en'><meta charset='utf-8'><title>Backends "
      "compared</title><style>{}</style>\n"
      "<h1>Backends compared</h1>\n<p>{}, {} worker{}, {} steps, medians over {} round{} in "
      "turns.</p>\n{}"
      "<p class='key'><i class='compute' style='background:#54aeff'></i>compute"
      "<i style='background:#4ac26b'></i>communication hidden behind it"
      "<i style='background:#fa4549'></i>exposed communication</p>\n"
      "<table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></html>\n",
      style, escaped(config), workers, workers == 1 ? "" : "s", steps, rounds,
      rounds == 1 ? "" : "s", bars(*this), head, body);
}

}  // namespace lockstep::train
