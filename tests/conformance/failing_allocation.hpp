// SPDX-License-Identifier: Apache-2.0
// Makes memory scarce: the executable's operator new stands before that of the C++ library, for the library under test
// too. malloc() is not touched: the C library does not live without it.
#pragma once

#include <cstdint>

namespace conformance {

// While it lives, allocations by operator new fail. One at a time; made and destroyed by the same thread.
class FailingAllocation {
 public:
  enum class Where {
    here,       // in the thread that made it
    elsewhere,  // in all others
  };
  enum class Count {
    one,   // the nth only
    rest,  // the nth and all that follow
  };
  explicit FailingAllocation(std::uint64_t nth, Where where = Where::here, Count count = Count::one);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  // Whether it came to that.
  bool failed() const;
};

}  // namespace conformance
