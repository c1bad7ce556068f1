// SPDX-License-Identifier: Apache-2.0
#include "core/path/paths.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>
#include <utility>

#include "base/loop_wait.hpp"

namespace ripc::internal::core {

namespace {

// Pause between two looks at a service that is restarting or moving.
constexpr Nanoseconds kRetryPause = 2'000'000;
// Dropped channels are freed when no thread uses them any more. This is the pause between two checks.
constexpr Nanoseconds kReclaimPause = 10'000'000;
// A former holder that takes longer than this is stopped or gone, and needs no answer.
constexpr Nanoseconds kFenceTimeout = 1'000'000'000;

Deadline half_of(Deadline deadline) noexcept {
  return deadline.is_never() ? deadline : Deadline::after(deadline.remaining() / 2);
}

}  // namespace

Paths::Paths(const ContextParts& parts, EventLoop& loop)
    : parts_(parts), loop_(loop), reclaim_timer_(loop.make_timer([this] {
        reclaim_scheduled_.store(false, std::memory_order_release);
        if (!epochs_.reclaim()) reclaim_soon();
      })) {}

spi::Transport* Paths::transport(const std::string& name) const noexcept {
  const auto found = std::find_if(parts_.transports.begin(), parts_.transports.end(),
                                  [&](const auto& transport) { return transport->name() == name; });
  return found == parts_.transports.end() ? nullptr : found->get();
}

std::shared_ptr<spi::Channel> Paths::known_channel(ripc_service_id id) const noexcept {
  const ThreadEpoch::Section section(ThreadEpoch::current());
  const std::shared_ptr<spi::Channel>* channel = routes_.find(id);
  return channel != nullptr && (*channel)->alive() ? *channel : nullptr;
}

Result<std::shared_ptr<spi::Channel>> Paths::channel_to(ripc_service_id id, Counter& resolutions) {
  if (auto known = known_channel(id)) return known;
  const Deadline deadline = Deadline::after(parts_.resolve_timeout);
  return search(id, deadline, [&]() -> Result<std::shared_ptr<spi::Channel>> {
    // An earlier search may have ended since the first look.
    if (auto known = known_channel(id)) return known;
    return find_channel(id, deadline, resolutions);
  });
}

Result<Resolution> Paths::find_path(ripc_service_id id, Deadline deadline) {
  deadline = Deadline(std::min(deadline.at(), Deadline::after(parts_.resolve_timeout).at()));
  for (;;) {
    std::optional<Result<Resolution>> path;
    const Result<std::shared_ptr<spi::Channel>> found =
        search(id, deadline, [&]() -> Result<std::shared_ptr<spi::Channel>> {
          path = try_paths(id, deadline);
          if (auto known = known_channel(id)) return known;
          // A sender that waits here also accepts the address that the service itself has sent.
          Counter not_counted{0};
          if (routes_.learned(id)) return find_channel(id, deadline, not_counted);
          return path->ok() ? Status(RIPC_PEER_DEAD) : path->status();
        });
    if (path) return *std::move(path);
    // Another thread's result is reported without opening a second link.
    if (!found.ok()) return found.status();
  }
}

template <typename Find>
Result<std::shared_ptr<spi::Channel>> Paths::search(ripc_service_id id, Deadline deadline, Find find) {
  const auto mine = std::make_shared<PendingSearch>();
  for (;;) {
    std::shared_ptr<PendingSearch> running;
    {
      const std::lock_guard lock(searches_mutex_);
      running = searches_.try_emplace(id, mine).first->second;
    }
    if (running == mine) break;
    Result<std::shared_ptr<spi::Channel>> found = result_of(*running, deadline);
    // The other thread may have had less time.
    if (found.status() != RIPC_TIMEOUT || deadline.expired()) return found;
  }
  Result<std::shared_ptr<spi::Channel>> found = RIPC_NO_MEMORY;
  try {
    found = find();
  } catch (const std::bad_alloc&) {
    // The threads that wait must not wait forever.
  }
  {
    const std::lock_guard lock(searches_mutex_);
    mine->result = found;
    searches_.erase(id);
  }
  searches_changed_.notify_all();
  // The responder waits in its loop.
  loop_.wake_from_elsewhere();
  return found;
}

Result<std::shared_ptr<spi::Channel>> Paths::result_of(const PendingSearch& search, Deadline deadline) {
  std::unique_lock lock(searches_mutex_);
  const auto done = [&] { return search.result.has_value(); };
  if (!wait_in(loop_, lock, searches_changed_, deadline, done)) return RIPC_TIMEOUT;
  return *search.result;
}

Result<std::shared_ptr<spi::Channel>> Paths::find_channel(ripc_service_id id, Deadline deadline, Counter& resolutions) {
  for (;;) {
    resolutions.fetch_add(1, std::memory_order_relaxed);
    std::optional<spi::Address> learned = routes_.learned(id);
    // The way back to a service that no resolver knows takes time, too.
    Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, learned ? half_of(deadline) : deadline);
    std::vector<spi::Address> addresses;
    if (record.ok()) {
      addresses = spi::expected_addresses(*record);
    } else {
      const ripc_status code = record.status().code();
      if (code != RIPC_NO_SERVICE && !(code == RIPC_TIMEOUT && learned)) return record.status();
      // An address that a service itself has sent counts only if no resolver knows better, or if none can be asked.
      if (learned) addresses.push_back(std::move(*learned));
      if (addresses.empty()) return record.status();
    }
    Result<spi::Connected> way = connect(addresses, id, deadline);
    if (way.ok()) return remember(id, std::move(*way));
    const ripc_status code = way.status().code();
    if (code != RIPC_PEER_DEAD && code != RIPC_NO_SERVICE) return way.status();
    if (!record.ok()) return record.status();
    // The service was there a moment ago: it is ending, restarting or moving.
    parts_.resolver->invalidate(*record);
    if (deadline.expired()) return is_withheld(addresses) ? no_common_transport(addresses) : way.status();
    if (loop_.in_loop_thread()) {
      (void)loop_.run_until([] { return false; }, Deadline::after(kRetryPause));
    } else {
      pause_for(kRetryPause);
    }
  }
}

