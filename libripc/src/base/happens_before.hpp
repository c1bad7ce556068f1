// SPDX-License-Identifier: Apache-2.0
// Tells ThreadSanitizer about an order that it cannot see, because the order goes through another process or another
// mapping of the same memory. Does nothing in other builds.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ripc::internal {

// All that this thread did so far happens before anything that a thread does after happens_after() for the same object.
inline void happens_before([[maybe_unused]] void* object) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(object);
#endif
}

inline void happens_after([[maybe_unused]] void* object) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(object);
#endif
}

}  // namespace ripc::internal
