// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/multicast_resolver.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "spi/holder_rules.hpp"

namespace ripc::resolver {
namespace {

// What a question tells of its asker's services.
constexpr std::size_t kIntroduction = 512;
constexpr unsigned kAnnouncementRounds = 2;
// A list is over when nothing came for kQuiet, but not before kShortList; if something is missing, at kLongList.
constexpr Nanoseconds kQuiet = 60'000'000;
constexpr Nanoseconds kShortList = 150'000'000;
constexpr Nanoseconds kLongList = 400'000'000;
// Channels that are kept for the next question, and packets that are read from one at a time.
constexpr std::size_t kIdleChannels = 2;
constexpr std::size_t kReadBurst = 64;
constexpr double kRepliesPerSecond = 5000;
constexpr double kReplyBurst = 1000;
constexpr double kListsPerSecond = 20;
constexpr double kListBurst = 20;

// Such an ID is one of 2^62, so nobody else has it.
bool is_random(ripc_service_id id) noexcept { return id >> 62 == 3; }

std::string milliseconds(Nanoseconds time) { return std::to_string(time / 1'000'000) + " ms"; }

}  // namespace

MulticastResolver::MulticastResolver(const MulticastOptions& options, std::uint64_t own_context)
    : options_(options),
      own_context_(own_context),
      cache_(options.max_cached, options.max_age),
      guard_(options.max_peers, options.keys ? options.clock_tolerance : 0),
      reply_limit_(kRepliesPerSecond, kReplyBurst),
      list_limit_(kListsPerSecond, kListBurst),
      buffer_(kMaxPacket) {}

Result<std::unique_ptr<MulticastResolver>> MulticastResolver::create(const MulticastOptions& options,
                                                                     std::uint64_t own_context) {
  std::unique_ptr<MulticastResolver> resolver(new MulticastResolver(options, own_context));
  Result<std::unique_ptr<MulticastNetwork>> network =
      MulticastNetwork::open(options, options.hears_itself ? 0 : own_context);
  if (!network.ok()) return network.status();
  resolver->network_ = std::move(*network);
  try {
    resolver->thread_ = std::thread([raw = resolver.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return system_error(error.code().value(), "Starting the thread of the multicast resolver", "raise ulimit -u");
  }
  ::pthread_setname_np(resolver->thread_.native_handle(), "ripc-multicast");
  return resolver;
}

MulticastResolver::~MulticastResolver() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  network_->wake();
  thread_.join();
}

void MulticastResolver::count(const Sent& sent) noexcept {
  counters_.packets_sent += sent.packets;
  counters_.bytes_sent += sent.bytes;
  counters_.send_failures += sent.failures;
}

PacketHeader MulticastResolver::new_header(PacketType type) {
  // Never the same twice: receivers tell packets apart by it.
  last_timestamp_ = std::max<std::uint64_t>(realtime_now(), last_timestamp_ + 1);
  PacketHeader header;
  header.type = type;
  header.context = own_context_;
  header.pid = static_cast<std::uint32_t>(::getpid());
  header.timestamp = last_timestamp_;
  return header;
}

// ---- Resolve -------------------------------------------------------------------------------------------------

MulticastResolver::Bytes MulticastResolver::encode_question(const Question& question) {
  PacketHeader header = new_header(PacketType::question);
  header.is_probe = question.is_probe;
  header.nonce = question.nonce;
  header.id = question.id;
  header.number = question.incarnation;
  PacketBuilder builder(header, options_.keys != nullptr, kIntroduction);
  // The next services each time, so that in the end all were told.
  auto position = published_.upper_bound(introduced_);
  for (std::size_t i = 0; i < published_.size(); ++i, ++position) {
    if (position == published_.end()) position = published_.begin();
    if (position->second.is_superseded) continue;
    if (!builder.add(position->second.record, false)) break;
    introduced_ = position->first;
  }
  return builder.finish(options_.keys.get());
}

// Sends a round of the question; without the lock, which is held before and after.
void MulticastResolver::ask(const Question& question, std::unique_lock<std::mutex>& lock) {
  const Bytes bytes = encode_question(question);
  ++counters_.questions_sent;
  lock.unlock();
  const Sent sent = network_->send_to_groups(bytes, question.channel);
  lock.lock();
  count(sent);
}

// For the first who asks; nullptr for the others, and where descriptors are short. The lock is held.
std::unique_ptr<ReplyChannel> MulticastResolver::take_channel(Question& question) {
  if (question.channel != nullptr) return nullptr;
  std::unique_ptr<ReplyChannel> channel;
  if (!idle_channels_.empty()) {
    channel = std::move(idle_channels_.back());
    idle_channels_.pop_back();
  } else if (Result<std::unique_ptr<ReplyChannel>> made = network_->open_channel(); made.ok()) {
    channel = std::move(*made);
  }
  question.channel = channel.get();
  question.channel_owner = std::this_thread::get_id();
  return channel;
}

// The lock is held before and after.
void MulticastResolver::wait(Question& question, ReplyChannel* channel, Nanoseconds until,
                             std::unique_lock<std::mutex>& lock) {
  const Nanoseconds now = monotonic_now();
  if (until <= now) return;
  if (channel == nullptr) {
    question.changed.wait_for(lock, std::chrono::nanoseconds(until - now));
    return;
  }
  lock.unlock();
  channel->wait(until - now);
  Received received;
  for (std::size_t i = 0; i < kReadBurst && channel->receive(received); ++i) process(received);
  lock.lock();
}

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
  std::shared_ptr<Question>& shared = resolving_[id];
  if (!shared) shared = std::make_shared<Question>();
  const std::shared_ptr<Question> question = shared;
  question->id = id;
  questions_[question->nonce] = question;
  ++question->waiters;
  std::unique_ptr<ReplyChannel> channel;
  if (!deadline.expired()) channel = take_channel(*question);
  while (!question->answer) {
    const Nanoseconds now = monotonic_now();
    if (!deadline.is_never() && now >= deadline.at()) break;
    if (now >= question->next_round) {
      if (question->older) {
        cache_.replace(*question->older, now);
        question->answer = std::move(question->older);
        question->notify();
        break;
      }
      question->start_round(now);
      ask(*question, lock);
      continue;
    }
    wait(*question, channel.get(), std::min(deadline.at(), question->next_round), lock);
  }
  --question->waiters;
  if (channel) {
    question->channel = nullptr;
    if (idle_channels_.size() < kIdleChannels) idle_channels_.push_back(std::move(channel));
  }
  if (question->answer || question->waiters == 0) forget(*question);
  if (question->answer) return *question->answer;
  return no_service(id, *question, monotonic_now() - started);
}

Status MulticastResolver::no_service(ripc_service_id id, const Question& question, Nanoseconds waited) const {
  const std::string which = "the service ID " + std::to_string(id);
  if (question.rounds == 0)
    return Status(RIPC_NO_SERVICE,
                  "There was no time left to ask other hosts for " + which + ": allow a longer resolve_timeout.");
  const std::vector<std::string> interfaces = network_->interfaces();
  if (interfaces.empty())
    return Status(RIPC_NO_SERVICE, "Other hosts could not be asked for " + which + " (" + network_->text() +
                                       "): bring a network interface up, or check interface= in RIPC_MULTICAST.");
  return Status(RIPC_NO_SERVICE, "Nobody answered for " + which + " on " + network_->text() + " within " +
                                     milliseconds(waited) + " (asked " + std::to_string(question.rounds) +
                                     " times): start the service, check the ID, or run `ripc doctor` on both hosts.");
}

void MulticastResolver::invalidate(const spi::ServiceRecord& record) noexcept {
  const std::lock_guard lock(mutex_);
  cache_.doubt(record);
}

// ---- Publish -------------------------------------------------------------------------------------------------

// The other holder, if one answers.
std::optional<spi::ServiceRecord> MulticastResolver::probe(const spi::ServiceRecord& candidate) {
  const auto question = std::make_shared<Question>();
  question->id = candidate.id;
  question->is_probe = true;
  question->incarnation = std::min(candidate.incarnation, spi::kMaxIncarnation);
  question->pause = std::max<Nanoseconds>(options_.probe_time / 2, 1);
  const Nanoseconds end = monotonic_now() + options_.probe_time;
  std::unique_lock lock(mutex_);
  probing_[candidate.id] = candidate;
  questions_[question->nonce] = question;
  while (!question->answer) {
    const Nanoseconds now = monotonic_now();
    if (now >= end) break;
    if (now >= question->next_round) {
      question->start_round(now);
      ask(*question, lock);
      continue;
    }
    question->changed.wait_for(lock, std::chrono::nanoseconds(std::min(end, question->next_round) - now));
  }
  forget(*question);
  probing_.erase(candidate.id);
  return question->answer;
}

Status MulticastResolver::publish(spi::ServiceRecord& record, bool takeover,
                                  std::vector<spi::ServiceRecord>* displaced) {
  if (Status status = check_packet_record(record, options_.hash_name); !status.ok()) return status;
  spi::ServiceRecord candidate = record;
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
    published_[record.id] = {candidate, false};
    schedule(candidate, false);
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
    // Nobody is told; peers find out when they send.
  }
}

