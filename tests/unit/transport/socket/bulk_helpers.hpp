// SPDX-License-Identifier: Apache-2.0
// Two ends of a session over real TCP connections on loopback, each with its own responder; and a raw end that says
// whatever a test wants.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "remote/bulk/limits.hpp"
#include "transport/socket/stream_bulk.hpp"
#include "unit/base/tcp_pair.hpp"
#include "unit/remote/session/sealing.hpp"
#include "wire/bulk.hpp"

namespace ripc::internal::socket {
using remote::kSegmentsAhead;
using remote::kSegmentSize;
}  // namespace ripc::internal::socket

namespace ripc::internal::socket::testing {

namespace bulk = wire::bulk;

inline constexpr std::size_t kMebibyte = std::size_t{1} << 20;
inline constexpr Nanoseconds kPatience = 20'000'000'000;

// One thread opens the gate; another one waits for that, with a bound.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    ++opened_;
    changed_.notify_all();
  }
  // Waits until the gate has been opened this many times in all.
  [[nodiscard]] bool wait(std::size_t times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience), [&] { return opened_ >= times; });
  }
  std::size_t times() {
    const std::lock_guard lock(mutex_);
    return opened_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t opened_ = 0;
};

// Memory that can be unmapped.
class Pages {
 public:
  explicit Pages(std::size_t size)
      : size_(size),
        data_(static_cast<std::byte*>(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(data_, size_); }
  // The addresses stay taken, so that nothing else is mapped there.
  void forbid(std::size_t from = 0) { ASSERT_EQ(::mprotect(data_ + from, size_ - from, PROT_NONE), 0); }
  std::span<std::byte> bytes() { return {data_, size_}; }

 private:
  std::size_t size_;
  std::byte* data_;
};

// One end: a responder's loop in its own thread, and the events that a receiver waits for.
class Side {
 public:
  explicit Side(const BulkOptions& options = {})
      : loop_(EventLoop::create().value()), events(EventSet::create().value()) {
    peer = StreamBulk::create(*loop_,
                              {.finished =
                                   [this](std::uint64_t owner, std::uint64_t transfer, ripc_status) {
                                     last_finished = {owner, transfer};
                                     finished.open();
                                   },
                               .dial =
                                   [this] {
                                     dialed.open();
                                     if (on_dial) on_dial();
                                   },
                               .repeat = [](std::uint64_t, spi::Bytes) {}},
                              options);
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~Side() {
    peer->died();
    loop_->stop();
    thread_.join();
  }

  EventLoop& loop() { return *loop_; }

  // Runs a task in the responder and waits until it is done. By then, everything that was ready before has been
  // handled.
  void in_responder(const std::function<void()>& task) {
    Gate done;
    loop_->post([&] {
      task();
      done.open();
    });
    ASSERT_TRUE(done.wait());
  }

  wire::Descriptor expose(spi::Bytes bytes, std::uint64_t& transfer, std::uint64_t owner = 1,
                          const memory::Hold* hold = nullptr) {
    const spi::Exposure item{bytes, hold};
    wire::Descriptor descriptor{};
    EXPECT_EQ(peer->expose(owner, std::span(&item, 1), std::span(&descriptor, 1), transfer), RIPC_OK);
    return descriptor;
  }

  // Whether this many connections are lost in time. By then, the reasons are counted.
  [[nodiscard]] bool await_lost(std::uint64_t connections) {
    const Deadline deadline = Deadline::after(kPatience);
    while (peer->counters().connections_lost < connections && !deadline.expired()) std::this_thread::yield();
    return peer->counters().connections_lost >= connections;
  }

  // How a transfer that the other end has finished ended. The other end gets the answer before this end sees the
  // result.
  ripc_status outcome(std::uint64_t transfer) {
    const Deadline deadline = Deadline::after(kPatience);
    for (;;) {
      const ripc_status status = peer->transfer_status(transfer);
      if (status != RIPC_PENDING || deadline.expired()) return status;
      std::this_thread::yield();
    }
  }

  // Begins a transfer of one item.
  ripc_status begin(const wire::Descriptor& item) { return peer->begin(std::span(&item, 1), events); }
  ripc_status pull(spi::Pull& pull) {
    for (;;) {
      const ripc_status status = peer->pull(pull, events);
      if (status != RIPC_PENDING || events.sleep(Deadline::after(kPatience), monotonic_now()) == RIPC_TIMEOUT)
        return status;
      events.drain();
    }
  }
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status) {
    for (;;) {
      const ripc_status outcome = peer->finish(descriptor, status, events);
      if (outcome != RIPC_PENDING || events.sleep(Deadline::after(kPatience), monotonic_now()) == RIPC_TIMEOUT)
        return outcome;
      events.drain();
    }
  }
  // Takes a message of one long item, as core does.
  ripc_status take(const wire::Descriptor& descriptor, std::byte* destination) {
    if (const ripc_status begun = begin(descriptor); begun != RIPC_OK) return begun;
    spi::Pull whole{.descriptor = descriptor, .destination = destination};
    const ripc_status pulled = pull(whole);
    return pulled == RIPC_OK ? finish(descriptor, RIPC_OK) : pulled;
  }

