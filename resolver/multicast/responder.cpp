// SPDX-License-Identifier: Apache-2.0
// The multicast resolver's thread: handles due work and incoming packets. replies.cpp has what it sends.
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "base/event_signal.hpp"
#include "base/handler_set.hpp"
#include "base/random.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#include "spi/record_rights.hpp"

namespace ripc::internal::resolver {
namespace {

// How many packets of one socket are read before the next socket has its turn.
constexpr int kQuestionBurst = 16;
// How many parts of a list are remembered at most, whatever is answered.
constexpr std::size_t kMaxListParts = 65536;

}  // namespace

MulticastResolver::Watched MulticastResolver::watch_networks() const {
  Watched watched{.descriptors = {{wake_.get(), POLLIN, 0}}, .owners = {nullptr}};
  for (const auto& network : networks_) {
    const std::vector<pollfd> some = network->descriptors();
    watched.descriptors.insert(watched.descriptors.end(), some.begin(), some.end());
    watched.owners.insert(watched.owners.end(), some.size(), network.get());
  }
  return watched;
}

void MulticastResolver::run(Watched watched) noexcept {
  auto& [descriptors, owners] = watched;
  for (;;) {
    bool stopping = false;
    Nanoseconds due = UINT64_MAX;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
      due = next_due();
      thread_wakes_at_ = due;
    }
    try {
      if (stopping) {
        announce_due(true);
        return;
      }
      const Nanoseconds now = monotonic_now();
      const Nanoseconds pause = due > now ? due - now : 0;
      const timespec timeout = to_timespec(pause);
      if (::ppoll(descriptors.data(), descriptors.size(), due == UINT64_MAX ? nullptr : &timeout, nullptr) > 0) {
        if (descriptors[0].revents != 0) clear_event(wake_.get());
        for (std::size_t i = 1; i < descriptors.size(); ++i) {
          if (descriptors[i].revents != 0) read_all(*owners[i], descriptors[i].fd);
        }
      }
      announce_due(false);
      reply_lists_due();
    } catch (const std::bad_alloc&) {
      // A received packet is lost, as packets may be; due work is done a moment later.
      if (stopping) return;
      wait_for_memory();
    }
  }
}

// The lock is held.
Nanoseconds MulticastResolver::next_due() const {
  Nanoseconds due = UINT64_MAX;
  for (const auto& [id, announcement] : announcements_) due = std::min(due, announcement.due);
  for (const ListReply& reply : list_replies_) due = std::min(due, reply.due);
  return due;
}

void MulticastResolver::read_all(spi::MulticastNetwork& network, int fd) {
  for (int i = 0; i < kQuestionBurst; ++i) {
    spi::ReceivedPacket received;
    const spi::Arrival arrival = network.receive(fd, buffer_, received);
    if (arrival == spi::Arrival::nothing) return;
    if (arrival == spi::Arrival::packet) {
      process(network, received);
    } else {
      ask_again();
    }
  }
}

// A host that missed the last round should not have to wait for the next one.
void MulticastResolver::ask_again() {
  const std::lock_guard lock(mutex_);
  const Nanoseconds now = monotonic_now();
  for (const auto& [nonce, question] : questions_) {
    // If there is an older answer, one more round would be taken to mean that there is no better one.
    if (!question->older) question->ask_again(now);
  }
}

