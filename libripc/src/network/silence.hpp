// SPDX-License-Identifier: Apache-2.0
// When a connection that owes something has said nothing for too long.
#pragma once

#include <cstdint>

namespace ripc::network {

// Of one connection; one thread. It is looked at kLooks times in the time that is too long.
class Silence {
 public:
  static constexpr unsigned kLooks = 4;

  // owed: it should say something. heard: grows with everything that it says. True: nothing new at kLooks looks in a
  // row, all that time something was owed.
  bool look(bool owed, std::uint64_t heard) noexcept {
    looks_ = owed && heard == heard_ ? looks_ + 1 : 0;
    heard_ = heard;
    return looks_ >= kLooks;
  }

 private:
  std::uint64_t heard_ = 0;
  unsigned looks_ = 0;
};

}  // namespace ripc::network
