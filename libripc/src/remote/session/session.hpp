// SPDX-License-Identifier: Apache-2.0
// The relation of this context to one other: its control connection, the links in both directions, and the long items.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/standing_timer.hpp"
#include "base/status.hpp"
#include "remote/bulk/bulk.hpp"
#include "remote/session/control_stream.hpp"
#include "remote/session/dialer.hpp"
#include "remote/session/endpoint.hpp"
#include "remote/session/proof.hpp"
#include "remote/session/secure_socket.hpp"
#include "spi/peer.hpp"

namespace ripc::internal::remote {

// After one link has found that UDP does not get through, other links do without it for this long.
inline constexpr Nanoseconds kStreamPeriod = 60'000'000'000;

class LinkChannel;
class LinkPort;
class LinkSource;
class SessionLinks;

// Takes the connection of a link that this side opened.
using StreamTaker = std::function<void(SecureSocket connection)>;

// Where a link of the peer ends.
struct IncomingLink {
  std::shared_ptr<LinkSource> source;
  LinkPort* port = nullptr;
};

struct Session {
  Session(EventLoop& loop, std::string_view name) : transport(name), stream(loop) {}

  // ---- Constant once greeted ----
  std::string_view transport;  // its name
  bool incoming = false;
  std::uint64_t id = 0;
  std::uint64_t context = 0;                 // of the peer
  std::string locator;                       // of the peer
  spi::Peer peer;                            // who it is, as it was proven
  std::optional<security::ExchangeKey> key;  // that it has proven
  const spi::PeerTable* peers = nullptr;
  const spi::Peer* peer_entry = nullptr;  // in the table
  std::string dialed_by;                  // outgoing: the locators that led to it
  std::vector<Endpoint> endpoints;        // outgoing: all that the peer may be reached at
  std::uint64_t resumed_at = 0;           // incoming: the peer's time of the last greeting that resumed it
  std::optional<SessionSecret> secret;    // none: nobody has proven anything
  std::shared_ptr<SessionLinks> links;
  std::shared_ptr<Bulk> bulk;  // of the links

  ControlStream stream;

  // ---- Under the transport's mutex ----
  bool greeted = false;
  bool lost = false;
  Status failure;                                                  // why it was lost
  std::unordered_map<std::uint32_t, IncomingLink> incoming_links;  // by the peer's link

  // ---- The responder's ----
  std::shared_ptr<Dialer> dialer;                     // the control connection is being made
  std::vector<std::shared_ptr<Dialer>> bulk_dialers;  // of bulk connections that are being made
  // Incoming: how long the peer has to make a bulk connection after it was asked for one. Otherwise: the next attempt
  // to make the one that the peer has asked for and waits for.
  StandingTimer bulk_timer;
  Nanoseconds bulk_wanted_until = 0;
  Nanoseconds down_since = 0;  // 0: the control connection is there
  Nanoseconds resume_until = 0;
  StandingTimer timer;                                           // of the next attempt
  std::unordered_map<std::uint32_t, StreamTaker> stream_takers;  // of links that wait for a connection
  // Of connections of links that are being made: links of this side and of the peer's, each by number.
  std::unordered_map<std::uint32_t, std::shared_ptr<Dialer>> own_stream_dialers, peer_stream_dialers;

  // ---- Any thread ----

  // Once greeted: whether the peer can be this member. Empty: any, or not known.
  bool may_be(const std::string& member) const noexcept {
    return member.empty() || peer_entry->identity.empty() || peer_entry->identity == member;
  }
  // The ends of the control connection, or of the last one; empty before the first.
  Endpoint local() const;
  Endpoint remote() const;
  // Responder.
  void set_ends(const Endpoint& local, const Endpoint& remote);
  // Any thread. How often the ends have changed.
  std::uint32_t moves() const noexcept { return moves_.load(std::memory_order_relaxed); }
  // How traffic over sockets is protected, as the beginning of a sentence.
  std::string sockets_text() const;
  // Any thread. Where the peer may be reached, best first: as in remote(), then the other `endpoints`.
  std::vector<Endpoint> remotes() const;

  // The channel of a link that this side opened; empty if it is gone.
  std::shared_ptr<LinkChannel> channel(std::uint32_t link) const;
  // Takes all of the channels. The session has none afterwards.
  std::unordered_map<std::uint32_t, std::weak_ptr<LinkChannel>> take_channels() noexcept;
  // Throws std::bad_alloc.
  std::vector<std::shared_ptr<LinkChannel>> channels() const;
  // This side asks for a link, whose channel comes later. False: it has `most` already. Throws std::bad_alloc.
  bool expect_channel(std::uint32_t link, std::size_t most);
  // The channel is there. False: the peer has closed the link meanwhile.
  bool add_channel(std::uint32_t link, const std::shared_ptr<LinkChannel>& channel) noexcept;
  // False: it was neither there nor expected.
  bool remove_channel(std::uint32_t link) noexcept;

  // The peer did not answer in time when it was last waited for, and nothing has come from it since.
  std::atomic<bool> slow{false};

  // Until then (monotonic) links use the control connection for their datagrams: UDP did not get through.
  std::atomic<Nanoseconds> no_datagrams_until{0};

  // Messages have gone over the control connection. Without it they are lost.
  std::atomic<bool> carries_messages{false};

  // Credit that any datagram to the peer may carry: link in the upper half, credit in the lower; 0: none. The sender
  // takes it; the source that offered it finds it gone.
  std::atomic<std::uint64_t> offered_credit{0};

 private:
  mutable std::mutex mutex_;
  Endpoint local_, remote_;
  std::atomic<std::uint32_t> moves_{0};
  std::unordered_map<std::uint32_t, std::weak_ptr<LinkChannel>> channels_;
};

using SessionPointer = std::shared_ptr<Session>;

}  // namespace ripc::internal::remote