// Called by the thread, and for replies also by the threads that wait for them. So only packets that is_expected()
// refuses to those threads may touch the replay guard.
void MulticastResolver::process(spi::MulticastNetwork& network, const spi::ReceivedPacket& received) {
  spi::PacketHeader header;
  const spi::DecodeStatus decoded = spi::decode_header(received.bytes, header);
  ReplayGuard::Sender sender;
  bool has_other_key = false;
  {
    const std::lock_guard lock(mutex_);
    if (decoded == spi::DecodeStatus::ok && header.context == own_context_) {
      ++counters_.own_packets;
      if (!received.interface.empty()) echoing_interfaces_.emplace(received.interface);
      return;
    }
    ++counters_.packets_received;
    counters_.bytes_received += received.bytes.size();
    if (decoded != spi::DecodeStatus::ok) {
      ++(decoded == spi::DecodeStatus::other_version ? counters_.other_version : counters_.malformed);
      return;
    }
    has_other_key = header.is_signed != (options_.credentials.keys != nullptr) &&
                    received.to_group != (header.type == spi::PacketType::reply);
    sender = {header.context, spi::stated_signer(received.bytes, header)};
    if (!is_expected(received, header, sender) && !has_other_key) return;
  }
  if (!has_other_key && header.is_signed && !spi::verify_packet(received.bytes, *options_.credentials.keys)) {
    const std::lock_guard lock(mutex_);
    ++counters_.forged;
    has_other_key = true;
  }
  if (has_other_key) {
    if (options_.credentials.keys) security::Counters::add(options_.credentials.counters->packets_forged);
    reply_without_key(header, network, received.from);
    return;
  }
  spi::MulticastPacket packet;
  if (spi::decode_packet(received.bytes, options_.hash_name, packet) != spi::DecodeStatus::ok) {
    const std::lock_guard lock(mutex_);
    ++counters_.malformed;
    return;
  }
  spi::Refusals refusals;
  const bool is_genuine =
      spi::keep_permitted(received.bytes, packet, options_.credentials, spi::kMulticastPurpose, refusals);
  if (!is_genuine || refusals.unproven + refusals.not_permitted != 0) {
    const std::lock_guard lock(mutex_);
    counters_.refusals += refusals;
    if (!is_genuine) {
      ++counters_.forged;
      return;
    }
  }
  if (!is_authorized(network, received.from, packet)) return;
  // Only now: a packet that is not authentic must not make later packets look like copies.
  if (header.type != spi::PacketType::reply)
    static_cast<void>(guard_.accept(sender, header.timestamp, options_.wall_clock()));
  {
    const std::lock_guard lock(mutex_);
    learn(packet);
  }
  if (header.type == spi::PacketType::question) reply(packet, network, received.from);
}

// Replies to a host that does not have our key, or has one while we have none. The asker learns only that there are
// others: the reply is the same whatever is asked for, has less than 100 bytes, and is limited in rate. The MAC is
// random, because a right one would make the reply usable by someone.
void MulticastResolver::reply_without_key(const spi::PacketHeader& header, spi::MulticastNetwork& network,
                                          const spi::PeerAddress& from) {
  Bytes hint;
  {
    const std::lock_guard lock(mutex_);
    if (header.type == spi::PacketType::reply) {
      const auto question = questions_.find(header.nonce);
      if (question != questions_.end() && question->second->id == header.id) ++question->second->other_key_replies;
      return;
    }
    if (header.type != spi::PacketType::question || options_.credentials.keys == nullptr || published_.empty()) return;
    if (!hint_limit_.take(monotonic_now())) return;
    spi::PacketHeader reply = new_header(spi::PacketType::reply);
    reply.nonce = header.nonce;
    reply.id = header.id;
    hint = spi::PacketBuilder(reply, spi::Seal(options_.credentials.keys.get())).finish(true);
    std::generate(hint.end() - ClusterKeys::kMacSize, hint.end(),
                  [] { return static_cast<std::byte>(random_u64() & 0xff); });
  }
  const spi::SentPackets sent = network.send_to(from, hint);
  const std::lock_guard lock(mutex_);
  ++counters_.hints_sent;
  count(sent);
}

bool MulticastResolver::is_authorized(spi::MulticastNetwork& network, const spi::PeerAddress& from,
                                      spi::MulticastPacket& packet) {
  const PeerAuthorizer::Verdict verdict = network.authorize(from);
  if (verdict == PeerAuthorizer::Verdict::admitted) return true;
  const std::lock_guard lock(mutex_);
  if (verdict == PeerAuthorizer::Verdict::refused) {
    ++counters_.refused_users;
    security::Counters::add(options_.credentials.counters->packets_not_admitted);
    return false;
  }
  ++counters_.unknown_users;
  // A process that ends announces it after closing its socket. A false announcement only makes this side ask again.
  std::erase_if(packet.services, [](const spi::PacketService& service) { return !service.is_gone; });
  if (packet.header.type == spi::PacketType::announcement) learn(packet);
  return false;
}

// All checks that need neither the MAC nor the services, the cheapest first. The lock is held.
bool MulticastResolver::is_expected(const spi::ReceivedPacket& received, const spi::PacketHeader& header,
                                    const ReplayGuard::Sender& sender) {
  if (received.to_group == (header.type == spi::PacketType::reply)) {
    ++counters_.malformed;
    return false;
  }
  if (header.is_signed != (options_.credentials.keys != nullptr)) {
    ++(header.is_signed ? counters_.signed_ones : counters_.unsigned_ones);
    return false;
  }
  if (header.type != spi::PacketType::reply) return is_fresh(sender, header.timestamp);
  const auto question = questions_.find(header.nonce);
  if (question != questions_.end() && question->second->id == header.id) return true;
  ++counters_.unsolicited;
  return false;
}

