// SPDX-License-Identifier: Apache-2.0
// One RDMA connection (a connected pair of RC queue pairs) between two contexts. It carries frames both ways, and RDMA
// reads and writes. It keeps the remote keys that the peer has over it.
//
// A message is 8 bytes (u32 number of messages that the sender has received so far | u32 zero), and perhaps a frame
// (wire/bulk.hpp). The number tells the other side how many receive buffers it may count on. Nothing is ever sent to a
// queue pair that has no buffers, because some devices then end the connection.
//
// A Finish may end a remote key that its sender was given. Then it is a send with invalidate: it invalidates the
// receiving side's window, and that side's device reports this with the message.
//
// An Offer wakes nobody: it is handled with what comes next, or by a thread that looks for it. All other messages are
// solicited events, and so is one in every few Offers.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/event_loop.hpp"
#include "base/fork_guard.hpp"
#include "remote/bulk/exposure_table.hpp"
#include "remote/bulk/frame_sender.hpp"
#include "transport/verbs/bulk/remote_key.hpp"
#include "transport/verbs/device/connection_manager.hpp"
#include "transport/verbs/device/registrar.hpp"
#include "wire/bulk.hpp"

namespace ripc::internal::verbs {

// Counts of what the connections of one session did; all of them write it.
struct Tally {
  using Count = std::atomic<std::uint64_t>;
  Count work_requests{0};
  Count doorbells{0};    // calls of ibv_post_send
  Count completions{0};  // of the send queue
  Count bytes_written{0};
  Count remote_keys{0};  // given to the peer
  Count windows{0};      // made for them
  Count polled{0};       // completions of both queues taken by threads that looked for an offer
};

// One RDMA operation to be posted.
struct Operation {
  bool write = false;  // else read
  std::byte* local = nullptr;
  std::uint32_t local_key = 0;
  std::uint64_t remote = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t length = 0;
  std::uint64_t id = 0;  // the caller's
};

class QueuePairConnection final : public remote::FrameSender, public std::enable_shared_from_this<QueuePairConnection> {
 public:
  static constexpr std::uint32_t kReceives = 256;  // buffers for messages of the peer
  static constexpr std::uint32_t kSends = 512;     // work requests under way
  // Bytes of a message in the work request itself. A device that takes less reads the message from registered memory.
  static constexpr std::uint32_t kMostInline = 8 + wire::bulk::kHeaderSize;

  // What one thread handles in one go. The handler collects here what it does once all of that is handled.
  struct Pass {
    bool is_poll = false;  // of a receiver that looks for an offer: it ends no ticket and opens no memory
    std::vector<EventSet::Waker> wakers{};
    // A transfer whose Finish was answered with enqueue().
    struct Ended {
      remote::ExposureTable::Ending ending{};
      remote::ExposureTable::Watcher watcher{};
    };
    std::vector<Ended> ended{};
  };

  // Handles what the connection brings. Called without locks held, by one thread at a time: the responder, or, from
  // inside poll(), a receiver that looks for an offer. Only the responder calls lost().
  class Handler {
   public:
    // False: the peer breaks the protocol, or memory has run out.
    virtual bool frame(QueuePairConnection& connection, const wire::bulk::Frame& frame, Pass& pass) noexcept = 0;
    // An operation has ended. RIPC_OK; RIPC_CANCELLED: this process's memory cannot be used; RIPC_PEER_DEAD: it may be
    // tried again over another connection.
    virtual void operation_done(QueuePairConnection& connection, std::uint64_t id, ripc_status status) noexcept = 0;
    // post() was refused for lack of room, and now there is room.
    virtual void room(QueuePairConnection& connection) noexcept = 0;
    // All of a pass was handled.
    virtual void handled(QueuePairConnection& connection, Pass& pass) noexcept = 0;
    // The connection has ended by itself. Called once, after its operations have been reported.
    virtual void lost(QueuePairConnection& connection, bool violation) noexcept = 0;

   protected:
    ~Handler() = default;
  };

  // Makes a connection with its own queue pair for the id, which has a device. `most_inline`: the inline size to ask
  // the device for. RIPC_NO_MEMORY, RIPC_SYSTEM ...
  static Result<std::shared_ptr<QueuePairConnection>> create(std::shared_ptr<Registrar> registrar, IdPointer id,
                                                             EventLoop& loop, std::shared_ptr<Tally> tally,
                                                             std::uint32_t most_inline = kMostInline);
  ~QueuePairConnection() { close(); }

