// SPDX-License-Identifier: Apache-2.0
// Groups in the multicast resolver: what is asked when, and who counts as a member.
#include <algorithm>
#include <utility>

#include "base/plain_text.hpp"
#include "resolver/multicast/multicast_resolver.hpp"
#include "spi/record_rights.hpp"

namespace ripc::internal::resolver {
namespace {

// The first question for a group is asked twice, and its answers are awaited for this long.
constexpr Nanoseconds kFirstWait = 100'000'000;
constexpr Nanoseconds kFirstRepeat = 40'000'000;
constexpr unsigned kFirstRounds = 2;
// Joins, leaves and ends are announced, so asking again only finds announcements that were lost.
constexpr Nanoseconds kAskAgain = 10'000'000'000;
// A member that has answered none of this many questions is gone.
constexpr std::size_t kMaxSilence = 4;
constexpr std::size_t kMaxInterests = 1024;

}  // namespace

Status MulticastResolver::update(const spi::ServiceRecord& record) {
  if (Status status =
          spi::check_packet_record(record, options_.hash_name, spi::Seal(options_.credentials), limits().largest);
      !status.ok())
    return status;
  if (Status status = spi::check_own_rights(record, options_.credentials); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const auto own = published_.find(record.id);
  if (own == published_.end() || own->second.is_superseded || own->second.record.incarnation != record.incarnation)
    return Status(RIPC_FENCED, "The service ID " + id_text(record.id) +
                                   " has another holder by now: unregister the service, and register it again.");
  spi::ServiceRecord copy = record;
  copy.member = own->second.record.member;
  schedule(record, false);
  own->second.record = std::move(copy);
  return {};
}

// The interest in the group; makes room for it if it is new. The lock is held.
MulticastResolver::Interest& MulticastResolver::interest_in(ripc_service_id group, Nanoseconds now) {
  if (interests_.size() >= kMaxInterests && interests_.count(group) == 0) {
    const auto oldest = std::ranges::min_element(
        interests_, [](const auto& one, const auto& other) { return one.second.used < other.second.used; });
    if (oldest->second.question) questions_.erase(oldest->second.question->nonce);
    interests_.erase(oldest);
  }
  Interest& interest = interests_[group];
  interest.used = now;
  return interest;
}

// Asks a question with its own nonce. The lock is held before and after, but not meanwhile.
void MulticastResolver::ask_for_members(ripc_service_id group, Nanoseconds now, std::unique_lock<std::mutex>& lock) {
  Interest& interest = interest_in(group, now);
  if (interest.question) questions_.erase(interest.question->nonce);
  const auto question = std::make_shared<Question>();
  question->id = group;
  question->pause = Backoff(kFirstRepeat, kLongestPause);
  interest.question = question;
  interest.asked.push_back(now);
  if (interest.asked.size() > kMaxSilence + 1) interest.asked.pop_front();
  questions_[question->nonce] = question;
  question->start_round(now);
  ask(*question, lock);
}

Status MulticastResolver::members(ripc_service_id group, Deadline deadline, const spi::Visit& visit) {
  std::vector<spi::ServiceRecord> found;
  {
    std::unique_lock lock(mutex_);
    const Nanoseconds began = monotonic_now();
    Interest& interest = interest_in(group, began);
    if (interest.started == 0) interest.started = began;
    const Nanoseconds started = interest.started;
    if (interest.asked.empty() || interest.asked.back() + kAskAgain < began) ask_for_members(group, began, lock);
    // Other threads may ask for so many groups meanwhile that this one is forgotten. Then there is nothing to wait for.
    const auto asked = interests_.find(group);
    const std::shared_ptr<Question> question = asked == interests_.end() ? nullptr : asked->second.question;
    const auto end = [&](Nanoseconds) {
      if (question->rounds >= kFirstRounds) question->next_round = UINT64_MAX;
      return interests_.count(group) == 0 ? 0 : std::min(started + kFirstWait, deadline.at());
    };
    if (question) ask_until(*question, {}, lock, end);
    const auto known = interests_.find(group);
    const bool may_be_gone = known != interests_.end() && known->second.asked.size() > kMaxSilence;
    for (const auto& [id, own] : published_) {
      if (!own.is_superseded && own.record.is_in(group)) found.push_back(own.record);
    }
    cache_.visit(may_be_gone ? known->second.asked.front() : 0, [&](const spi::ServiceRecord& record) {
      if (record.is_in(group)) found.push_back(record);
    });
  }
  for (const spi::ServiceRecord& record : found) visit(record);
  return {};
}

}  // namespace ripc::internal::resolver
