// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/multicast_resolver.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/event_signal.hpp"
#include "base/group_id.hpp"
#include "base/plain_text.hpp"
#include "base/thread.hpp"
#include "base/timed_wait.hpp"
#include "resolver/multicast/udp_network.hpp"
#include "spi/holder_rules.hpp"
#include "spi/record_rights.hpp"

namespace ripc::internal::resolver {
namespace {

// The size of a question, in bytes, up to which its asker's services are added.
constexpr std::size_t kAdvertised = 512;
constexpr unsigned kAnnouncementRounds = 2;
// A list is complete when nothing has come for kQuiet, but not before kShortList; if parts are missing, at kLongList.
constexpr Nanoseconds kQuiet = 60'000'000;
constexpr Nanoseconds kShortList = 150'000'000;
constexpr Nanoseconds kLongList = 400'000'000;
// Channels that are kept for the next question, and packets that are read from a channel in one go.
constexpr std::size_t kIdleChannels = 2;
constexpr std::size_t kAnswerBurst = 64;
// Any host can ask, perhaps in another host's name, so no more replies than this are sent.
constexpr double kRepliesPerSecond = 5000;
constexpr double kReplyBurst = 1000;
constexpr double kListsPerSecond = 20;
constexpr double kListBurst = 20;
constexpr double kHintsPerSecond = 1;
constexpr double kHintBurst = 2;

std::string milliseconds(Nanoseconds time) { return std::to_string(time / 1'000'000) + " ms"; }

}  // namespace

MulticastResolver::MulticastResolver(const MulticastOptions& options, std::uint64_t own_context)
    : options_(options),
      own_context_(own_context),
      cache_(options.max_cached, options.max_age, options.clock_tolerance),
      guard_(options.max_peers, options.credentials.keys ? options.clock_tolerance : 0),
      reply_limit_(kRepliesPerSecond, kReplyBurst),
      list_limit_(kListsPerSecond, kListBurst),
      hint_limit_(kHintsPerSecond, kHintBurst),
      buffer_(spi::kMaxPacket) {}

Result<std::unique_ptr<MulticastResolver>> MulticastResolver::create(const MulticastOptions& options,
                                                                     std::uint64_t own_context, Networks others) {
  std::unique_ptr<MulticastResolver> resolver(new MulticastResolver(options, own_context));
  resolver->idle_channels_.reserve(kIdleChannels);
  resolver->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!resolver->wake_) return system_error(errno, "Making an event descriptor for the multicast resolver");
  if (options.udp) {
    Result<std::unique_ptr<UdpNetwork>> udp = UdpNetwork::open(options, options.receives_own_packets ? 0 : own_context);
    if (!udp.ok()) return udp.status();
    resolver->udp_ = udp->get();
    resolver->networks_.push_back(std::move(*udp));
  }
  for (auto& other : others) resolver->networks_.push_back(std::move(other));
  Status started = start_thread(
      resolver->thread_, "ripc-multicast", "Starting the thread of the multicast resolver",
      [raw = resolver.get(), watched = resolver->watch_networks()]() mutable { raw->run(std::move(watched)); });
  if (!started.ok()) return started;
  return resolver;
}

MulticastResolver::~MulticastResolver() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_thread();
  thread_.join();
}

void MulticastResolver::wake_thread() const noexcept { signal_event(wake_.get()); }

MulticastResolver::Limits MulticastResolver::limits() const noexcept {
  Limits limits;
  for (const auto& network : networks_) {
    const std::size_t limit = std::min(spi::kMaxPacket, network->packet_limit());
    limits.common = std::min(limits.common, limit);
    limits.largest = std::max(limits.largest, limit);
  }
  return limits;
}

void MulticastResolver::count(const spi::SentPackets& sent) noexcept {
  counters_.packets_sent += sent.packets;
  counters_.bytes_sent += sent.bytes;
  counters_.send_failures += sent.failures;
}