  // Responder. Starts the connection when the handshake is over. The side that dialed sends first, as iWARP requires.
  Status start(std::weak_ptr<Handler> handler, bool dialed);
  // Any. Ends the connection without Handler::lost(): once it has returned, neither side's device touches memory for it
  // any more.
  void close() noexcept;
  // Any. The same, but the handler is notified later, as if the network had failed.
  void cut() noexcept;

  // Any. Sends frames; those for which the peer has no buffer wait. False: the connection is lost.
  bool send(std::span<const wire::bulk::Frame> frames) noexcept override;
  using FrameSender::send;
  // Any. A handler need not flush: the connection does that when it has handled everything that has come.
  bool enqueue(const wire::bulk::Frame& frame) noexcept override;
  void flush() noexcept override;
  // Any. Like flush(), but if another thread is handing requests to the device, waits until the device has all of them.
  void settle() noexcept;

  // Any. Enqueues an operation, as enqueue() does a frame. False: the connection is lost, or too much is under way
  // (kSends / 2 operations, kSends work requests). In the second case Handler::room() is called when there is room.
  bool post(const Operation& operation) noexcept { return post(std::span(&operation, 1)) == 1; }
  // Any. The same for several. Enqueues as many as there is room for, in order, and returns how many. One completion
  // reports all of them.
  std::size_t post(std::span<const Operation> operations) noexcept;

  // Any. To look for an offer: handles what has come, unless another thread is doing that. The responder is woken all
  // the same.
  void poll() noexcept;

  // Any. Opens `bytes` to the peer, and enqueues the frame that tells the peer so. `arena`, if not null, contains the
  // bytes. The remote key ends with end(), its destruction, or the end of the connection. RIPC_CANCELLED: the memory
  // cannot be accessed; RIPC_AGAIN: too much is under way; RIPC_PEER_DEAD; RIPC_NO_MEMORY.
  using Telling = std::function<wire::bulk::Frame(const RemoteKey& remote_key)>;
  Result<std::shared_ptr<RemoteKey>> open(std::span<const std::byte> bytes, const memory::Arena* arena, bool writable,
                                          const Telling& telling);

  // Any. Waits until the device has the request with this number, which bound a remote key, or until the device will
  // get no more requests.
  void settle(std::uint64_t request) noexcept;

  // Responder. If nothing was received since the last call, sends the peer an empty message: a device that gets no
  // acknowledgement ends the connection.
  void probe() noexcept;

  // Any. Remote keys that have not ended.
  std::size_t remote_key_count() noexcept;

