// SPDX-License-Identifier: Apache-2.0
// Both ends of a link whose packets travel as datagrams of an RDMA device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/backoff.hpp"
#include "base/standing_timer.hpp"
#include "remote/link/link_channel.hpp"
#include "remote/link/link_source.hpp"
#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/groups/group_sender.hpp"

namespace ripc::internal::verbs {

class RdmaBulk;
class VerbsPort;

// The time between two greetings.
inline constexpr Nanoseconds kFirstGreeting = 2'000'000;
inline constexpr Nanoseconds kLongestGreeting = 64'000'000;

// A link leaves a device when its session has moved to another pair of addresses: docs/internals/rdma-rails.md. Its
// number, the numbers of its packets and its credit stay; whatever depends on the devices is in an attachment. If there
// are no devices for the link, its datagrams go over the session's control connection.
class DatagramChannel final : public remote::LinkChannel {
 public:
  // Where its datagrams go, and its greetings.
  struct Routes {
    DatagramRoute packets, greetings;
    std::shared_ptr<DatagramVerifier> answers;  // to both: credit, and greetings back
  };
  struct Attachment {
    Attachment(std::shared_ptr<DatagramSender> by, Routes to, std::uint32_t own_link, std::uint64_t own_token,
               std::size_t limit) noexcept
        : sender(std::move(by)), routes(std::move(to)), link(own_link), token(own_token), datagram_limit(limit) {}
    ~Attachment() { sender->unlisten(link); }

    const std::shared_ptr<DatagramSender> sender;
    const Routes routes;
    const std::uint32_t link;
    const std::uint64_t token;         // of the link's datagrams
    const std::size_t datagram_limit;  // bytes of a packet in each datagram
    std::atomic<bool> greeted{false};
  };
  using AttachmentPointer = std::unique_ptr<Attachment>;
  struct Hooks {
    // Responder. The session has moved: asks the peer for an attachment to the devices where it is now. Then the
    // responder calls attach() or stream(), unless the session is lost.
    std::function<void(DatagramChannel&)> move;
    // Any thread, perhaps several times. The receiver's process is alive, but nothing arrives there.
    std::function<void()> unreachable;
  };
  // `groups`: of the attachment's sender. `moves`: how often the session had moved when the attachment was made.
  DatagramChannel(Parts parts, std::shared_ptr<RdmaBulk> bulk, AttachmentPointer attachment,
                  std::shared_ptr<GroupSender> groups, std::uint32_t moves, Hooks hooks);
  ~DatagramChannel() override;

  ripc_status send(const spi::Outgoing& outgoing) noexcept override;
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept override;

  ripc_service_id service() const noexcept { return parts_.service; }
  // Greetings test the path before the channel is used, and probes_unanswered() tests it later; nothing else is kept or
  // sent again.
  void check_path() noexcept override;
  void leave(Deadline) noexcept override {}
  void handle(const wire::session_control::Frame& frame) noexcept override;
  // Any. Sends a greeting to the peer's responder; and tells whether an answer has come since the channel was made. The
  // session may move meanwhile; a channel that has left its device was not greeted.
  void greet() noexcept;
  bool was_greeted() noexcept;
  // Responder. The peer has answered a request for an attachment with this sender and token. False: it was not asked.
  // `question` stays empty if the peer has been asked again since.
  struct Question {
    std::shared_ptr<DatagramSender> sender;
    std::uint64_t token = 0;
  };
  void asked(Question question) noexcept;
  bool answered(std::optional<Question>& question) noexcept;
  // Responder. The answer to the last question.
  void attach(AttachmentPointer attachment);
  // Responder. No attachment is possible where the session is now.
  void stream() noexcept;
  // Any. Whether this channel can still be reached by what the first attachment's sender sends to a group.
  bool is_in_groups() const noexcept { return in_groups_.load(std::memory_order_relaxed); }
  // Sends one datagram to a multicast group that the receivers of all these channels have joined; each channel pays for
  // it. The channels are in the order of their links, and have the same sender. False: a channel or the sender has no
  // room, and nothing was sent.
  static bool send_together(std::span<DatagramChannel* const> channels, DatagramSender& sender,
                            const DatagramRoute& route, const wire::datagram::Header& header,
                            spi::Gather packet) noexcept;

 protected:
  void start() override;
  // The receiver has a buffer of the same size for each datagram.
  std::uint32_t cost_of(std::size_t packet) const noexcept override { return datagrams_of(packet); }
  ripc_status transmit(const wire::datagram::Header& header, spi::Gather packet, bool more) noexcept override {
    if (!attachment_) [[unlikely]]
      return streams_ ? transmit_parts(header, packet) : RIPC_AGAIN;
    const DatagramRoute& route = attachment_->routes.packets;
    DatagramSender& sender = *attachment_->sender;
    if (header.after != 0) return sender.send_parts(route, header, packet, datagram_limit_);
    return more ? sender.enqueue(route, header, packet) : sender.send(route, header, packet);
  }
  // A datagram to a queue pair that is gone vanishes; only the session can tell.
  bool read_grants() noexcept override {
    if (attachment_) attachment_->sender->read_credits();
    return true;
  }
  bool can_transmit() noexcept override {
    const std::uint32_t datagrams = datagrams_of(packet_limit());
    return attachment_ ? attachment_->sender->has_room(datagrams)
                       : streams_ && parts_.session->stream.has_room(datagrams);
  }
  Status watch_grants(std::function<void()> look) override;
  void unwatch_grants() noexcept override;
  std::string path_text(Deadline deadline) override;
  void probes_unanswered() noexcept override;
  void on_end() noexcept override { move_timer_.cancel(); }

