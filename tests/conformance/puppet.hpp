// SPDX-License-Identifier: Apache-2.0
// The puppet: a peer process with one context and one service that does what its test tells it.
//
// Commands and their answers. STATUS is a status name; numbers may be hexadecimal with 0x.
//   register ID [takeover]       STATUS INCARNATION
//   unregister                   ok
//   join GROUP / leave GROUP     STATUS
//   destroy                      ok               ends the context
//   send TO TAG TEXT             STATUS           one AUTO item
//   send_unordered TO TAG TEXT   STATUS           the same with RIPC_SEND_UNORDERED
//   send_long TO SIZE SEED pool|foreign TIMEOUT_MS   STATUS   a pattern; the ticket is kept
//   ticket / wait                STATUS           of the ticket kept
//   request TO SIZE              STATUS ADDRESS   an empty message with one return buffer, at ADDRESS
//   post SIZE COOKIE             STATUS           a window
//   receive [lend]               STATUS or RIPC_OK and describe() of each item; the message is held
//   look                         describe() of the items of the message held
//   scribble                     writes into item 0 of the message held, then answers ok
//   release                      ok
//   reply TEXT                   STATUS           to the message held
//   reply_return SIZE SEED       STATUS           a pattern into return buffer 0
//   notify SERVICE HANDLE TEXT   STATUS
//   notification                 STATUS SERVICE HANDLE   registers a notification that counts
//   notified                     COUNT
//   resolve ID                   STATUS
//   list                         the IDs that can be listed, each with a space before it
//   refused                      packets_refused of its context
//   error                        the sentence of the last failure
//   path ID                      STATUS REASON    of ripc_find_path()
//   fill TO                      STATUS           empty messages until one fails with this status
//   wait_room TO TIMEOUT_MS      STATUS
//   stream TO COUNT              STATUS           COUNT short messages tagged 0, 1 ..., waiting for room
#pragma once

#include <string>

#include "harness.hpp"
#include "peer.hpp"

namespace conformance {

// KIND/STATUS/SIZE/CHECKSUM
std::string describe(const ripc_item_view& view);
std::string describe(ripc_view_kind kind, std::span<const unsigned char> bytes);  // of an item that arrived well

class Puppet : public Peer {
 public:
  explicit Puppet(const PeerSetup& setup) : Peer("puppet", setup) {}

  // The answer's first word: a status name.
  std::string status_of(const std::string& command);
  // Registers the ID and returns the status name.
  std::string register_id(ripc_service_id id, bool takeover = false);
  std::string send_text(ripc_service_id to, std::string_view text, std::uint32_t tag = 0);
};

}  // namespace conformance
