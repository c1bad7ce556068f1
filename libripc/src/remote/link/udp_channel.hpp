// SPDX-License-Identifier: Apache-2.0
// The sending end of a link. Its datagrams travel over UDP or, where that does not get through, as frames of the
// session's control connection (docs/internals/links.md, "When UDP is blocked"). After a packet too large for that, all
// travel over a connection of the link's own ("Medium messages and bursts" there).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/held_sends.hpp"
#include "remote/link/datagram_proof.hpp"
#include "remote/link/link_channel.hpp"
#include "remote/link/link_socket.hpp"
#include "remote/link/link_stream.hpp"
#include "remote/link/send_burst.hpp"

namespace ripc::internal::remote {

class UdpChannel final : public LinkChannel, public HeldSends {
 public:
  // Responder. Makes the connection of the link with this number, and calls `taker` in the responder, with the
  // connection or with none. If the peer does not answer, `taker` may not be called.
  using ConnectStream = std::function<void(std::uint32_t link, StreamTaker taker)>;
  // `connect_stream`: null if the link never has a connection. `datagrams`: whether they may get through; false: it is
  // known that they do not. A peer that does not take the connection is asked again only after `peer_timeout`.
  UdpChannel(Parts parts, LinkSocket socket, std::uint32_t peer_packet_limit, bool datagrams,
             ConnectStream connect_stream, Nanoseconds peer_timeout);
  ~UdpChannel() override;

  ripc_status widen(std::size_t packet) noexcept override;
  ripc_status begin_to_widen(std::size_t packet) noexcept override;
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept override;

  void let_go() noexcept override;

  // ---- For the transport ----
  void check_path() noexcept override;
  void leave(Deadline deadline) noexcept override;
  void handle(const wire::session_control::Frame& frame) noexcept override;

  // System calls made to send packets; for tests.
  std::uint64_t send_calls() const noexcept { return send_calls_.load(std::memory_order_relaxed); }

 protected:
  void start() override;
  void on_end() noexcept override;
  std::uint32_t cost_of(std::size_t packet) const noexcept override {
    return path() == Path::connection ? 0 : datagram_cost(packet + wire::datagram::kHeaderSize + socket_.overhead());
  }
  ripc_status transmit(const wire::datagram::Header& header, spi::Gather packet, bool more) noexcept override;
  bool read_grants() noexcept override;
  bool can_transmit() noexcept override;
  Status watch_grants(std::function<void()> look) override;
  void unwatch_grants() noexcept override { parts_.loop->remove(socket_.fd()); }
  std::string path_text(Deadline deadline) override;
  void probes_unanswered() noexcept override {}  // check_path() finds out

 private:
  enum class Path {
    unproven,  // UDP, and what is sent is kept to be sent again by the stream
    udp,
    control,     // the session's control connection
    connection,  // the link's own
  };

  void count_call() noexcept;
  bool receiver_keeps_up() const noexcept;
  void hold_locked() noexcept;
  void flush_soon_locked() noexcept;
  void flush_due() noexcept;
  void flush_locked() noexcept;
  ripc_status begin_to_widen_locked(std::size_t packet) noexcept;
  void want_stream_locked() noexcept;
  void stream_due() noexcept;
  void refuse_stream_locked() noexcept;
  void adopt_stream(SecureSocket connection) noexcept;
  void stream_event() noexcept;
  void drop_stream_locked() noexcept;
  ripc_status send_by_stream(std::span<const wire::Plain> messages, std::size_t& sent) noexcept;
  void set_limit(std::size_t limit) noexcept;
  std::size_t limit_of(Path path) const noexcept;
  void note_limit(ripc_status status) noexcept;
  Path path() const noexcept { return path_.load(std::memory_order_acquire); }
  // With mutex_ held.
  ripc_status transmit_kept(const wire::datagram::Header& header, spi::Gather packet) noexcept;
  void proved(bool arrived) noexcept;
  void go_on_locked() noexcept;
  void settle_locked(Path path) noexcept;
  void fall_back_locked() noexcept;
  void leave_path_locked() noexcept;
  void stream_kept() noexcept;
  void refused_locked() noexcept;

  const LinkSocket socket_;
  const std::uint32_t peer_packet_limit_;
  std::atomic<std::uint64_t> send_calls_{0};
  std::atomic<Path> path_;
  StandingTimer proof_timer_;
  const ConnectStream connect_stream_;
  const Nanoseconds peer_timeout_;
  StandingTimer stream_timer_;
  StandingTimer flush_timer_;
  std::condition_variable proven_;
  // Under mutex_.
  SendBurst burst_;
  const ThreadEpoch::Record* held_for_ = nullptr;  // the thread whose last packet waits for others
  bool flushing_ = false;                          // what waits is flushed soon
  std::uint32_t moves_;                            // of the session, that it has followed
  DatagramProof proof_;
  std::vector<std::vector<std::byte>> kept_;
  std::uint32_t looked_at_ = 0;  // the last number when it was last proven
  enum class Dial { none, wanted, under_way, refused } dial_ = Dial::none;
  std::shared_ptr<StreamSender> stream_;
  Path former_path_ = Path::unproven;  // where the connection is lost
};

}  // namespace ripc::internal::remote
