#include "comm/memory/group.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "comm/memory/barrier.h"
#include "comm/memory/control.h"
#include "comm/memory/core_mask.h"
#include "comm/memory/mapped_memory.h"
#include "framework/device/allocator.h"

namespace lockstep::comm {
namespace {

// A sleeping rank looks this often whether the group was aborted, so that an abort needs to know
// nothing about who sleeps where.
constexpr std::chrono::milliseconds longest_sleep{20};

Note make_note(Note::Kind kind, std::int64_t number, int key = 0, std::string_view text = {}) {
  Note note;
  note.kind = kind;
  note.number = number;
  note.key = key;
  note.text.assign(text);
  return note;
}

// The bytes from one rank's part to the next; as many as there are where the sum would overflow,
// which no host has.
std::size_t part_stride(std::size_t bytes, int ranks) {
  const std::size_t most =
      std::numeric_limits<std::size_t>::max() / 2 / static_cast<std::size_t>(ranks);
  return bytes > most - page_size() ? most : device::align_up(bytes, page_size());
}

}  // namespace

WaitPolicy WaitPolicy::for_ranks(int ranks_on_this_host, int cores) {
  // About 40 us: a little more than it costs to wake a rank on a core that has gone idle.
  if (ranks_on_this_host <= cores) return {.spins = 2000};
  // Enough for each of eight ranks on two cores to have its turn many times, some 50 us in all.
  return {.spins = 10, .yields = 100};
}

Group::Group(int rank, int size, std::shared_ptr<Control> control)
    : rank_(rank),
      size_(size),
      control_(std::move(control)),
      agreement_(std::make_unique<Barrier>(*this, control_->barrier_memory())) {
  set_wait_policy(WaitPolicy::for_ranks(size, CoreMask::of_this_thread().count()));
}

Group::~Group() = default;

void Group::set_wait_policy(WaitPolicy policy) {
  spin_budget_.set_most(policy.spins);
  yield_budget_.set_most(policy.yields);
}

// Reports an abort instead of throwing: the rank that aborted may have posted the signal before.
Group::Slept Group::sleep(Signal& signal, std::uint32_t seen, device::Deadline deadline) const {
  if (aborted()) return Slept::aborted;
  const auto now = device::Clock::now();
  if (now >= deadline) return Slept::too_late;
  sleep_on(signal, seen, std::min(deadline, now + longest_sleep));
  return Slept::once;
}

void Group::abort(int rank, const std::string& cause) {
  const std::lock_guard lock(abort_mutex_);
  if (has_given_cause_) return;
  has_given_cause_ = true;
  control_->offer_cause(rank_, rank, cause);
}

bool Group::aborted() const {
  return control_->aborted();
}

void Group::throw_if_aborted() const {
  control_->throw_if_aborted();
}

std::vector<Note> Group::agree(const Note& mine, device::Deadline deadline) {
  throw_if_aborted();
  const int set = agreements_++ % 2;
  control_->note(set, rank_) = mine;
  agreement_->arrive_and_wait(deadline, [](int missing) {
    return RankError(missing, fmt::format("rank {} did not come to an allocation or a split of the "
                                          "group in time",
                                          missing));
  });
  std::vector<Note> notes;
  for (int rank = 0; rank < size_; ++rank) {
    notes.push_back(control_->note(set, rank));
    if (notes.back().kind != mine.kind)
      throw RankError(-1, fmt::format("ranks {} and {} are at different steps of the group's "
                                      "allocations and splits",
                                      rank_, rank));
  }
  return notes;
}

std::shared_ptr<SymmetricBuffer> Group::allocate(std::size_t bytes, device::Deadline deadline) {
  const auto throw_if_any_failed = [](const std::vector<Note>& notes) {
    for (const Note& note : notes)
      if (note.text.length != 0) throw StartupError(std::string(note.text.view()));
  };
  const std::size_t stride = part_stride(bytes, size_);
  const std::size_t total = stride * static_cast<std::size_t>(size_);

  std::shared_ptr<MappedMemory> memory;
  Note request = make_note(Note::Kind::allocate, static_cast<std::int64_t>(bytes));
  if (rank_ == 0 && bytes > 0) {
    try {
      memory = make_memory(total);
    } catch (const StartupError& error) {
      request.text.assign(error.what());
    }
  }
  const std::vector<Note> requests = agree(request, deadline);
  for (int rank = 1; rank < size_; ++rank)
    if (const Note& other = requests[static_cast<std::size_t>(rank)];
        other.number != requests[0].number)
      throw RankError(rank,
                      fmt::format("rank {} allocates {} bytes of the group's memory where rank 0 "
                                  "allocates {}",
                                  rank, other.number, requests[0].number));
  throw_if_any_failed(requests);

  std::vector<std::span<std::byte>> parts(static_cast<std::size_t>(size_));
  if (bytes == 0) return std::make_shared<SymmetricBuffer>(rank_, std::move(parts), nullptr);

  Note outcome = make_note(Note::Kind::reserve, 0);
  try {
    memory = share_memory(std::move(memory), total, deadline);
    // Each rank takes its own part, so that it lies on the memory node of the core that uses it
    // most.
    memory->reserve(stride * static_cast<std::size_t>(rank_), stride);
  } catch (const StartupError& error) {
    outcome.text.assign(error.what());
  }
  throw_if_any_failed(agree(outcome, deadline));
  memory->close_descriptor();
  memory->prefault();
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    parts[rank] = memory->bytes().subspan(stride * rank, bytes);
  return std::make_shared<SymmetricBuffer>(rank_, std::move(parts), std::move(memory));
}

std::unique_ptr<Group> Group::split(int color, int key, device::Deadline deadline) {
  const std::vector<Note> wishes = agree(make_note(Note::Kind::split, color, key), deadline);
  std::vector<int> members;
  for (int rank = 0; rank < size_; ++rank)
    if (wishes[static_cast<std::size_t>(rank)].number == color) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });

  const int leader = members.front();
  std::string address;
  if (color >= 0 && rank_ == leader) address = prepare_split(static_cast<int>(members.size()));
  const std::vector<Note> addresses =
      agree(make_note(Note::Kind::address, 0, 0, address), deadline);
  if (color < 0) return nullptr;
  const auto new_rank = std::find(members.begin(), members.end(), rank_) - members.begin();
  return join_split(members, static_cast<int>(new_rank),
                    std::string(addresses[static_cast<std::size_t>(leader)].text.view()), deadline);
}

}  // namespace lockstep::comm
