// SPDX-License-Identifier: Apache-2.0
// The queue pair over which a context sends datagrams from one port of a device, to any service. The device's library
// copies small data into the work request. The device gathers data that was given to the library from where it lies.
// The rest is copied once into registered memory. Nobody waits for a completion: one of kSignalEvery work requests has
// one, and one more has if much memory was given. It frees the room of all requests before it. A signed datagram is put
// together first, because the signature takes a pass over all of it, and the device must read what was signed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/event_loop.hpp"
#include "spi/transport.hpp"
#include "transport/verbs/datagram/datagram_queue.hpp"
#include "transport/verbs/datagram/in_flight_leases.hpp"
#include "transport/verbs/datagram/link_signature.hpp"
#include "transport/verbs/device/registrar.hpp"
#include "wire/datagram.hpp"
#include "wire/plain.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::verbs {

// The route to a queue pair.
struct DatagramRoute {
  AddressHandle handle;
  std::uint32_t queue_pair = 0;
  std::uint32_t queue_key = 0;
  std::shared_ptr<security::DatagramSealer> sealer = {};  // used by one sender only; null: nothing is signed

  // The bytes of a datagram besides header and packet; and the offset where those begin.
  std::size_t overhead() const noexcept { return sealer ? security::kSealedOverhead : 0; }
  std::byte* text_in(std::byte* datagram) const noexcept { return datagram + (sealer ? security::kSealedHead : 0); }
};

struct DatagramCounters {
  std::uint64_t work_requests = 0;
  std::uint64_t doorbells = 0;    // calls of ibv_post_send
  std::uint64_t completions = 0;  // of sends, looked at
  std::uint64_t inlined = 0;      // datagrams that went into the work request; not copied otherwise unless signed
  std::uint64_t copied = 0;       // datagrams that were copied once, wholly or in part
  std::uint64_t gathered = 0;     // datagrams of which the device read a part where it lay
  std::uint64_t restarts = 0;     // of queue pairs, after errors
  std::uint64_t rejected = 0;     // received datagrams from unknown senders, or malformed
};

class DatagramSender : public std::enable_shared_from_this<DatagramSender> {
 public:
  static constexpr std::uint32_t kSends = 256;       // under way
  static constexpr std::uint32_t kSignalEvery = 32;  // work requests for one completion
  static constexpr std::size_t kMostMessages = 32;   // of one send_many()
  static constexpr std::uint32_t kInline = 256;      // bytes that are copied into the work request, at most

  static Result<std::shared_ptr<DatagramSender>> create(const DevicePort& port, std::shared_ptr<Registrar> registrar,
                                                        EventLoop& loop);
  ~DatagramSender();

  const DevicePort& port() const noexcept { return port_; }
  // The address to which credit for its links goes.
  DatagramAddress address() const noexcept { return queue_->address(port_); }
  // Any; takes no lock. The current route to this port. May wait for the network (ARP), for a second if nobody has that
  // address.
  Result<AddressHandle> find_handle(const wire::session_control::Gid& gid, std::uint32_t lid);
  // Any. The route to a multicast group, as librdmacm reports it.
  Result<DatagramRoute> route_to_group(ibv_ah_attr address, std::uint32_t queue_pair, std::uint32_t queue_key);

  // Any. RIPC_OK, RIPC_AGAIN (too many under way), RIPC_TOO_LARGE, RIPC_PEER_DEAD (the signature has no numbers left).
  ripc_status send(const DatagramRoute& route, const wire::datagram::Header& header, spi::Gather packet) noexcept;
  // Any. The same for a packet that is larger than a datagram, with one doorbell for each `kMostMessages` datagrams.
  // `header`: of the first datagram, but with the `spent` of the last; each costs 1. All but the last have `part` bytes
  // of the packet.
  ripc_status send_parts(const DatagramRoute& route, const wire::datagram::Header& header, spi::Gather packet,
                         std::size_t part) noexcept;
  // Any. Like send(), but the device may get it later: with what is enqueued next, before anything that is sent, or at
  // flush(). The caller flushes soon. Datagrams that the device does not take then are lost.
  ripc_status enqueue(const DatagramRoute& route, const wire::datagram::Header& header, spi::Gather packet) noexcept;
  void flush() noexcept;
  // The largest packet that is copied into the work request, in bytes.
  std::size_t inlined_packet() const noexcept {
    return queue_->inlined() - std::min<std::size_t>(queue_->inlined(), wire::datagram::kHeaderSize);
  }
  // Any. Like send(), for a message whose items lie unchanged in leases that are held, on a route without signature.
  // `copied` becomes false if no item was copied.
  ripc_status send_given(const DatagramRoute& route, const wire::datagram::Header& header, const wire::Plain& message,
                         bool& copied) noexcept;
  // Any. Sends several messages with one doorbell; `header(index)` gives their headers. Returns how many were sent.
  std::size_t send_many(const DatagramRoute& route, std::span<const wire::Plain> messages,
                        const std::function<wire::datagram::Header(std::size_t)>& header) noexcept;
  bool has_room(std::uint32_t datagrams) noexcept;

