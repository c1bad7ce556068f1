// SPDX-License-Identifier: Apache-2.0
// The control connection to one other context: a Unix SOCK_SEQPACKET socket. It carries control messages
// (wire/control.hpp) and file descriptors, and shows when the other process dies.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "base/shared_memory.hpp"
#include "base/standing_timer.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "memory/pool.hpp"
#include "transport/shm/process_memory.hpp"
#include "wire/shm_control.hpp"

namespace ripc::internal::shm {

struct Credentials {
  pid_t pid = 0;  // in our PID namespace; 0: not visible
  uid_t uid = 0;
  gid_t gid = 0;
};

inline constexpr std::size_t kMaxControlMessage = wire::shm_control::kMaxSize;
inline constexpr std::size_t kMaxDescriptors = 4;  // that go with one control message

// One received control message.
struct Received {
  std::vector<std::byte> bytes;  // may be larger than the message: has room for the largest one
  std::size_t size = 0;
  std::array<UniqueFd, kMaxDescriptors> descriptors;
  bool descriptors_lost = false;  // this process had no room for all that came
};

class ControlConnection {
 public:
  enum class Event { message, nothing, closed };

  // `guard`: the registration of the socket, so that the socket closes when this process ends, even if a child lives
  // on.
  explicit ControlConnection(UniqueFd socket, ForkGuard guard = {});
  ~ControlConnection();

  int fd() const noexcept { return socket_.get(); }
  const Credentials& credentials() const noexcept { return credentials_; }
  // Only a process of our own user is ever accessed. The kernel lets a privileged process access others, too. But one
  // of those may have become, by exec(), a program that is trusted with more than the peer that names the addresses.
  const PeerProcess& process() const noexcept { return *process_; }
  // Whether the peer can access the memory of this process, as the peer itself reports.
  Reach reach_of_peer() const noexcept { return reach_of_peer_.load(std::memory_order_relaxed); }
  void set_reach_of_peer(Reach reach) noexcept { reach_of_peer_.store(reach, std::memory_order_relaxed); }
  // True if the kernel lets the peer's user read this process's memory anyway: then mapping the pool discloses nothing.
  bool peer_may_map() const noexcept { return peer_may_map_; }

  // Any thread. Messages that the socket does not take are queued, up to a limit. RIPC_OK, RIPC_AGAIN (the queue is
  // full: nothing was sent), RIPC_TOO_LARGE, RIPC_NO_MEMORY and RIPC_NO_DESCRIPTORS (for want of which the message
  // cannot be queued: nothing was sent), RIPC_PEER_DEAD.
  ripc_status send(std::span<const std::byte> message, std::span<const int> descriptors = {}) noexcept;

  // The same, for what `encode` writes to a vector. A message that the socket takes at once needs no memory.
  template <typename Encode>
  ripc_status send_encoded(Encode encode, std::span<const int> descriptors) noexcept try {
    const std::lock_guard lock(mutex_);
    const ripc_status status = encode(encoded_);
    return status == RIPC_OK ? send_locked(encoded_, descriptors) : status;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  // The same for a notice: a message that only says "look again". It is not lost while the connection lives. A notice
  // that waits because the queue is full is kept once, however often it is sent; each link has at most a few. If there
  // is no memory to keep one, the connection ends: a peer that sees the end looks at everything.
  template <typename Encode>
  void notify_encoded(Encode encode) noexcept try {
    const std::lock_guard lock(mutex_);
    if (encode(encoded_) == RIPC_OK) notify_locked(encoded_);
  } catch (const std::bad_alloc&) {
    shut_down();
  }

  // Any thread. True if send() would not say RIPC_AGAIN.
  bool has_room() const noexcept;
  // Any thread. As has_room(). If false, take_room() returns true once when there is room again.
  bool request_room() noexcept;
  // Responder, after flush().
  bool take_room() noexcept;

  // Before the socket is added to the loop.
  void attach(EventLoop& loop);
  // After the socket was added: if messages are queued, makes the loop wait until it is writable.
  void added() noexcept;

  // Responder.
  void flush() noexcept;
  Event receive(Received& received) noexcept;

  // Any thread. Ends both directions; the responder then sees Event::closed.
  void shut_down() noexcept;
  // Responder. Stops using the loop, which the connection may outlive.
  void detach() noexcept;

  // ---- Arenas: each end's pool memory, mapped by the other ----

  // Any thread. Sends the arena's descriptor once per connection. The statuses of send().
  ripc_status announce(const memory::Arena& arena) noexcept;
  // Any thread. Tells the peer that an arena is gone, if it knew it.
  void retract(std::uint32_t arena) noexcept;
  // Responder. Maps an arena that the peer announced. Without a descriptor (it was lost), the arena is known but not
  // mapped.
  Status add_foreign_arena(std::uint32_t id, std::size_t size, bool huge_pages, int descriptor);
  void remove_foreign_arena(std::uint32_t id) noexcept;
  // Any thread. RIPC_PENDING: not announced (yet); RIPC_UNSUPPORTED: it could not be mapped.
  ripc_status foreign_arena(std::uint32_t id, std::shared_ptr<const Mapping>& mapping) const noexcept;

 private:
  struct Queued {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> descriptors;
  };
  ripc_status send_locked(std::span<const std::byte> message, std::span<const int> descriptors) noexcept;
  ripc_status queue_locked(std::span<const std::byte> message, std::span<const int> descriptors);
  void notify_locked(std::span<const std::byte> message) noexcept;
  void flush_later_locked(ripc_status status) noexcept;
  ripc_status send_now(std::span<const std::byte> message, std::span<const int> descriptors) noexcept;

  UniqueFd socket_;
  ForkGuard guard_;
  Credentials credentials_;
  bool peer_may_map_ = false;
  std::unique_ptr<PeerProcess> process_;
  std::atomic<Reach> reach_of_peer_{Reach::direct};

  mutable std::mutex mutex_;
  std::vector<std::byte> encoded_;  // the message that is being sent
  std::deque<Queued> outbox_;
  bool room_wanted_ = false;
  std::set<std::vector<std::byte>> notices_;  // sent when the outbox is empty
  EventLoop* loop_ = nullptr;
  StandingTimer retry_timer_;  // for what the socket does not tell of
  std::unordered_set<std::uint32_t> announced_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const Mapping>> foreign_arenas_;
  std::size_t foreign_bytes_ = 0;  // mapped
};

// Encodes and sends one control message. The statuses of ControlConnection::send(), and of the encoder.
template <typename T>
ripc_status send_message(ControlConnection& connection, const T& message,
                         std::span<const int> descriptors = {}) noexcept {
  return connection.send_encoded([&](auto& bytes) { return wire::shm_control::encode(message, bytes); }, descriptors);
}

// The same for a notice.
template <typename T>
void send_notice(ControlConnection& connection, const T& message) noexcept {
  connection.notify_encoded([&](auto& bytes) { return wire::shm_control::encode(message, bytes); });
}

}  // namespace ripc::internal::shm
