// Table: the content of a store, keys that are written once and counters. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep::comm {

class Table {
 public:
  // False, and nothing changed, where the key is there already.
  bool insert(const std::string& key, const std::string& value) {
    return values_.emplace(key, value).second;
  }
  // nullptr where the key is not there.
  const std::string* find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  std::int64_t add(const std::string& counter, std::int64_t amount) {
    return counters_[counter] += amount;
  }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
};

}  // namespace lockstep::comm