 private:
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;

 public:
  EventSet events;
  std::shared_ptr<StreamBulk> peer;
  Gate finished;
  Gate dialed;
  std::pair<std::uint64_t, std::uint64_t> last_finished;
  std::function<void()> on_dial;
};

// Both ends. Either may dial.
class BulkPair {
 public:
  // `seals`: both seal what they send.
  explicit BulkPair(const BulkOptions& options = {}, bool seals = false)
      : seals_(seals), sender(options), receiver(options) {
    sender.in_responder([this] { sender.on_dial = [this] { connect(); }; });
    receiver.in_responder([this] { receiver.on_dial = [this] { connect(); }; });
  }
  ~BulkPair() {
    sender.peer->died();
    receiver.peer->died();
  }

  void connect() {
    auto [near, far] = tcp_pair();
    {
      const std::lock_guard lock(mutex_);
      cuts_.emplace_back(::dup(near.get()));
    }
    remote::SecureSocket one(std::move(near));
    remote::SecureSocket two(std::move(far));
    if (seals_) {
      const remote::Sealing sealing;
      sealing.protect_one(one);
      sealing.protect_two(two);
    }
    sender.peer->adopt(std::move(one));
    receiver.peer->adopt(std::move(two));
  }
  // Ends all connections as a broken network would.
  void cut() {
    const std::lock_guard lock(mutex_);
    for (const UniqueFd& socket : cuts_) ::shutdown(socket.get(), SHUT_RDWR);
    cuts_.clear();
  }

 private:
  const bool seals_;
  std::mutex mutex_;
  std::vector<UniqueFd> cuts_;

 public:
  Side sender;
  Side receiver;
};

// An end without a StreamBulk: the test plays it.
class RawEnd {
 public:
  explicit RawEnd(UniqueFd socket) : socket_(std::move(socket)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  // Connected to `side`, at this address.
  static RawEnd of(Side& side, std::uint32_t address = INADDR_LOOPBACK) {
    auto [near, far] = tcp_pair(address);
    side.peer->adopt(std::move(near));
    return RawEnd(std::move(far));
  }

  bool write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (received <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    }
    return true;
  }
  bool send(const bulk::Frame& frame) {
    std::array<std::byte, bulk::kHeaderSize> bytes;
    encode(frame, std::span(bytes));
    return write(bytes);
  }
  bool send(const bulk::Frame& frame, std::span<const std::byte> payload, ripc_status status = RIPC_OK) {
    return send(frame) && write(payload) && write(bulk::encode_trailer(status));
  }
  std::optional<bulk::Frame> receive() {
    std::array<std::byte, bulk::kHeaderSize> bytes;
    if (!read(bytes)) return std::nullopt;
    const Result<bulk::Frame> frame = bulk::decode(std::span(bytes));
    return frame.ok() ? std::optional(*frame) : std::nullopt;
  }
  // Receives the payload of a frame, and returns its status.
  std::optional<ripc_status> receive_payload(const bulk::Frame& frame, std::vector<std::byte>& payload) {
    payload.resize(frame.length);
    std::array<std::byte, bulk::kTrailerSize> trailer;
    if (!read(payload) || !read(trailer)) return std::nullopt;
    return bulk::decode_trailer(std::span(trailer));
  }
  // Whether the other end has closed the connection. Throws away what it had sent before.
  [[nodiscard]] bool is_closed() {
    std::array<std::byte, 4096> bytes;
    for (;;) {
      const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (received == 0 || (received < 0 && errno == ECONNRESET)) return true;
      if (received < 0) return false;
    }
  }
  void close() { socket_.reset(); }
  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
};

// Bytes whose values depend on their positions.
inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u;
  for (std::size_t index = 0; index < size; index += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(bytes.data() + index, &state, std::min<std::size_t>(8, size - index));
  }
  return bytes;
}

inline bool all_are(std::span<const std::byte> bytes, std::byte value) {
  // Compares the bytes with themselves, shifted by one. A loop over hundreds of MiB takes minutes where every access is
  // checked.
  return bytes.empty() ||
         (bytes.front() == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace ripc::internal::socket::testing