spi::PacketHeader MulticastResolver::new_header(spi::PacketType type) {
  // Never the same twice, because receivers tell packets apart by the time stamp. But if the clock was set back by more
  // than they tolerate, they would refuse what goes on from there.
  const Nanoseconds now = options_.wall_clock();
  const bool was_set_back = last_timestamp_ > now && last_timestamp_ - now > options_.clock_tolerance;
  last_timestamp_ = was_set_back ? now : std::max<std::uint64_t>(now, last_timestamp_ + 1);
  spi::PacketHeader header;
  header.type = type;
  header.context = own_context_;
  header.pid = static_cast<std::uint32_t>(::getpid());
  header.timestamp = last_timestamp_;
  return header;
}

// ---- Resolve -------------------------------------------------------------------------------------------------

MulticastResolver::Bytes MulticastResolver::encode_question(const Question& question) {
  spi::PacketHeader header = new_header(spi::PacketType::question);
  header.is_probe = question.is_probe;
  header.nonce = question.nonce;
  header.id = question.id;
  header.number = question.incarnation;
  spi::PacketBuilder builder(header, spi::Seal(options_.credentials), kAdvertised, limits().common);
  // Each question lists the next services, so that in the end all are announced.
  auto position = published_.upper_bound(last_advertised_);
  for (std::size_t i = 0; i < published_.size(); ++i, ++position) {
    if (position == published_.end()) position = published_.begin();
    if (position->second.is_superseded) continue;
    if (!builder.add(position->second.record, false)) break;
    last_advertised_ = position->first;
  }
  return builder.finish();
}

// Sends a round of the question without the lock, which is held before and after.
void MulticastResolver::ask(const Question& question, std::unique_lock<std::mutex>& lock) {
  // Only its owner may use the channel here: the channel can disappear as soon as the lock is released.
  const bool is_owner = question.channel != nullptr && question.channel_owner == std::this_thread::get_id();
  UdpNetwork::ReplyChannel* const channel = is_owner ? question.channel : nullptr;
  const bool is_repeated = question.rounds > 1;
  ++counters_.questions_sent;
  Bytes bytes;
  spi::SentPackets sent;
  for (const auto& network : networks_) {
    // A host that gets the first round over two networks answers over the faster one, since the second packet is a
    // copy. Repetitions are encoded separately and answered over each network, because an answer over the faster one
    // may have been lost.
    if (bytes.empty() || is_repeated) bytes = encode_question(question);
    lock.unlock();
    const bool by_channel = channel != nullptr && network.get() == udp_;
    sent += by_channel ? channel->send_to_groups(bytes) : network->send_to_groups(bytes);
    lock.lock();
  }
  count(sent);
}

// A channel for the first asker; nullptr for the others, without UDP, or if descriptors are short. The lock is held.
MulticastResolver::ChannelPointer MulticastResolver::take_channel(Question& question) {
  if (question.channel != nullptr || udp_ == nullptr) return nullptr;
  ChannelPointer channel;
  if (!idle_channels_.empty()) {
    channel = std::move(idle_channels_.back());
    idle_channels_.pop_back();
  } else {
    channel = std::make_unique<UdpNetwork::ReplyChannel>(*udp_);
    if (!channel->open().ok()) return nullptr;
  }
  question.channel = channel.get();
  question.channel_owner = std::this_thread::get_id();
  return channel;
}

// The lock is held before and after.
void MulticastResolver::wait(Question& question, const ChannelPointer& channel, Nanoseconds until,
                             std::unique_lock<std::mutex>& lock) {
  const Nanoseconds now = monotonic_now();
  if (until <= now) return;
  if (!channel) {
    wait_at_most(question.changed, lock, until - now);
    return;
  }
  lock.unlock();
  channel->wait(until - now);
  spi::ReceivedPacket received;
  // Handles replies only: a thread that waits on a channel answers no questions.
  for (std::size_t i = 0; i < kAnswerBurst && channel->receive(received); ++i) process(*udp_, received);
  lock.lock();
}