 private:
  void listen(Attachment& attachment);
  void use(AttachmentPointer attachment) noexcept;
  static void greet(const Attachment& attachment) noexcept;
  void go_on() noexcept;
  void leave_devices(std::uint32_t moves) noexcept;
  ripc_status transmit_parts(const wire::datagram::Header& header, spi::Gather packet) noexcept;

  const std::shared_ptr<RdmaBulk> bulk_;
  const std::shared_ptr<GroupSender> groups_;  // null: it sends to no groups
  const DatagramSender* const first_sender_;   // that of groups_
  const bool is_signed_;
  const std::size_t inlined_;  // packets up to this size need not be gathered
  const Hooks hooks_;
  std::atomic<bool> in_groups_{true};
  StandingTimer move_timer_;
  // Changed by the responder under mutex_. Null: nothing can be sent unless it streams.
  AttachmentPointer attachment_;
  bool streams_ = false;  // under mutex_ too: sends over the control connection
  std::uint32_t moves_;   // of the session, that it has followed
  // The responder's.
  AttachmentPointer next_;  // not greeted yet
  Question question_;       // the last one, and how many are not answered
  unsigned questions_ = 0;
  Backoff greet_pause_{kFirstGreeting, kLongestGreeting};
  unsigned greetings_ = 0;                  // of next_
  std::uint64_t received_at_greeting_ = 0;  // of the peer by the control connection, when the first of them was sent
  // Under mutex_.
  unsigned unanswered_ = 0;              // greetings
  std::uint64_t received_at_probe_ = 0;  // of the peer by the control connection, when the first of them was sent
};

class DatagramSource final : public remote::LinkSource {
 public:
  // Identifies the link's datagrams while its session is at one pair of addresses.
  struct Origin {
    std::uint64_t token = 0;
    std::uint32_t queue_pair = 0;                     // the one they come from
    wire::session_control::Gid gid{};                 // of that queue pair's port
    std::shared_ptr<DatagramVerifier> verifier = {};  // null in a session without a secret
  };
  // What depends on the devices.
  struct Attachment {
    // `greetings`: verifies greetings; null as above.
    Attachment(std::shared_ptr<DatagramSender> by, DatagramRoute to, Origin of, std::uint32_t link,
               std::shared_ptr<DatagramVerifier> greetings)
        : sender(std::move(by)), back(std::move(to)), origin(std::move(of)) {
      sender->answer(origin.token, link, back, std::move(greetings));
    }
    ~Attachment() { sender->answer_no_more(origin.token, back); }
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    const std::shared_ptr<DatagramSender> sender;
    const DatagramRoute back;
    const Origin origin;
  };
  using AttachmentPointer = std::shared_ptr<const Attachment>;
  // `port`: what reads its datagrams.
  DatagramSource(Parts parts, VerbsPort& port, std::shared_ptr<RdmaBulk> bulk, AttachmentPointer attachment)
      : LinkSource(std::move(parts)), port_(port), bulk_(std::move(bulk)), attachment_(std::move(attachment)) {}

  std::uint32_t budget() const noexcept { return parts_.budget; }
  // Receiver. The datagrams of the packets that came since the backlog was last empty.
  std::uint32_t held = 0;

  void handle(const wire::session_control::Frame& frame) override;

  // Receiver. Sets the attachment that sends credit from now on; null: the control connection does.
  void attach(const AttachmentPointer& attachment) noexcept {
    if (attachment_ != attachment) attachment_ = attachment;
  }

  // Receiver. Items that are pulled from now on are read together, at start_pulls().
  void collect_pulls() noexcept { collects_ = true; }
  void start_pulls() noexcept;
  ripc_status pull(spi::Pull& pull) noexcept override;

 protected:
  ripc_status transmit(const wire::datagram::Header& header) noexcept override {
    if (!attachment_) [[unlikely]]
      return transmit_streamed(header);
    wire::datagram::Header sent = header;
    sent.token = attachment_->origin.token;
    return attachment_->sender->send(attachment_->back, sent, {});
  }
  std::uint32_t cost_of(std::size_t) const noexcept override { return 1; }

 private:
  VerbsPort& port_;
  const std::shared_ptr<RdmaBulk> bulk_;
  AttachmentPointer attachment_;  // the receiver's
  bool collects_ = false;
  bool has_collected_ = false;
};

}  // namespace ripc::internal::verbs
