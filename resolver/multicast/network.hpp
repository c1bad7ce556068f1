// SPDX-License-Identifier: Apache-2.0
// The sockets of the multicast resolver: for each group one that hears it, and for each address family one from which
// everything is sent and to which replies come.
//
// Several contexts of one host share the group's port (SO_REUSEADDR: the kernel gives each a copy of every multicast
// packet). Questions go out on each joined interface by its number, so no route is needed.
#pragma once

#include <netinet/in.h>
#include <poll.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "resolver/multicast/interfaces.hpp"
#include "resolver/multicast/options.hpp"

namespace ripc::resolver {

// Where a packet came from.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
};

struct Received {
  std::span<const std::byte> bytes;  // in the caller's buffer
  Endpoint from;
  bool to_group = false;       // it came to the group, not to this context alone
  std::string_view interface;  // where it arrived; valid until the next refresh(); empty: unknown
};

// What was sent, for the counters.
struct Sent {
  std::size_t packets = 0;
  std::size_t bytes = 0;
  std::size_t failures = 0;  // interfaces on which it could not be sent
  Sent& operator+=(const Sent& other) noexcept {
    packets += other.packets;
    bytes += other.bytes;
    failures += other.failures;
    return *this;
  }
};

// Sockets of one thread's own, from which it asks and where it waits for the reply itself: one thread less to wake.
// One thread at a time; wake() may be called by any.
class ReplyChannel {
 public:
  // Until a packet is there, wake() was called, or the time is over.
  void wait(Nanoseconds timeout) noexcept;
  void wake() noexcept;
  // The next packet, in a buffer of this object. False: there is none.
  bool receive(Received& received);

 private:
  friend class MulticastNetwork;
  UniqueFd sender4_;  // invalid: no group of this family
  UniqueFd sender6_;
  UniqueFd wake_;
  std::vector<std::byte> buffer_;
};

class MulticastNetwork {
 public:
  // Opens the sockets and joins the groups. What own_context sent to them is not received (0: everything is). That no
  // interface is usable is no error. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM (such as:
  // another program has the port for itself).
  static Result<std::unique_ptr<MulticastNetwork>> open(const MulticastOptions& options, std::uint64_t own_context);

  // Any thread. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  Result<std::unique_ptr<ReplyChannel>> open_channel() const;

  // Sends to every group on every joined interface. Never blocks. Any thread. Replies come to the channel; without one,
  // to this object's own sockets.
  Sent send_to_groups(std::span<const std::byte> bytes, const ReplyChannel* channel = nullptr);
  // Sends to one context. Never blocks. Any thread.
  Sent send_to(const Endpoint& to, std::span<const std::byte> bytes) noexcept;

  // ---- One thread -------------------------------------------------------------------------------------------

  // Looks for interfaces again; joins new ones and leaves those that are gone.
  void refresh();
  // What to poll; the same as long as the object lives. wake() ends a poll; it may be called by any thread.
  std::vector<pollfd> descriptors() const;
  void wake() noexcept;
  // The next packet of a descriptor that poll() said is readable. False: there is none (or it was a wake-up, or news
  // about interfaces, which is dealt with here). A packet that is larger than the buffer is dropped.
  bool receive(int fd, std::span<std::byte> buffer, Received& received);

  // ---- For messages; any thread -----------------------------------------------------------------------------

  // "239.255.82.73:26673 on eth0, lo"; "... on no interface".
  std::string text() const;
  std::vector<std::string> interfaces() const;

 private:
  struct Membership {
    std::size_t group = 0;
    Interface interface;
    friend bool operator==(const Membership&, const Membership&) = default;
  };
  using Memberships = std::vector<Membership>;

  MulticastNetwork(MulticastOptions options, std::uint64_t own_context)
      : options_(std::move(options)), own_context_(own_context) {}
  Status start();
  Status open_group(const MulticastGroup& group);
  Status open_sender(bool ipv6, UniqueFd& sender) const;
  bool change_membership(const Membership& membership, bool join) noexcept;
  std::shared_ptr<const Memberships> memberships() const;

  const MulticastOptions options_;
  const std::uint64_t own_context_;
  std::vector<UniqueFd> groups_;  // one for each of options_.groups
  UniqueFd sender4_;
  UniqueFd sender6_;
  UniqueFd watch_;
  UniqueFd wake_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Memberships> memberships_ = std::make_shared<Memberships>();
};

}  // namespace ripc::resolver