  // ---- Credit ----
  using Listener = std::function<void(const wire::datagram::Header& header)>;
  // Any. read_credits() will call the listener with what the link's receiver grants, and with answers to greetings
  // about the link. `verifier`: verifies both; null: they must not be signed.
  void listen(std::uint32_t link, std::uint64_t token, std::shared_ptr<DatagramVerifier> verifier, Listener listener);
  void unlisten(std::uint32_t link) noexcept;
  // Any. Reads what has come. True: there may be more, because very much has come.
  bool read_credits() noexcept;
  // Responder. Calls `look` in the loop whenever there may be something for this link.
  Status watch(std::uint32_t link, std::function<void()> look);
  void unwatch(std::uint32_t link) noexcept;

  // ---- Greetings ----
  // Any. Makes the responder answer greetings about this link of a peer; they come from where `back` leads. `verifier`:
  // as above.
  void answer(std::uint64_t token, std::uint32_t link, const DatagramRoute& back,
              std::shared_ptr<DatagramVerifier> verifier);
  void answer_no_more(std::uint64_t token, const DatagramRoute& back) noexcept;

  // Any. The device has lost one of its completion queues: nothing gets through any more.
  bool is_broken() const noexcept { return queue_->is_broken(); }

  DatagramCounters counters() const noexcept;
  ibv_qp* pair() const noexcept { return queue_->pair(); }  // for tests

 private:
  static constexpr std::uint32_t kReceives = 512;
  static constexpr std::size_t kCreditSlot = 128;
  static constexpr std::size_t kMostAnswers = 64;  // at a time
  struct Listening {
    std::uint64_t token;
    std::shared_ptr<DatagramVerifier> verifier;
    Listener listener;
  };
  struct Answer {
    std::uint64_t token;
    std::uint32_t link;
    DatagramRoute back;
    std::shared_ptr<DatagramVerifier> verifier;
  };

  DatagramSender(DevicePort port, std::shared_ptr<Registrar> registrar, EventLoop& loop)
      : port_(std::move(port)), registrar_(std::move(registrar)), loop_(loop) {}
  Status make();
  std::byte* slot_of(std::uint64_t request) const noexcept {
    return slots_.get() + static_cast<std::size_t>(request % kSends) * stride_;
  }
  bool reap_locked(std::uint32_t wanted) noexcept;
  void poll_locked() noexcept;
  void prepare_locked(ibv_send_wr& request, const DatagramRoute& route, std::uint64_t number) noexcept;
  static bool write_locked(const DatagramRoute& route, const wire::datagram::Header& header, spi::Gather packet,
                           std::size_t text, std::byte* to) noexcept;
  bool post_locked(ibv_send_wr& first, std::uint32_t count) noexcept;
  template <typename Write>
  std::uint32_t post_copies_locked(const DatagramRoute& route, std::uint32_t count, Write&& write) noexcept;
  void flush_locked() noexcept;
  void post_receive(std::uint32_t slot) noexcept;
  void on_datagram(const ibv_wc& completion, std::vector<Answer>& answers) noexcept;
  bool deliver_credit(std::span<std::byte> datagram, std::uint32_t queue_pair, std::vector<Answer>& answers) noexcept;
  void restart_locked() noexcept;
  Status watch_queue();
  void on_event() noexcept;

  const DevicePort port_;
  const std::shared_ptr<Registrar> registrar_;
  EventLoop& loop_;
  // Under mutex_. The handles that work requests under way use: a handle must not end before its requests have.
  std::array<AddressHandle, kSends> in_use_;
  InFlightLeases in_flight_;
  std::unique_ptr<DatagramQueue> queue_;
  std::size_t stride_ = 0;
  std::unique_ptr<std::byte[]> slots_;  // kSends
  RegionPointer slots_region_;
  std::uint32_t ranges_ = 1;  // of one work request

  mutable std::mutex mutex_;  // for sending; taken before credits_mutex_
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::array<ibv_send_wr, kMostMessages> enqueued_;  // the requests after posted_
  std::array<ibv_sge, kMostMessages> enqueued_ranges_;
  std::array<std::byte, kMostMessages * kInline> enqueued_bytes_;  // the bytes of those that go inline
  std::uint32_t enqueued_count_ = 0;
  DatagramCounters counters_;

  std::mutex credits_mutex_;
  std::unique_ptr<std::byte[]> credits_;  // kReceives; and a shared one for the rest of longer datagrams, unread
  RegionPointer credits_region_;
  std::atomic<std::uint64_t> rejected_{0};  // written under credits_mutex_
  std::unordered_map<std::uint32_t, Listening> listeners_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Answer> answers_;  // by token and the queue pair that asks

  std::mutex watchers_mutex_;
  std::unordered_map<std::uint32_t, std::function<void()>> watchers_;
  bool watching_ = false;  // the responder's
};

}  // namespace ripc::internal::verbs
