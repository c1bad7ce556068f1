// SPDX-License-Identifier: Apache-2.0
// The multicast resolver finds services on other hosts (and in other namespaces of this one) without a server.
// docs/internals/multicast.md has the details; docs/security.md says what is protected with and without a cluster key.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/unique_fd.hpp"
#include "resolver/multicast/cache.hpp"
#include "resolver/multicast/counters.hpp"
#include "resolver/multicast/options.hpp"
#include "resolver/multicast/question.hpp"
#include "resolver/multicast/rate_limit.hpp"
#include "resolver/multicast/replay_guard.hpp"
#include "spi/multicast_network.hpp"
#include "spi/resolver.hpp"
#include "spi/service_packet.hpp"

namespace ripc::internal::resolver {

// The resolver's networks and counters, for `ripc doctor`.
struct MulticastState {
  struct Network {
    std::string_view name;                       // "udp", "fabric"
    std::string text;                            // groups and interfaces, for people
    std::vector<std::string> interfaces;         // joined
    std::vector<std::string> silent_interfaces;  // with options.receives_own_packets: none of ours came back
  };
  std::vector<Network> networks;
  std::size_t contexts = 0;  // other contexts whose services are known
  std::size_t services = 0;  // of other contexts, in the cache
  MulticastCounters counters;
};

// Thread-safe. No call needs the context's responder, so the responder may call too.
class MulticastResolver final : public spi::Resolver {
 public:
  using Networks = std::vector<std::unique_ptr<spi::MulticastNetwork>>;

  // own_context: the context whose services are published here; its own packets are ignored. options.groups and
  // options.hash_name must be set. `others`: the networks that it uses in addition to UDP, or instead of UDP if
  // options.udp is false. Starts the thread. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  static Result<std::unique_ptr<MulticastResolver>> create(const MulticastOptions& options, std::uint64_t own_context,
                                                           Networks others = {});
  // Announces the withdrawals that were not announced yet, then ends the thread. No other call may be running.
  ~MulticastResolver() override;

  std::string_view name() const noexcept override { return "multicast"; }

  // Looks in the cache first, else asks: at once, then with growing pauses until the deadline. If the deadline is over
  // already, it looks only in the cache. RIPC_NO_SERVICE: no one answered.
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override;

  Result<spi::ServiceRecord> successor(const spi::ServiceRecord& former, Deadline deadline) override;

  // Asks for options.probe_time whether someone has the ID (not for random IDs), then announces it. Two contexts that
  // ask at the same time find each other: the one that began earlier, by its incarnation, gets the ID. RIPC_ID_IN_USE,
  // RIPC_NAME_COLLISION, RIPC_LIMIT (its addresses do not fit in a packet), RIPC_INVALID_ARGUMENT.
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override;

  // Announces the record. RIPC_FENCED: another context has the ID. RIPC_LIMIT, RIPC_INVALID_ARGUMENT as publish().
  Status update(const spi::ServiceRecord& record) override;

