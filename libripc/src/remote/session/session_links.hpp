// SPDX-License-Identifier: Apache-2.0
// What a transport hands over for each session: how links to the peer's services are opened, and what carries long
// items. The session uses only this interface, and knows no transport.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "remote/session/session.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::remote {

class LinkChannel;

class SessionLinks {
 public:
  virtual ~SessionLinks() = default;

  // Constant.
  virtual std::shared_ptr<Bulk> bulk() const noexcept = 0;
  // Any thread. A link to a service of the peer.
  virtual Result<std::shared_ptr<LinkChannel>> open(const SessionPointer& session, ripc_service_id id,
                                                    Deadline deadline) = 0;

  // Any thread. The rails that can carry connections for long items, in a session that this side began, as in
  // Channel::describe. Throws std::bad_alloc.
  virtual std::vector<spi::RailReport> possible_rails(const Session& session) const = 0;

  // ---- Responder, without locks held ----
  // Whether links and long items go on when the control connection has moved to this address of this machine.
  virtual bool can_move_to(const Endpoint& local) const = 0;
  // It has moved there.
  virtual void moved(const SessionPointer&) {}
  // Where the peer of a session that this side began may be reached from such addresses, best first.
  virtual std::vector<Endpoint> candidate_endpoints(const SessionPointer& session) { return session->remotes(); }
  // This side began the session and a bulk connection is wanted: makes one, unless one is being made. In the end, the
  // bulk gets the connection, or Bulk::dial_failed() is called.
  virtual void connect_bulk(const SessionPointer& session) = 0;
  // The peer has made a bulk connection with a handshake like that of a control connection.
  virtual void adopt_bulk(const SessionPointer& session, SecureSocket connection) = 0;
  // A frame that every transport gives a meaning of its own, or none. False: the peer broke the protocol.
  virtual bool handle(const SessionPointer& session, const wire::session_control::Frame& frame) = 0;
};

}  // namespace ripc::internal::remote