// Asks again and again, until there is an answer or until the time that end(now) returns. The lock is held before and
// after.
void MulticastResolver::ask_until(Question& question, const ChannelPointer& channel, std::unique_lock<std::mutex>& lock,
                                  const std::function<Nanoseconds(Nanoseconds)>& end) {
  while (!question.answer) {
    const Nanoseconds now = monotonic_now();
    const Nanoseconds until = end(now);
    if (now >= until) return;
    if (now >= question.next_round) {
      question.start_round(now);
      ask(question, lock);
    } else {
      wait(question, channel, std::min(until, question.next_round), lock);
    }
  }
}

// One asker. The lock is held at the beginning and at the end. At the end the question is forgotten if it is answered
// or no one else waits for it. A channel that this asker brought is kept for the next one.
class MulticastResolver::Asking {
 public:
  Asking(MulticastResolver& resolver, std::shared_ptr<Question> question, std::unique_lock<std::mutex>& lock)
      : resolver_(resolver), question_(std::move(question)), lock_(lock) {
    resolver_.questions_[question_->nonce] = question_;
    ++question_->waiters;
  }
  ~Asking() {
    if (!lock_.owns_lock()) lock_.lock();
    --question_->waiters;
    if (channel) {
      question_->channel = nullptr;
      auto& idle = resolver_.idle_channels_;
      if (idle.size() < kIdleChannels) idle.push_back(std::move(channel));
    }
    if (question_->is_probe) resolver_.probing_.erase(question_->id);
    if (question_->answer || question_->waiters == 0) resolver_.forget(*question_);
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  ChannelPointer channel;

 private:
  MulticastResolver& resolver_;
  const std::shared_ptr<Question> question_;
  std::unique_lock<std::mutex>& lock_;
};

void MulticastResolver::forget(const Question& question) noexcept {
  questions_.erase(question.nonce);
  const auto found = resolving_.find(question.id);
  if (found != resolving_.end() && found->second.get() == &question) resolving_.erase(found);
}

Result<spi::ServiceRecord> MulticastResolver::resolve(ripc_service_id id, Deadline deadline) {
  const Nanoseconds started = monotonic_now();
  std::unique_lock lock(mutex_);
  if (const auto own = published_.find(id); own != published_.end() && !own->second.is_superseded)
    return own->second.record;
  if (const spi::ServiceRecord* known = cache_.find(id, started)) return *known;
  return ask_for(id, deadline, lock);
}

Result<spi::ServiceRecord> MulticastResolver::successor(const spi::ServiceRecord& former, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const spi::ServiceRecord* known = cache_.find(former.id, monotonic_now());
  if (known != nullptr && spi::displaces(*known, former)) return *known;
  Result<spi::ServiceRecord> found = ask_for(former.id, deadline, lock);
  if (!found.ok() || spi::displaces(*found, former)) return found;
  return RIPC_NO_SERVICE;
}

// The lock is held.
Result<spi::ServiceRecord> MulticastResolver::ask_for(ripc_service_id id, Deadline deadline,
                                                      std::unique_lock<std::mutex>& lock) {
  const Nanoseconds started = monotonic_now();
  const auto under_way = resolving_.find(id);
  const std::shared_ptr<Question> question =
      under_way != resolving_.end() ? under_way->second : std::make_shared<Question>();
  question->id = id;
  std::optional<Asking> asking(std::in_place, *this, question, lock);
  if (under_way == resolving_.end()) resolving_[id] = question;
  ChannelPointer& channel = asking->channel;
  if (!deadline.expired()) channel = take_channel(*question);
  ask_until(*question, channel, lock, [&](Nanoseconds now) {
    if (now < question->next_round || now >= deadline.at() || !question->older) return deadline.at();
    cache_.replace(*question->older, now);
    question->answer = std::move(question->older);
    question->notify();
    return now;
  });
  asking.reset();
  if (question->answer) return *question->answer;
  return no_service(id, *question, monotonic_now() - started);
}

Status MulticastResolver::no_service(ripc_service_id id, const Question& question, Nanoseconds waited) const {
  const std::string which = "the service ID " + id_text(id);
  if (question.rounds == 0)
    return Status(RIPC_NO_SERVICE,
                  "There was no time left to ask other hosts for " + which + ": allow a longer resolve_timeout.");
  if (reaches_no_network())
    return Status(RIPC_NO_SERVICE, "Other hosts could not be asked for " + which + " (" + text() +
                                       "): bring a network interface up, or check interface= in RIPC_MULTICAST.");
  if (question.other_key_replies != 0)
    return Status(RIPC_NO_SERVICE,
                  std::string("No host answered for ") + which + ", but there are hosts " +
                      (options_.credentials.keys ? "with another cluster key than this one's"
                                                 : "with a cluster key, and this context runs without one") +
                      ": if the service is there, copy its host's key file to this host.");
  const std::uint64_t refused = counters_.refused_users;
  return Status(RIPC_NO_SERVICE,
                "No host answered for " + which + " on " + text() + " within " + milliseconds(waited) + " (asked " +
                    std::to_string(question.rounds) +
                    " times): start the service, check the ID, or run `ripc doctor` on both hosts." +
                    (refused == 0 ? "" : " Answers of other users of this host were ignored (RIPC_PEERS).") +
                    (counters_.other_version == 0
                         ? ""
                         : " There are hosts with another version of libripc: run the same one on all."));
}

void MulticastResolver::invalidate(const spi::ServiceRecord& record) noexcept {
  const std::lock_guard lock(mutex_);
  cache_.doubt(record);
}

Status MulticastResolver::observe(EventLoop&, spi::Observer observer, spi::Observe) {
  const std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
  return {};
}

// ---- Publish -------------------------------------------------------------------------------------------------

// Returns the other holder, if one answers.
std::optional<spi::ServiceRecord> MulticastResolver::probe(const spi::ServiceRecord& candidate) {
  const auto question = std::make_shared<Question>();
  question->id = candidate.id;
  question->is_probe = true;
  question->incarnation = std::min(candidate.incarnation, spi::kMaxIncarnation);
  question->pause = Backoff(std::max<Nanoseconds>(options_.probe_time / 2, 1), kLongestPause);
  const Nanoseconds end = monotonic_now() + options_.probe_time;
  std::unique_lock lock(mutex_);
  const Asking asking(*this, question, lock);
  probing_[candidate.id] = candidate;
  ask_until(*question, {}, lock, [&](Nanoseconds) { return end; });
  return question->answer;
}

Status MulticastResolver::publish(spi::ServiceRecord& record, bool takeover,
                                  std::vector<spi::ServiceRecord>* displaced) {
  if (Status status =
          spi::check_packet_record(record, options_.hash_name, spi::Seal(options_.credentials), limits().largest);
      !status.ok())
    return status;
  if (Status status = spi::check_own_rights(record, options_.credentials); !status.ok()) return status;
  spi::ServiceRecord candidate = record;
  candidate.member = spi::own_member(options_.credentials);
  std::uint64_t last_known = 0;
  bool is_ours = false;
  {
    const std::lock_guard lock(mutex_);
    last_known = cache_.incarnation(record.id);
    const auto own = published_.find(record.id);
    is_ours = own != published_.end() && !own->second.is_superseded;
    if (is_ours && own->second.record.incarnation >= record.incarnation) last_known = own->second.record.incarnation;
  }
  candidate.incarnation = spi::next_incarnation(record.incarnation, last_known);
  if (!is_ours && !is_random(record.id) && options_.probe_time != 0) {
    if (std::optional<spi::ServiceRecord> holder = probe(candidate)) {
      if (Status status = spi::check_holder(record, *holder, takeover); !status.ok()) return status;
      candidate.incarnation = spi::next_incarnation(candidate.incarnation, holder->incarnation);
      if (displaced != nullptr) displaced->push_back(std::move(*holder));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    Published own{candidate, false};
    Published& place = published_[record.id];
    std::swap(place, own);
    try {
      schedule(candidate, false);
    } catch (const std::bad_alloc&) {
      // Restore the former state.
      std::swap(place, own);
      if (place.record.id == 0) published_.erase(record.id);
      throw;
    }
  }
  record = std::move(candidate);
  return {};
}

void MulticastResolver::withdraw(const spi::ServiceRecord& record) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto own = published_.find(record.id);
    if (own == published_.end() || own->second.record.incarnation != record.incarnation) return;
    const bool is_superseded = own->second.is_superseded;
    published_.erase(own);
    if (is_superseded) {
      announcements_.erase(record.id);
    } else {
      schedule(record, true);
    }
  } catch (const std::bad_alloc&) {
    // No one is notified; peers notice when they send.
  }
}

