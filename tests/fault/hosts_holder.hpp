// SPDX-License-Identifier: Apache-2.0
// The two ends of the tests between hosts. A holder on the other host receives long messages, sends some when asked,
// and reports what it got. The other end is the test itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fault_support.hpp"

namespace fault {

inline constexpr ripc_service_id kHolder = 3001;
inline constexpr ripc_service_id kAsker = 3002;
inline constexpr ripc_service_id kNobody = 3003;  // never registered
inline constexpr std::size_t kLong = 90'000'000;
inline constexpr std::uint32_t kIgnored = 4;  // the tag of messages that the holder only receives

// What the holder has received since it started.
struct Told {
  std::uint64_t question;
  std::uint64_t whole;        // messages that were sent to be counted
  std::uint64_t torn;         // of these, with other bytes than were sent
  std::uint64_t most_copies;  // how often the same one was delivered
  std::uint64_t descriptors;  // that the holder has open
  // Messages of any kind: received, and what the holder's statistics say about the others.
  std::uint64_t taken;
  std::uint64_t lost;
  std::uint64_t late;
  std::uint64_t duplicates;
};

// The holder's role; arguments DIRECTORY [TRANSPORTS]. Runs until it is killed.
int holder(const std::vector<std::string>& arguments);

// A context that uses sockets only, as on a host of its own.
Context make_far_context(const std::string& directory, const char* transports = "socket");

// The test's end. It has one window, of kLong bytes, which receive_long() posts again.
class Asker {
 public:
  explicit Asker(const std::string& directory, const char* transports = "socket");
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  explicit operator bool() const { return service_ != nullptr; }
  const Service& service() const { return service_; }
  const Context& context() const { return context_; }

  // Asks until the holder answers. Empty if it does not answer within the limit.
  std::optional<Told> ask(std::uint64_t limit = kLimit);
  // Asks once. Empty if the holder does not answer within a second.
  std::optional<Told> ask_once();
  // Sends a long message to the holder.
  ripc_status send_long(std::size_t size, std::uint64_t seed, Ticket& ticket);
  // Makes the holder send a long message of `size` bytes.
  ripc_status request_long(std::size_t size, std::uint64_t seed);
  // Receives until a long message comes. Returns its status: RIPC_CORRUPT if it is torn, RIPC_TIMEOUT if none comes.
  ripc_status receive_long(std::uint64_t limit);
  // Whether the window is still posted and unused.
  bool window_is_free();

 private:
  void post();

  Context context_;
  Service service_;
  std::vector<std::byte> window_;
  std::uint64_t question_ = 0;
};

}  // namespace fault
