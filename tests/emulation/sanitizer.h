// What ThreadSanitizer and AddressSanitizer must be told about fibers and streams.
//
// The emulation itself is built without sanitizers (it would only report its own, deliberate, ways
// of sharing), so it cannot ask the preprocessor: the entry points are weak, and there exactly when
// the program was linked with a sanitizer.
#pragma once

#include <cstddef>

extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char* file, int line);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                  std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom_old,
                                                   std::size_t* size_old);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
}

namespace lockstep::emulation {

inline bool under_thread_sanitizer() {
  return __tsan_switch_to_fiber != nullptr;
}
inline bool under_address_sanitizer() {
  return __sanitizer_start_switch_fiber != nullptr;
}

// "What happened before release(x) happened before what follows acquire(x)."
inline void acquire(const void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(const_cast<void*>(address));
}
inline void release(const void* address) {
  if (__tsan_release != nullptr) __tsan_release(const_cast<void*>(address));
}

inline void poison(const void* address, std::size_t size) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(address, size);
}
inline void unpoison(const void* address, std::size_t size) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(address, size);
}

// While one exists on a thread or fiber it runs code of the emulation. A template function that
// both the emulation and instrumented code instantiate may be linked as its instrumented copy; what
// that does here is nobody's race.
class Inside {
 public:
  Inside() {
    if (AnnotateIgnoreReadsBegin == nullptr) return;
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
  }
  ~Inside() { end(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static void end() {
    if (AnnotateIgnoreReadsEnd == nullptr) return;
    AnnotateIgnoreReadsEnd("", 0);
    AnnotateIgnoreWritesEnd("", 0);
  }
};

}  // namespace lockstep::emulation
