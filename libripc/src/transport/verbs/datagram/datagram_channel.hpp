// SPDX-License-Identifier: Apache-2.0
// Both ends of a link whose packets travel as datagrams of an RDMA device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "remote/link/link_channel.hpp"
#include "remote/link/link_source.hpp"
#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/groups/group_sender.hpp"

namespace ripc::internal::verbs {

class RdmaBulk;
class VerbsPort;

class DatagramChannel final : public remote::LinkChannel {
 public:
  // Where its datagrams go, and its greetings.
  struct Routes {
    DatagramRoute packets, greetings;
    std::shared_ptr<DatagramVerifier> answers;  // to both: credit, and greetings back
  };
  // `unreachable` is called by any thread, perhaps several times: the receiver's process lives, but nothing arrives.
  DatagramChannel(Parts parts, std::shared_ptr<RdmaBulk> bulk, std::shared_ptr<DatagramSender> sender,
                  std::shared_ptr<GroupSender> groups, Routes routes, std::size_t packet_limit,
                  std::function<void()> unreachable);
  ~DatagramChannel() override;

  ripc_status send(const spi::Outgoing& outgoing) noexcept override;
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept override;
  std::string describe(Deadline deadline) override;

  const remote::SessionPointer& session() const noexcept { return parts_.session; }
  // Greetings prove the path before the channel is used, and doubt() later on: nothing else is kept or sent again.
  void check_path() noexcept override {}
  void leave() noexcept override {}
  void handle(const wire::session_control::Frame& frame) noexcept override;
  // Asks the peer's responder for a sign, and whether one has come since the channel was made.
  void greet() noexcept;
  bool was_greeted() noexcept;
  // Sends one datagram to a multicast group that all these channels' receivers hear, at the expense of each. They are
  // in the order of their links, by one sender. False: one has no room, or the sender; nothing was sent.
  static bool send_together(std::span<DatagramChannel* const> channels, DatagramSender& sender,
                            const DatagramRoute& route, const wire::datagram::Header& header,
                            spi::Gather packet) noexcept;

 protected:
  // The receiver has a buffer of the same size for each.
  std::uint32_t cost_of(std::size_t) const noexcept override { return 1; }
  ripc_status transmit(const wire::datagram::Header& header, spi::Gather packet, bool more) noexcept override {
    return more ? sender_->enqueue(routes_.packets, header, packet) : sender_->send(routes_.packets, header, packet);
  }
  // A datagram to a queue pair that is gone vanishes: the session says so.
  bool read_grants() noexcept override {
    sender_->read_credits();
    return true;
  }
  bool can_transmit() noexcept override { return sender_->has_room(); }
  Status watch_grants(std::function<void()> look) override { return sender_->watch(parts_.link, std::move(look)); }
  void unwatch_grants() noexcept override { sender_->unwatch(parts_.link); }
  void doubt() noexcept override;
  void on_end() noexcept override {}  // nobody waits in it

 private:
  const std::shared_ptr<RdmaBulk> bulk_;
  const std::shared_ptr<DatagramSender> sender_;
  const std::shared_ptr<GroupSender> groups_;  // null: it sends to no groups
  const Routes routes_;
  const std::function<void()> unreachable_;
  std::atomic<bool> greeted_{false};
  // Under mutex_.
  unsigned unanswered_ = 0;  // greetings
  std::uint64_t heard_ = 0;  // of the peer by the control connection, when the first of them was sent
};

class DatagramSource final : public remote::LinkSource {
 public:
  // Null in a session without a secret.
  struct Verifiers {
    std::shared_ptr<DatagramVerifier> packets, greetings;
  };
  // `port`: what reads its datagrams.
  DatagramSource(Parts parts, VerbsPort& port, std::shared_ptr<RdmaBulk> bulk, std::shared_ptr<DatagramSender> sender,
                 DatagramRoute back, Verifiers verifiers, const wire::session_control::Gid& gid)
      : LinkSource(std::move(parts)),
        port_(port),
        bulk_(std::move(bulk)),
        sender_(std::move(sender)),
        back_(std::move(back)),
        verifier_(std::move(verifiers.packets)),
        gid_(gid) {
    sender_->answer(parts_.token, parts_.link, back_, std::move(verifiers.greetings));
  }
  ~DatagramSource() override { sender_->answer_no_more(parts_.token, back_); }

  std::uint64_t token() const noexcept { return parts_.token; }
  std::uint32_t budget() const noexcept { return parts_.budget; }
  // The queue pair that its datagrams come from.
  std::uint32_t queue_pair() const noexcept { return back_.queue_pair; }
  const wire::session_control::Gid& gid() const noexcept { return gid_; }

  void handle(const wire::session_control::Frame& frame) override;

  // Receiver. Whether a datagram that says that it comes by this link does; else it is counted.
  bool is_own(std::span<std::byte> datagram, remote::PortCounters& counters) const noexcept;

  // Receiver. What is pulled from here on is read from start_pulls() on, together.
  void collect_pulls() noexcept { collects_ = true; }
  void start_pulls() noexcept;
  ripc_status pull(spi::Pull& pull) noexcept override;

 protected:
  ripc_status transmit(const wire::datagram::Header& header) noexcept override {
    return sender_->send(back_, header, {});
  }
  std::uint32_t largest_cost() const noexcept override { return 1; }

 private:
  VerbsPort& port_;
  const std::shared_ptr<RdmaBulk> bulk_;
  const std::shared_ptr<DatagramSender> sender_;
  const DatagramRoute back_;
  const std::shared_ptr<DatagramVerifier> verifier_;  // of packets
  const wire::session_control::Gid gid_;              // of the port that they come from
  bool collects_ = false;
  bool has_collected_ = false;
};

}  // namespace ripc::internal::verbs