  // Valid while the connection is open.
  ibv_qp* pair() const noexcept { return pair_; }
  Registrar& registrar() const noexcept { return *registrar_; }
  const Device& device() const noexcept { return *registrar_->device(); }
  remote::Endpoint local() const noexcept { return id_->local(); }
  remote::Endpoint peer() const noexcept { return id_->remote(); }
  // Any. The turn of the loop in which this connection last received something.
  std::uint64_t last_use() const noexcept { return last_use_.load(std::memory_order_relaxed); }
  // Any. Grows with everything that the device reports for this connection.
  std::uint64_t activity() const noexcept { return activity_.load(std::memory_order_relaxed); }
  // Any. Bytes that this side has written and read over the connection. The peer's reads and writes do not involve this
  // side.
  std::uint64_t sent() const noexcept { return written_.load(std::memory_order_relaxed); }
  std::uint64_t received() const noexcept { return read_.load(std::memory_order_relaxed); }
  // Any. Records that something has gone over the connection, in either direction; and tells whether something has.
  void prove() noexcept { proven_.store(true, std::memory_order_relaxed); }
  bool is_proven() const noexcept { return proven_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kPrefix = 8;
  static constexpr std::size_t kMessage = kPrefix + wire::bulk::kHeaderSize;
  static_assert(kMessage == kMostInline);
  static constexpr std::size_t kSlot = 64;
  enum class Kind : std::uint8_t { message, operation, bind };
  struct Posted {
    Kind kind;
    std::uint64_t id;     // of an operation; of a window, its key
    std::uint32_t bytes;  // of an operation
    bool write;
  };
  struct Given {
    std::uint32_t key;
    std::weak_ptr<RemoteKey> remote_key;
  };
  // A request in the form that the device takes.
  struct Request {
    ibv_send_wr request;
    ibv_sge range;
    std::array<std::byte, kMessage> message;  // what the range refers to, if it goes inline
  };

  QueuePairConnection(std::shared_ptr<Registrar> registrar, IdPointer id, EventLoop& loop,
                      std::shared_ptr<Tally> tally);
  Status make(std::uint32_t most_inline);
  Status make_pair(std::uint32_t most_inline) noexcept;
  void watch_for_errors();
  Status post_receives(std::uint32_t first, std::uint32_t count) noexcept;
  Request* enqueue_locked(const Posted& posted, bool with_completion = false) noexcept;
  bool enqueue_message_locked(const wire::bulk::Frame* frame) noexcept;
  bool enqueue_frames_locked(std::span<const wire::bulk::Frame> frames) noexcept;
  void enqueue_waiting_locked() noexcept;
  void acknowledge_locked() noexcept;
  bool hand_over(std::unique_lock<std::mutex> lock, bool wait) noexcept;
  bool ring() noexcept;
  void on_event() noexcept;
  bool arm() noexcept;
  // What each of the two completion queues yields in one call.
  using Completions = std::array<ibv_wc, 32>;
  std::size_t take(ibv_cq* QueuePairConnection::*queue, Completions& completions) noexcept;
  std::size_t handle_some(Handler& handler, bool is_poll) noexcept;
  bool on_message(Handler& handler, const ibv_wc& completion, Pass& pass) noexcept;
  void on_sent(Handler& handler, const ibv_wc& completion) noexcept;
  std::shared_ptr<RemoteKey> remote_key_of(std::uint32_t key) noexcept;
  void fail(bool violation) noexcept;
  void fail_locked(bool violation) noexcept;
  void report_failure() noexcept;
  void end_device_use() noexcept;

  const std::shared_ptr<Registrar> registrar_;
  const IdPointer id_;
  EventLoop& loop_;
  const std::shared_ptr<Tally> tally_;
  const std::shared_ptr<MemoryWindowPool> windows_;
  std::weak_ptr<Handler> handler_;
  ibv_comp_channel* channel_ = nullptr;
  ForkGuard channel_guard_;
  ibv_cq* sent_queue_ = nullptr;
  ibv_cq* received_queue_ = nullptr;  // armed for solicited events
  bool sent_armed_ = false;           // the responder's, as the next one
  bool received_armed_ = false;
  ibv_qp* pair_ = nullptr;
  bool messages_inline_ = true;
  std::unique_ptr<std::byte[]> buffers_;  // kReceives slots; and kSends for messages that do not go inline
  RegionPointer buffers_region_;
  bool in_loop_ = false;
  std::uint64_t probed_ = 0;  // activity() at the last probe

  std::mutex handling_mutex_;  // taken before all others, so that what has come is handled in order
  std::mutex poll_mutex_;      // taken before mutex_; for the completion queue and the end

  std::mutex mutex_;  // for the following; not held while requests are handed to the device
  bool open_ = false;
  bool may_send_ = false;         // this side dialed, or has received something
  bool ended_ = false;            // the device has finished with it
  bool silent_ = false;           // no handler is to be notified
  bool failed_ = false;           // the notification is on its way
  bool violation_ = false;        // why it has failed
  EventLoop::Prepared failure_;   // the notification
  std::deque<Posted> posted_;     // in order, including what is enqueued
  std::vector<Request> queued_;   // the last of posted_: what the device does not have yet
  std::vector<Request> ringing_;  // what one thread hands over now; empty: nothing
  std::condition_variable rung_;
  std::uint64_t handed_ = 0;         // number of the first request that the device does not have
  std::uint64_t next_request_ = 0;   // number of what is enqueued next
  std::uint64_t first_request_ = 0;  // of posted_.front()
  std::uint32_t unsignalled_ = 0;
  std::deque<wire::bulk::Frame> waiting_;
  std::uint32_t sent_ = 0;          // messages
  std::uint32_t quiet_ = 0;         // of those, sent since the last one that wakes the peer
  std::uint32_t peer_taken_ = 0;    // of those
  std::uint32_t taken_ = 0;         // messages of the peer
  std::uint32_t acknowledged_ = 0;  // how many of those the peer knows about
  std::size_t operations_ = 0;
  bool room_wanted_ = false;  // post() was refused
  std::vector<Given> remote_keys_;

  std::atomic<std::uint64_t> last_use_{0};
  std::atomic<std::uint64_t> activity_{0};
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<bool> proven_{false};
};

}  // namespace ripc::internal::verbs
