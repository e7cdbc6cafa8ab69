// The classes of a CSV file's label column. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

// Collects the labels of the train file, then maps label texts to classes.
class CsvLabels {
 public:
  // `class_names` are those given by the user; when there are any, nothing needs to be collected.
  explicit CsvLabels(std::vector<std::string> class_names);

  // False when there are more names than can be classes: the column holds something else.
  [[nodiscard]] bool collect(std::string_view label);
  void finish();

  std::int64_t classes() const { return classes_; }
  const std::vector<std::string>& names() const { return names_; }  // empty: numbered
  // nullopt for a label that is not a class.
  std::optional<std::int64_t> class_of(const std::string& label) const;
  std::string expected() const;  // for messages: "a class: a, b or c", "0 to 9"

 private:
  bool given_;
  std::int64_t classes_ = 0;
  std::vector<std::string> names_;
  std::map<std::string, std::int64_t, std::less<>> class_of_name_;
  std::int64_t largest_number_ = -1;
  bool numbered_ = true;  // all labels so far are whole numbers from 0
};

}  // namespace lockstep::data