  // The members that are in the cache or in this context. The first call for a group asks the network and waits 100 ms.
  // Later calls ask every 10 s and do not wait. The 1024 groups asked for last are remembered.
  Status members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) override;

  // Announces the end.
  void withdraw(const spi::ServiceRecord& record) noexcept override;

  // The next resolve() asks again.
  void invalidate(const spi::ServiceRecord& record) noexcept override;

  // Reports what other contexts announce, and which of their services they list in their questions.
  Status observe(EventLoop& loop, spi::Observer observer, spi::Observe what) override;

  // Asks everyone, and visits the services of those who answer within some tenths of a second, and of this context.
  Status list(const spi::Visit& visit) override;

  MulticastCounters counters() const;
  MulticastState state() const;

 private:
  Result<spi::ServiceRecord> ask_for(ripc_service_id id, Deadline deadline, std::unique_lock<std::mutex>& lock);
  struct Published {
    spi::ServiceRecord record;
    bool is_superseded = false;  // another context has it with a larger incarnation
  };
  struct Announcement {
    spi::ServiceRecord record;
    bool is_gone = false;
    Nanoseconds due = 0;
    unsigned rounds = 0;  // still to be sent
  };
  // The reply to a question for all services, or those in a group, sent in portions.
  struct ListReply {
    spi::MulticastNetwork* network = nullptr;
    spi::PeerAddress to;
    std::uint64_t nonce = 0;
    ripc_service_id group = 0;  // 0: all
    Nanoseconds due = 0;
    ripc_service_id after = 0;  // services up to this ID were sent
    std::uint64_t number = 0;
  };
  // A group that was asked for.
  struct Interest {
    std::shared_ptr<Question> question;  // the last one; its late replies count too
    Nanoseconds started = 0;             // when the first question was asked
    std::deque<Nanoseconds> asked;       // when the last questions were asked, the latest at the end
    Nanoseconds used = 0;
  };
  using ChannelPointer = std::unique_ptr<UdpNetwork::ReplyChannel>;
  using Bytes = std::vector<std::byte>;
  // Registrations and withdrawals that come this close together share packets.
  static constexpr Nanoseconds kGather = 10'000'000;

  MulticastResolver(const MulticastOptions& options, std::uint64_t own_context);

  // multicast_resolver.cpp: calls of the application
  Status no_service(ripc_service_id id, const Question& question, Nanoseconds waited) const;
  std::optional<spi::ServiceRecord> probe(const spi::ServiceRecord& candidate);
  Bytes encode_question(const Question& question);
  // Bytes of a packet that every network carries, and of one that at least one carries.
  struct Limits {
    std::size_t common = spi::kMaxPacket;
    std::size_t largest = 0;
  };
  Limits limits() const noexcept;
  spi::PacketHeader new_header(spi::PacketType type);
  void ask(const Question& question, std::unique_lock<std::mutex>& lock);
  ChannelPointer take_channel(Question& question);
  void wait(Question& question, const ChannelPointer& channel, Nanoseconds until, std::unique_lock<std::mutex>& lock);
  void ask_until(Question& question, const ChannelPointer& channel, std::unique_lock<std::mutex>& lock,
                 const std::function<Nanoseconds(Nanoseconds now)>& end);
  void forget(const Question& question) noexcept;
  class Asking;
  void schedule(const spi::ServiceRecord& record, bool is_gone);
  void count(const spi::SentPackets& sent) noexcept;
  void wake_thread() const noexcept;
  std::string text() const;
  bool reaches_no_network() const;

  // groups.cpp
  Interest& interest_in(ripc_service_id group, Nanoseconds now);
  void ask_for_members(ripc_service_id group, Nanoseconds now, std::unique_lock<std::mutex>& lock);

  // responder.cpp: the thread
  // The descriptors that the thread sleeps on: its own first, which belongs to no network.
  struct Watched {
    std::vector<pollfd> descriptors;
    std::vector<spi::MulticastNetwork*> owners;
  };
  Watched watch_networks() const;
  void run(Watched watched) noexcept;
  void read_all(spi::MulticastNetwork& network, int fd);
  void ask_again();
  void process(spi::MulticastNetwork& network, const spi::ReceivedPacket& received);
  bool is_expected(const spi::ReceivedPacket& received, const spi::PacketHeader& header,
                   const ReplayGuard::Sender& sender);
  bool is_fresh(const ReplayGuard::Sender& sender, std::uint64_t timestamp);
  void reply_without_key(const spi::PacketHeader& header, spi::MulticastNetwork& network, const spi::PeerAddress& from);
  bool is_authorized(spi::MulticastNetwork& network, const spi::PeerAddress& from, spi::MulticastPacket& packet);
  void learn(const spi::MulticastPacket& packet);
  void learn_alive(const spi::ServiceRecord& record, Question* question, std::uint64_t timestamp);
  void claimed_by_other(Published& own, const spi::ServiceRecord& record);
  void end_of_list(const spi::PacketHeader& header, Question& question);
  void reply(const spi::MulticastPacket& packet, spi::MulticastNetwork& network, const spi::PeerAddress& to);
  void reply_with_list(const spi::PacketHeader& asked, spi::MulticastNetwork& network, const spi::PeerAddress& to);
  void announce_due(bool is_last_chance);
  void reply_lists_due();
  Nanoseconds next_due() const;

  const MulticastOptions options_;
  const std::uint64_t own_context_;
  Networks networks_;
  UdpNetwork* udp_ = nullptr;  // one of networks_; nullptr: UDP is not used
  UniqueFd wake_;

  mutable std::mutex mutex_;  // guards everything up to the next blank line; never held while packets are sent
  std::map<ripc_service_id, Published> published_;
  std::unordered_map<ripc_service_id, spi::ServiceRecord> probing_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Question>> questions_;    // by nonce
  std::unordered_map<ripc_service_id, std::shared_ptr<Question>> resolving_;  // those of resolve()
  std::map<ripc_service_id, Announcement> announcements_;
  std::unordered_map<ripc_service_id, Interest> interests_;  // by group
  std::vector<ListReply> list_replies_;
  std::vector<ChannelPointer> idle_channels_;
  ServiceCache cache_;
  spi::Observer observer_;
  MulticastCounters counters_;
  std::unordered_set<std::string> echoing_interfaces_;
  std::uint64_t last_timestamp_ = 0;
  ripc_service_id last_advertised_ = 0;  // questions have announced our services up to this ID
  Nanoseconds thread_wakes_at_ = 0;
  bool stopping_ = false;

  ReplayGuard guard_;  // the thread's
  RateLimit reply_limit_;
  RateLimit list_limit_;
  RateLimit hint_limit_;
  std::vector<std::byte> buffer_;
  std::thread thread_;
};

}  // namespace ripc::internal::resolver
