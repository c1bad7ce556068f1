// SPDX-License-Identifier: Apache-2.0
// The two processes of a measurement. This process forks the other before any library state exists; both have their own
// context, run on different processors, and talk about the measurement over a socket pair.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.hpp"

namespace cli::bench {

// The failure of the system call `what`, from errno.
ripc::Error system_error(const char* what);

// What the measuring side asks of the other.
struct Order {
  std::uint64_t kind = 0;  // its meaning is agreed between the two sides
  std::uint64_t count = 0;
  std::uint64_t first = 0;  // sequence number
};

// One end of the socket pair.
class Control {
 public:
  explicit Control(int fd) noexcept : fd_(fd) {}
  bool send(const Order& order) const noexcept;
  // Empty if the other side has ended, or sent nothing for a minute.
  std::optional<Order> receive() const noexcept;
  // True if receive() would not wait.
  bool has_said() const noexcept;
  void close() noexcept;

 private:
  int fd_;
};

// Memory that both processes map: cache lines far enough apart that no prefetcher fetches them together.
struct SharedLines {
  alignas(256) std::atomic<std::uint64_t> there{0};
  alignas(256) std::atomic<std::uint64_t> back{0};
};

struct Side {
  Control control;
  SharedLines* shared;
  int processor;  // -1: not pinned
};

// Runs `other` in a child process, which ends when `other` returns, and `measure` in this one. The other side should
// end when its Control::receive() returns nothing.
BenchResult run_pair(const BenchOptions& options, const std::function<ripc::Error(Side&)>& other,
                     const std::function<BenchResult(Side&)>& measure);

// The processors that this process may use.
std::vector<int> allowed_processors();

// The processor time of all threads of this process, in nanoseconds.
std::uint64_t processor_time() noexcept;

// Runs the calling thread on one processor, if it is not negative.
void pin_to(int processor) noexcept;

// The library on one side, connected to the other side. Pins the calling thread when all is set up.
struct Library {
  ripc::Context context;
  ripc::Service service;
  ripc::ServiceId peer = 0;
  std::string kind;  // how the payload travels; `auto` has become short or long, by its size
};
ripc::Result<Library> open_library(const Side& side, const BenchOptions& options);

// The payload, or the part of it that is sent at once.
ripc::Item payload_item(const BenchOptions& options, ripc::Bytes bytes) noexcept;

// Sends, and waits for room if necessary. Fails if there is no room for some seconds.
ripc::Result<ripc::Ticket> send_patiently(Library& library, const ripc::Items& items,
                                          const ripc::SendOptions& options = {});
// The same for several messages, with as few calls as the room allows.
ripc::Error send_many_patiently(Library& library, std::span<const ripc::OutgoingMessage> messages,
                                std::span<ripc::Ticket> tickets, const ripc::SendOptions& options);
ripc::Result<ripc::Ticket> reply_patiently(Library& library, const ripc::Message& message, const ripc::Items& items);

// Round trips of bare cache lines between the two sides: the floor for anything over shared memory. There is one line
// for each direction, written by one side and read by the other, as in any pair of queues.
// Each side calls its function with the same count. samples: nanoseconds, appended.
[[nodiscard]] bool measure_cacheline(const Side& side, std::uint64_t count, std::vector<double>& samples);
void answer_cacheline(const Side& side, std::uint64_t count);

// "The other side has ended": see its own message on standard error.
ripc::Error other_side_ended();

}  // namespace cli::bench