// The lock is held.
void MulticastResolver::schedule(const spi::ServiceRecord& record, bool is_gone) {
  const Nanoseconds due = monotonic_now() + kGather;
  announcements_[record.id] = {record, is_gone, due, is_gone ? 1 : kAnnouncementRounds};
  // The thread looks at what is due when it wakes; only if it would sleep for longer it must be told.
  if (due >= thread_wakes_at_) return;
  thread_wakes_at_ = due;
  network_->wake();
}

// ---- List and state ------------------------------------------------------------------------------------------

Status MulticastResolver::list(const std::function<void(const spi::ServiceRecord&)>& visit) {
  std::vector<spi::ServiceRecord> found;
  {
    const auto question = std::make_shared<Question>();
    const Nanoseconds started = monotonic_now();
    std::unique_lock lock(mutex_);
    std::unordered_set<std::uint64_t> expected;
    cache_.visit(0, [&](const spi::ServiceRecord& record) { expected.insert(record.context); });
    questions_[question->nonce] = question;
    for (;;) {
      const Nanoseconds now = monotonic_now();
      const bool complete =
          question->has_all_parts() && std::all_of(expected.begin(), expected.end(),
                                                   [&](auto context) { return question->parts.count(context) != 0; });
      const Nanoseconds second_round = started + kShortList;
      const Nanoseconds end =
          complete ? std::max(started + kShortList, question->heard_last + kQuiet) : started + kLongList;
      if (now >= end) break;
      if (question->rounds == 0 || (question->rounds == 1 && !complete && now >= second_round)) {
        question->start_round(now);
        ask(*question, lock);
        continue;
      }
      const Nanoseconds until = question->rounds == 1 && !complete ? second_round : end;
      question->changed.wait_for(lock, std::chrono::nanoseconds(until - now));
    }
    forget(*question);
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

MulticastState MulticastResolver::state() const {
  MulticastState state;
  state.network = network_->text();
  state.interfaces = network_->interfaces();
  std::unordered_set<std::uint64_t> contexts;
  const std::lock_guard lock(mutex_);
  for (const std::string& interface : state.interfaces) {
    if (options_.hears_itself && echoing_interfaces_.count(interface) == 0)
      state.silent_interfaces.push_back(interface);
  }
  cache_.visit(0, [&](const spi::ServiceRecord& record) {
    contexts.insert(record.context);
    ++state.services;
  });
  state.contexts = contexts.size();
  state.counters = counters_;
  return state;
}

}  // namespace ripc::resolver