// The lock is held.
bool MulticastResolver::is_fresh(const ReplayGuard::Sender& sender, std::uint64_t timestamp) {
  const ReplayGuard::Verdict verdict = guard_.check(sender, timestamp, options_.wall_clock());
  switch (verdict) {
    case ReplayGuard::Verdict::fresh:
      return true;
    case ReplayGuard::Verdict::copy:
      ++counters_.copies;
      break;
    case ReplayGuard::Verdict::replayed:
    case ReplayGuard::Verdict::stale:
      ++(verdict == ReplayGuard::Verdict::stale ? counters_.stale : counters_.replayed);
      if (options_.credentials.keys) security::Counters::add(options_.credentials.counters->packets_replayed);
      break;
    case ReplayGuard::Verdict::full:  // more senders than the guard remembers are active
      break;
  }
  return false;
}

// The lock is held; the packet is authentic where there is a key.
void MulticastResolver::learn(const spi::MulticastPacket& packet) {
  Question* question = nullptr;
  if (packet.header.type == spi::PacketType::reply) {
    // The question may have been answered since the header was checked.
    const auto found = questions_.find(packet.header.nonce);
    if (found == questions_.end()) return;
    question = found->second.get();
    if (question->id == 0) end_of_list(packet.header, *question);
  }
  for (const spi::PacketService& service : packet.services) {
    if (service.is_gone) {
      cache_.doubt(service.record);
    } else {
      learn_alive(service.record, question, packet.header.timestamp);
    }
    // An answer is not reported here: the asker sees it.
    if (observer_ && question == nullptr) observer_({.id = service.record.id});
  }
}

void MulticastResolver::learn_alive(const spi::ServiceRecord& record, Question* question, std::uint64_t timestamp) {
  const bool is_member = question != nullptr && record.is_in(question->id);
  const bool is_asked = question != nullptr && (question->id == 0 || question->id == record.id || is_member);
  if (is_asked && question->is_probe) {
    // The sender holds the ID, or wants it too and began earlier. In neither case is it sure to be there a moment
    // later.
    if (!question->answer) question->answer = record;
    question->notify();
    return;
  }
  if (const auto own = published_.find(record.id); own != published_.end()) claimed_by_other(own->second, record);
  const Nanoseconds now = monotonic_now();
  if (const spi::ServiceRecord* former = cache_.last(record.id);
      former != nullptr && !spi::may_displace(record, *former, options_.credentials)) {
    ++counters_.refusals.not_permitted;
    return;
  }
  const ServiceCache::Learned learned = cache_.learn(record, is_asked, now, timestamp);
  if (learned == ServiceCache::Learned::outdated) {
    ++counters_.outdated;
    // Nobody asked for it, so it may be a replay from before a takeover.
    if (question == nullptr) security::Counters::add(options_.credentials.counters->records_refused);
  }
  // The known holder is gone, and the clock of the new holder's host is behind.
  if (is_member && learned == ServiceCache::Learned::outdated && cache_.is_doubtful(record.id))
    cache_.replace(record, now, timestamp);
  const auto waiting = resolving_.find(record.id);
  if (waiting == resolving_.end()) return;
  Question& asked = *waiting->second;
  // An announcement at this moment is as good as an answer.
  if (const spi::ServiceRecord* known = cache_.find(record.id, now)) {
    asked.answer = *known;
    asked.notify();
    resolving_.erase(waiting);
  } else if (learned == ServiceCache::Learned::outdated && question == &asked) {
    if (!asked.older || asked.older->incarnation < record.incarnation) asked.older = record;
  }
}

void MulticastResolver::claimed_by_other(Published& own, const spi::ServiceRecord& record) {
  ++counters_.conflicts;
  if (!spi::may_displace(record, own.record, options_.credentials)) {
    ++counters_.refusals.not_permitted;
    return;
  }
  if (record.incarnation <= own.record.incarnation) return;
  own.is_superseded = true;
  announcements_.erase(record.id);
}

void MulticastResolver::end_of_list(const spi::PacketHeader& header, Question& question) {
  question.last_received = monotonic_now();
  question.notify();
  std::size_t total = 0;
  for (const auto& [context, parts] : question.parts) total += parts.numbers.size() + 1;
  if (total >= kMaxListParts) return;
  Question::Parts& parts = question.parts[header.context];
  parts.numbers.insert(header.number);
  if (header.is_last) parts.count = header.number + 1;
}

}  // namespace ripc::internal::resolver
