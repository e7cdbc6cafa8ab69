#include "tests/emulation/work.h"

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

// ThreadSanitizer has room for 8,000 threads, fibers included, and slows down with their number.
// Only the thread that runs the devices counts.
constexpr int most_race_contexts = 1500;
int race_contexts = 0;

}  // namespace

RaceContexts::~RaceContexts() {
  for (void* const context : free_) destroy(context);
}

void* RaceContexts::take() {
  if (!free_.empty()) {
    void* const context = free_.back();
    free_.pop_back();
    return context;
  }
  return race_contexts < most_race_contexts ? make() : nullptr;
}

void* RaceContexts::make() {
  ++race_contexts;
  return __tsan_create_fiber(0);
}

void RaceContexts::destroy(void* context) {
  --race_contexts;
  __tsan_destroy_fiber(context);
}

void RaceContexts::destroy_dropped(void* context) {
  void* const own = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(context, 1);
  Inside::end();
  __tsan_switch_to_fiber(own, 1);
  destroy(context);
}

}  // namespace lockstep::emulation