Result<Resolution> Paths::find_way_back(ripc_service_id id, Deadline deadline) {
  std::optional<spi::Address> learned = routes_.learned(id);
  if (!learned) return RIPC_NO_SERVICE;
  Result<spi::Connected> way = connect({*learned}, id, deadline);
  if (!way.ok()) return way.status();
  (void)remember(id, std::move(*way));
  Resolution found;
  found.record.id = id;
  found.address = std::move(*learned);
  return found;
}

Result<spi::Connected> Paths::connect(const Candidate& candidate, ripc_service_id id, Deadline deadline) {
  return candidate.transport->connect(candidate.addresses, id, candidate.is_last ? deadline : half_of(deadline));
}

Result<spi::Connected> Paths::connect(const std::vector<spi::Address>& addresses, ripc_service_id id,
                                      Deadline deadline) const {
  const std::vector<Candidate> candidates = candidates_for(addresses);
  if (candidates.empty()) return no_common_transport(addresses);
  Status failure;
  for (const Candidate& candidate : candidates) {
    Result<spi::Connected> way = connect(candidate, id, deadline);
    if (way.ok()) return way;
    note_failure(failure, way.status());
  }
  return failure;
}

std::shared_ptr<spi::Channel> Paths::remember(ripc_service_id id, spi::Connected way) {
  std::shared_ptr<spi::Channel> channel = routes_.insert(id, std::move(way));
  reclaim_soon();  // it may have replaced a channel, or a table that was too small
  return channel;
}

void Paths::note_failure(Status& failure, const Status& latest) {
  const ripc_status code = latest.code();
  const bool is_silence = code == RIPC_PEER_DEAD || code == RIPC_NO_SERVICE || code == RIPC_TIMEOUT;
  if (failure.code() != RIPC_REFUSED || !is_silence) failure = latest;
}

std::vector<Paths::Candidate> Paths::candidates_for(const std::vector<spi::Address>& addresses) const {
  std::vector<Candidate> candidates;
  for (const auto& transport : parts_.transports) {
    Candidate candidate{.transport = transport.get(), .addresses = {}, .is_last = false};
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(candidate.addresses),
                 [&](const spi::Address& address) { return address.transport == transport->name(); });
    if (!candidate.addresses.empty()) candidates.push_back(std::move(candidate));
  }
  if (!candidates.empty()) candidates.back().is_last = true;
  return candidates;
}

Result<std::shared_ptr<spi::Channel>> Paths::connect_to(const spi::ServiceRecord& record, Deadline deadline) {
  Result<spi::Connected> way = connect(spi::expected_addresses(record), record.id, deadline);
  if (!way.ok()) return way.status();
  return remember(record.id, std::move(*way));
}

bool Paths::is_withheld(std::span<const spi::Address> addresses) const noexcept {
  const auto& names = parts_.withheld;
  return std::any_of(addresses.begin(), addresses.end(), [&](const spi::Address& address) {
    return std::find(names.begin(), names.end(), address.transport) != names.end();
  });
}

Status Paths::no_common_transport(const std::vector<spi::Address>& addresses) const {
  if (is_withheld(addresses))
    return Status(RIPC_REFUSED,
                  "The service is known, but this context does not talk to other hosts, " + parts_.withheld_reason);
  return Status(RIPC_NO_SERVICE, "The service has no address on a transport that this context may use (" +
                                     transport_names() +
                                     "): check RIPC_TRANSPORTS and RIPC_SOCKET_INTERFACE on both sides.");
}

std::string Paths::transport_names() const {
  std::string names;
  for (const auto& transport : parts_.transports) {
    if (!names.empty()) names += ',';
    names += transport->name();
  }
  return names;
}

void Paths::drop(const spi::Channel& channel) noexcept {
  routes_.remove(channel);
  reclaim_soon();
}

void Paths::follow(const spi::ServiceRecord& now) noexcept {
  const std::shared_ptr<spi::Channel> known = known_channel(now.id);
  if (known && known->incarnation() != 0 && known->incarnation() < now.incarnation) drop(*known);
}

void Paths::reclaim_soon() noexcept {
  if (reclaim_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  loop_.set_timer(reclaim_timer_, monotonic_now() + kReclaimPause);
}

void Paths::fence_former(const spi::ServiceRecord& former, std::uint64_t incarnation) const noexcept {
  if (former.context == parts_.id) return;
  for (const spi::Address& address : former.addresses) {
    spi::Transport* transport = this->transport(address.transport);
    // A former holder that is stopped or gone needs no answer: peers ask the resolver, and the former holder learns of
    // it when it runs again.
    try {
      spi::Address expected = address;
      expected.member = former.member;
      if (transport != nullptr &&
          transport->fence(expected, former.id, incarnation, Deadline::after(kFenceTimeout)).ok())
        return;
    } catch (const std::bad_alloc&) {
      // Treated like a former holder that does not answer.
    }
  }
}

std::vector<spi::Address> Paths::own_addresses() const {
  std::vector<spi::Address> addresses;
  for (const auto& transport : parts_.transports) {
    spi::Address address = transport->address();
    if (!address.locator.empty()) addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace ripc::internal::core
