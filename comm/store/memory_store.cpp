// The store of ranks that are threads of one process.
#include <condition_variable>
#include <mutex>

#include "comm/store/rules.h"
#include "comm/store/store.h"
#include "comm/store/table.h"

namespace lockstep::comm {
namespace {

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    if (!table_.insert(key, value)) throw key_exists(key);
    changed_.notify_all();
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    const std::string* value = nullptr;
    changed_.wait_until(lock, deadline_after(timeout),
                        [&] { return (value = table_.find(key)) != nullptr; });
    if (value == nullptr) throw key_missing(key, timeout);
    return *value;
  }

  std::vector<bool> has(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(mutex_);
    std::vector<bool> there;
    for (const std::string& key : keys) there.push_back(table_.find(key) != nullptr);
    return there;
  }

  std::int64_t add(const std::string& counter, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    return table_.add(counter, amount);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Table table_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

}  // namespace lockstep::comm
