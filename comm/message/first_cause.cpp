#include "comm/message/first_cause.h"

#include <fmt/core.h>

#include <charconv>
#include <thread>

namespace lockstep::comm {
namespace {

constexpr std::size_t longest_text = 8192;
constexpr std::chrono::milliseconds between_looks{10};

std::string encode(int rank, const std::string& text) {
  return fmt::format("{} {}", rank, text.substr(0, longest_text));
}

RankError decode(const std::string& value) {
  int rank = -1;
  const char* const end = value.data() + value.size();
  const char* const rest = std::from_chars(value.data(), end, rank).ptr;
  return RankError(rank, rest == end ? "no cause was given" : std::string(rest + 1, end));
}

}  // namespace

void FirstCause::on_offer(EndWaits end_waits) {
  const std::lock_guard lock(mutex_);
  end_waits_ = std::move(end_waits);
}

void FirstCause::offer(int rank, const std::string& text) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_.emplace(rank, text);
  }
  try {
    store_.set(key_, encode(rank, text));
  } catch (const Error&) {
    // Another rank was first, or the store is gone and with it whoever could ask.
  }
  std::vector<std::shared_ptr<FirstCause>> parts;
  std::unique_lock lock(mutex_);
  for (const auto& part : parts_)
    if (auto alive = part.lock()) parts.push_back(std::move(alive));
  // Under it: a communicator that goes away takes its callback back first.
  if (end_waits_) end_waits_(*cause_);
  lock.unlock();
  for (const auto& part : parts) part->offer(rank, text);
} catch (const std::exception&) {
  // Out of memory: the connections break all the same when the process ends.
}

std::optional<RankError> FirstCause::heard() const {
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return cause_;
  }
  return whole_ ? whole_->heard() : std::nullopt;
}

std::optional<RankError> FirstCause::ask_store() {
  if (whole_)
    if (auto cause = whole_->ask_store()) return cause;
  try {
    if (store_.has({key_}).front())
      return decode(store_.get(key_, std::chrono::milliseconds(1000)));
  } catch (const Error&) {
    // The store is gone: nobody can say more.
  }
  return std::nullopt;
}

std::optional<RankError> FirstCause::find(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (auto cause = heard()) return cause;
    if (auto cause = ask_store()) return cause;
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(between_looks);
  }
}

std::shared_ptr<FirstCause> FirstCause::make_part(std::string key) {
  auto part = std::make_shared<FirstCause>(store_, std::move(key));
  part->whole_ = shared_from_this();
  const std::lock_guard lock(mutex_);
  parts_.push_back(part);
  return part;
}

}  // namespace lockstep::comm
