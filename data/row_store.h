// RowStore: where the rows of a group (see sampler.h) stand in memory, in the stored type. Private
// to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>

#include "data/sampler.h"

namespace lockstep::data {

// Thrown by waits when the loader is being stopped; never leaves it.
struct Cancelled {};

// Row r of the group is at features + r * row bytes and labels[r].
struct GroupRows {
  const Group* group;
  const std::byte* features;
  const std::int64_t* labels;
};

// Used by one thread at a time.
class RowStore {
 public:
  virtual ~RowStore() = default;

  // The next group entered will be this one. Collective over the workers of the host.
  virtual void seek(std::int64_t epoch, std::int64_t group) = 0;
  // Every worker enters all groups in order (those of an epoch, then those of the next), and enters
  // one for each batch that has rows in it, its own share or not: the workers read a group
  // together. Valid until the next call. Throws Cancelled.
  virtual GroupRows enter(std::int64_t epoch, std::int64_t group, const std::stop_token& stop) = 0;
  // Says that all positions before `position` of the entered group have been used: a moment to read
  // some of the next group. Never waits for another worker. Throws Cancelled.
  virtual void read_ahead(std::int64_t position, const std::stop_token& stop) = 0;
};

}  // namespace lockstep::data
