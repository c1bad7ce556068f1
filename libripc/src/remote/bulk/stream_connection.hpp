// SPDX-License-Identifier: Apache-2.0
// One bulk connection: frames in, frames out, payload straight between the socket and the memory it belongs to.
//
// Reading and the writing of payload happen in the mover: the responder, or a thread that waits for such bytes
// (SharedSet). Frames without payload are written by any thread that has one, unless a payload is in mid-frame or the
// socket is full; then the mover does it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/bulk/access.hpp"
#include "remote/bulk/frame_sender.hpp"
#include "remote/session/secure_socket.hpp"
#include "wire/bulk.hpp"

namespace ripc::internal::remote {

class StreamPush;

// Payload to send, cut into frames on the way.
struct Job {
  wire::bulk::Frame frame;  // the one that is next: data or push
  std::uint64_t end = 0;    // offset behind the last byte
  std::uint64_t key = 0;    // data: of the item
  std::uint64_t location = 0;
  std::shared_ptr<StreamPush> push;  // push only
};

// Counts of what the connections of one session did, updated by all of them.
struct StreamTally {
  using Count = std::atomic<std::uint64_t>;
  Count send_calls{0};
  Count receive_calls{0};
  Count bytes_sent{0};
  Count bytes_received{0};
  Count bytes_discarded{0};
};

class StreamConnection final : public FrameSender, public std::enable_shared_from_this<StreamConnection> {
 public:
  // Handles the frames. Called in the mover, without locks held.
  class Handler {
   public:
    // A frame has come. If it has payload, sets `destination` to where that goes, from frame.offset on; null: nowhere.
    // False, here and in payload(): the peer breaks the protocol.
    virtual bool frame(StreamConnection& connection, const wire::bulk::Frame& frame,
                       std::shared_ptr<Destination>& destination) noexcept = 0;
    // The payload of the frame is all there; with a status other than RIPC_OK, it is not valid.
    virtual bool payload(StreamConnection& connection, const wire::bulk::Frame& frame, ripc_status status) noexcept = 0;
    // The payload of the job's next frame.
    virtual Reading read(const Job& job) noexcept = 0;
    // The memory of the job's payload cannot be read.
    virtual void unreadable(const Job& job) noexcept = 0;
    // The memory for this frame's payload cannot be written. The payload is thrown away.
    virtual void unwritable(StreamConnection& connection, const wire::bulk::Frame& frame) noexcept = 0;
    // The connection has ended by itself. Called once, and nothing is called after it.
    virtual void lost(StreamConnection& connection, bool violation) noexcept = 0;

   protected:
    ~Handler() = default;
  };

  // `socket`: its handshake is over; sets the options it needs. The kernel ends the connection if it hears nothing for
  // `stall_timeout`.
  StreamConnection(SecureSocket socket, HandlerSet& handlers, std::weak_ptr<Handler> handler,
                   std::shared_ptr<StreamTally> tally, Nanoseconds stall_timeout) noexcept;

  // Any. Joins the set. RIPC_NO_MEMORY and what HandlerSet::add says.
  Status start() noexcept;
  // Any. Leaves the set and ends the connection, without Handler::lost(). The descriptor closes with the object.
  void close() noexcept;

  // Any. Ends the connection as the network would: the mover finds it lost.
  void cut() noexcept;

  // Any. Sends frames without payload, in this order. False: the connection is lost, or is going to be, for
  // want of memory too.
  bool send(std::span<const wire::bulk::Frame> frames) noexcept override;
  using FrameSender::send;
  bool enqueue(const wire::bulk::Frame& frame) noexcept override { return send(frame); }
  void flush() noexcept override {}  // send() writes at once what the socket takes

  // For pushes: any. For data: from inside Handler::frame(), and sending begins when that returns. Queues payload.
  // Pushes take turns with the rest; data keeps its order. False as in send().
  bool add_job(Job job) noexcept;
  // From inside Handler::frame(): sends what this pull_request asks for. False: the peer has asked for too much.
  bool answer(const wire::bulk::Frame& request) noexcept;

  // Any.
  std::size_t job_count() const noexcept;
  // Any. Changes with every byte that arrives.
  std::uint64_t activity() const noexcept { return received(); }
  // Any. All bytes that were received, and all that were sent.
  std::uint64_t received() const noexcept { return received_.load(std::memory_order_relaxed); }
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_relaxed); }
  // Any. The rate, in bytes per second, of the direction that carries most; 0: not known. For what arrives, that is
  // `receive_rate`; for what is sent, the kernel measures how fast the network took the last bytes.
  std::uint64_t rate(std::uint64_t receive_rate) const noexcept {
    return received() > sent() ? receive_rate : send_rate();
  }

 private:
  std::uint64_t send_rate() const noexcept;

  enum class Outcome : std::uint8_t { done, blocked, more, lost, violation };
  static constexpr std::size_t kLookahead = wire::bulk::kTrailerSize + wire::bulk::kHeaderSize;

  void handle_events(std::uint32_t events) noexcept;

  // Reading; mover only.
  Outcome read_some(Handler& handler) noexcept;
  Outcome receive(Handler& handler, std::size_t& received) noexcept;
  Outcome receive_payload(Handler& handler, std::size_t& received) noexcept;
  Outcome discard_payload(std::size_t& received) noexcept;
  Outcome parse(Handler& handler) noexcept;
  Outcome receive_outcome(ssize_t result) noexcept;
  void consume_head(std::size_t size) noexcept;

  // Writing.
  Outcome write_some(Handler& handler) noexcept;  // mover
  Outcome write_payload(Handler& handler) noexcept;
  Outcome flush_outbox() noexcept;        // with the mutex held
  void want_write(bool wanted) noexcept;  // likewise
  Outcome send_outcome(ssize_t result, std::size_t wanted) noexcept;

  SecureSocket socket_;
  HandlerSet& handlers_;
  const std::weak_ptr<Handler> handler_;
  const std::shared_ptr<StreamTally> tally_;
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::uint64_t> sent_{0};

  // The frame that is being read.
  std::optional<wire::bulk::Frame> frame_;
  std::shared_ptr<Destination> destination_;
  std::uint32_t payload_received_ = 0;
  std::array<std::byte, kLookahead> head_;  // the next bytes that are not payload
  std::size_t head_size_ = 0;

  // The payload frame that is being written; of the thread that set writing_, which is the mover.
  std::list<Job> job_;  // one or none: it came from jobs_, and may go back there without allocation
  std::array<std::byte, wire::bulk::kHeaderSize> out_header_;
  std::array<std::byte, wire::bulk::kTrailerSize> out_trailer_;
  std::size_t out_position_ = 0;
  ripc_status out_status_ = RIPC_OK;

  mutable std::mutex mutex_;  // for the following
  bool started_ = false;
  bool ended_ = false;
  bool writing_ = false;  // a payload frame is on its way: no one else may write
  bool write_wanted_ = false;
  std::vector<std::byte> outbox_;
  std::size_t outbox_sent_ = 0;
  std::list<Job> jobs_;
};

}  // namespace ripc::internal::remote