// The lock is held.
void MulticastResolver::schedule(const spi::ServiceRecord& record, bool is_gone) {
  const Nanoseconds due = monotonic_now() + kGather;
  announcements_[record.id] = {record, is_gone, due, is_gone ? 1 : kAnnouncementRounds};
  // The thread checks what is due when it wakes, so it must be woken only if it would sleep for longer.
  if (due >= thread_wakes_at_) return;
  thread_wakes_at_ = due;
  wake_thread();
}

// ---- List and state ------------------------------------------------------------------------------------------

Status MulticastResolver::list(const spi::Visit& visit) {
  std::vector<spi::ServiceRecord> found;
  {
    const auto question = std::make_shared<Question>();
    const Nanoseconds started = monotonic_now();
    std::unique_lock lock(mutex_);
    std::unordered_set<std::uint64_t> expected;
    cache_.visit(0, [&](const spi::ServiceRecord& record) { expected.insert(record.context); });
    std::optional<Asking> asking(std::in_place, *this, question, lock);
    ask_until(*question, {}, lock, [&](Nanoseconds) {
      const bool complete = question->has_all_parts() && std::ranges::all_of(expected, [&](auto context) {
                              return question->parts.count(context) != 0;
                            });
      if (question->rounds != 0 && !question->reaches_more)
        question->next_round = question->rounds == 1 && !complete ? started + kShortList : UINT64_MAX;
      return complete ? std::max(started + kShortList, question->last_received + kQuiet) : started + kLongList;
    });
    asking.reset();
    for (const auto& [id, own] : published_) {
      if (!own.is_superseded) found.push_back(own.record);
    }
    cache_.visit(started, [&](const spi::ServiceRecord& record) { found.push_back(record); });
  }
  for (const spi::ServiceRecord& record : found) visit(record);
  return {};
}

MulticastCounters MulticastResolver::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::string MulticastResolver::text() const {
  std::string text;
  for (const auto& network : networks_) text += (text.empty() ? "" : "; ") + network->text();
  return text;
}

bool MulticastResolver::reaches_no_network() const {
  return std::ranges::all_of(networks_, [](const auto& network) { return network->interfaces().empty(); });
}

MulticastState MulticastResolver::state() const {
  MulticastState state;
  for (const auto& network : networks_)
    state.networks.push_back({network->name(), network->text(), network->interfaces(), {}});
  std::unordered_set<std::uint64_t> contexts;
  const std::lock_guard lock(mutex_);
  for (MulticastState::Network& network : state.networks) {
    for (const std::string& interface : network.interfaces) {
      if (options_.receives_own_packets && echoing_interfaces_.count(interface) == 0)
        network.silent_interfaces.push_back(interface);
    }
  }
  cache_.visit(0, [&](const spi::ServiceRecord& record) {
    contexts.insert(record.context);
    ++state.services;
  });
  state.contexts = contexts.size();
  state.counters = counters_;
  return state;
}

}  // namespace ripc::internal::resolver
