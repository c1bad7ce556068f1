// SPDX-License-Identifier: Apache-2.0
// The part of make_corpus.cpp for the frames of sessions.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "corpus_files.hpp"
#include "wire/session_control.hpp"

namespace corpus {

namespace session = ripc::internal::wire::session_control;

template <typename T>
inline void write_frame(const std::filesystem::path& file, const T& frame) {
  Bytes bytes;
  if (session::encode(frame, bytes) != RIPC_OK) failed = true;
  write(file, bytes);
}

inline void write_sessions(const std::filesystem::path& folder) {
  const Bytes offers(2 * session::HandshakeOffer::kSize, std::byte{0xab});
  const std::span<const std::byte> message = std::span(offers).first(session::HandshakeOffer::kSize - 1);
  write_frame(folder / "hello", session::Hello{.context = 1, .session = 2, .role = 1, .port = 7000});
  write_frame(folder / "hello_offers",
              session::Hello{.context = 1, .session = 2, .role = 1, .port = 7000, .abilities = 31, .offers = offers});
  write_frame(folder / "hello_resume",
              session::Hello{.context = 1, .session = 2, .number = 9, .role = 2, .port = 7000});
  write_frame(folder / "hello_reply", session::HelloReply{.context = 3});
  write_frame(folder / "hello_choice",
              session::HelloReply{.context = 3, .abilities = 7, .choice = 2, .message = message});
  write_frame(folder / "hello_refused", session::HelloReply{.status = RIPC_REFUSED});
  write_frame(folder / "confirm", session::Confirm{});
  write_frame(folder / "confirm_message", session::Confirm{.message = message});
  write_frame(folder / "open", session::Open{.request = 1, .service = kSource, .token = 5, .link = 6, .port = 7001});
  write_frame(
      folder / "opened",
      session::Opened{.request = 1, .link = 6, .incarnation = 8, .port = 7002, .packet_limit = 1444, .credit = 4096});
  write_frame(folder / "open_refused", session::Opened{.request = 1, .status = RIPC_NO_SERVICE, .link = 6});
  write_frame(folder / "close_link", session::CloseLink{.link = 6, .sequence = 100});
  write_frame(folder / "link_closed", session::LinkClosed{.link = 6, .status = RIPC_CLOSED});
  const Bytes packet = short_message();
  write_frame(folder / "control", session::Control{.link = 6, .destination = kSource, .packet = packet});
  write_frame(folder / "fence", session::Fence{.request = 2, .service = kSource, .incarnation = 8});
  write_frame(folder / "fenced", session::Fenced{.request = 2});
  write_frame(folder / "heartbeat", session::Heartbeat{.received = 77});
  write_frame(folder / "want_bulk", session::WantBulk{});
  write_frame(folder / "bye", session::Bye{});
  write_frame(folder / "bye_refused", session::Bye{.status = RIPC_REFUSED});
  write_frame(folder / "bulk_port", session::BulkPort{.port = 7003, .nonce = {}, .address = {}});
  write_frame(
      folder / "open_datagram",
      session::OpenDatagram{
          .request = 1, .service = kSource, .token = 5, .link = 6, .queue_pair = 17, .queue_key = 9, .mtu = 4096});
  write_frame(folder / "datagram_opened", session::DatagramOpened{.request = 1,
                                                                  .link = 6,
                                                                  .incarnation = 8,
                                                                  .queue_pair = 18,
                                                                  .queue_key = 10,
                                                                  .packet_limit = 4068,
                                                                  .credit = 200,
                                                                  .greeted_pair = 19,
                                                                  .greeted_key = 11});
  write_frame(folder / "datagram_refused",
              session::DatagramOpened{.request = 1, .status = RIPC_UNSUPPORTED, .link = 6});
  write_frame(folder / "join_group", session::JoinGroup{.link = 6, .token = 11, .group = kSource >> 1});
  write_frame(folder / "group_joined", session::GroupJoined{.link = 6, .token = 11});
  write_frame(folder / "leave_group", session::LeaveGroup{.link = 6, .token = 11});
  write_frame(folder / "prove", session::Prove{.link = 6});
  write_frame(folder / "proved", session::Proved{.link = 6, .arrived = 1});
  write_frame(folder / "streamed", session::Streamed{.link = 6, .datagram = packet});
  write_frame(folder / "want_stream", session::WantStream{.link = 6});

  Bytes bytes;
  session::encode(session::Bye{}, bytes);
  bytes[5] = std::byte{255};
  write(folder / "refused_type", bytes);
  bytes[4] = std::byte{1};
  write(folder / "refused_version", bytes);
  session::encode(session::Heartbeat{}, bytes);
  bytes[0] = std::byte{15};
  write(folder / "refused_size", bytes);
}

// The frames of the handshake, as strangers may send them.
inline void write_proofs(const std::filesystem::path& folder) {
  const Bytes offers(session::HandshakeOffer::kMost * session::HandshakeOffer::kSize, std::byte{0});
  const std::span<const std::byte> message = std::span(offers).first(48);
  session::Hello hello{.context = 1, .session = 2, .role = 1, .port = 7000, .abilities = 23, .offers = {}};
  write_frame(folder / "hello_bare", hello);
  hello.offers = offers;
  write_frame(folder / "hello", hello);
  write_frame(folder / "reply_bare", session::HelloReply{.context = 3, .abilities = 3, .message = {}});
  write_frame(folder / "reply", session::HelloReply{.context = 3, .abilities = 23, .choice = 1, .message = message});
  write_frame(folder / "confirm", session::Confirm{.message = std::span(offers).first(32)});
}

}  // namespace corpus
