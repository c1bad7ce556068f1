// SPDX-License-Identifier: Apache-2.0
// Which way a context takes to a service.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>
#include <utility>

#include "base/loop_wait.hpp"
#include "core/context.hpp"
#include "core/service_id.hpp"

namespace ripc::core {

namespace {

// Between two looks at a service that is in the middle of restarting or moving.
constexpr Nanoseconds kRetryPause = 2'000'000;
constexpr Nanoseconds kReclaimPause = 10'000'000;

Deadline half_of(Deadline deadline) noexcept {
  return deadline.is_never() ? deadline : Deadline::after(deadline.remaining() / 2);
}

// What a reason ends with.
std::string finder_of(const spi::ServiceRecord& record) {
  return record.found_by.empty() ? std::string() : "; found by the " + std::string(record.found_by) + " resolver";
}

// A refusal says more than that nobody answered elsewhere.
void note_failure(Status& failure, const Status& latest) {
  const ripc_status code = latest.code();
  const bool is_silence = code == RIPC_PEER_DEAD || code == RIPC_NO_SERVICE || code == RIPC_TIMEOUT;
  if (failure.code() != RIPC_REFUSED || !is_silence) failure = latest;
}

}  // namespace

spi::Transport* Context::transport(const std::string& name) noexcept {
  const auto found = std::find_if(parts_.transports.begin(), parts_.transports.end(),
                                  [&](const auto& transport) { return transport->name() == name; });
  return found == parts_.transports.end() ? nullptr : found->get();
}

std::shared_ptr<spi::Channel> Context::known_channel(ripc_service_id id) const noexcept {
  const ThreadEpoch::Section section(ThreadEpoch::current());
  const std::shared_ptr<spi::Channel>* channel = routes_.find(id);
  return channel != nullptr && (*channel)->alive() ? *channel : nullptr;
}

Result<std::shared_ptr<spi::Channel>> Context::channel_to(ripc_service_id id, std::atomic<std::uint64_t>& resolutions) {
  if (auto known = known_channel(id)) return known;
  const Deadline deadline = Deadline::after(parts_.resolve_timeout);
  // One thread looks, those that come meanwhile wait for what it finds.
  std::shared_ptr<Search> search;
  {
    const std::lock_guard lock(searches_mutex_);
    if (const auto running = searches_.find(id); running != searches_.end()) {
      search = running->second;
    } else {
      searches_.emplace(id, std::make_shared<Search>());
    }
  }
  if (search) return result_of(*search, deadline);
  // An earlier search may have ended since the first look.
  Result<std::shared_ptr<spi::Channel>> found = known_channel(id);
  if (*found == nullptr) {
    try {
      found = find_channel(id, deadline, resolutions);
    } catch (const std::bad_alloc&) {
      // Those that wait must not wait for ever.
      found = RIPC_NO_MEMORY;
    }
  }
  {
    const std::lock_guard lock(searches_mutex_);
    const auto mine = searches_.find(id);
    mine->second->result = found;
    searches_.erase(mine);
  }
  searches_changed_.notify_all();
  // The responder waits in its loop.
  loop_->wake_from_elsewhere();
  return found;
}

Result<std::shared_ptr<spi::Channel>> Context::result_of(const Search& search, Deadline deadline) {
  std::unique_lock lock(searches_mutex_);
  const auto done = [&] { return search.result.has_value(); };
  if (!wait_in(*loop_, lock, searches_changed_, deadline, done)) return RIPC_TIMEOUT;
  return *search.result;
}

Result<std::shared_ptr<spi::Channel>> Context::find_channel(ripc_service_id id, Deadline deadline,
                                                            std::atomic<std::uint64_t>& resolutions) {
  for (;;) {
    resolutions.fetch_add(1, std::memory_order_relaxed);
    std::optional<spi::Address> learned = routes_.learned(id);
    // The way back to a service that no resolver knows takes time, too.
    Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, learned ? half_of(deadline) : deadline);
    std::vector<spi::Address> addresses;
    if (record.ok()) {
      addresses = record->addresses;
    } else {
      if (record.status().code() != RIPC_NO_SERVICE) return record.status();
      // What a service said of itself counts only where no resolver knows better.
      if (learned) addresses.push_back(std::move(*learned));
      if (addresses.empty()) return record.status();
    }
    Result<std::shared_ptr<spi::Channel>> channel = connect(addresses, id, deadline);
    if (channel.ok()) return routes_.insert(id, std::move(*channel));
    const ripc_status code = channel.status().code();
    if (code != RIPC_PEER_DEAD && code != RIPC_NO_SERVICE) return channel.status();
    if (!record.ok()) {
      routes_.forget(id);
      return record.status();
    }
    // The service was there a moment ago: it is ending, restarting or moving.
    parts_.resolver->invalidate(*record);
    if (deadline.expired()) return is_withheld(addresses) ? no_common_transport(addresses) : channel.status();
    if (loop_->in_loop_thread()) {
      (void)loop_->run_until([] { return false; }, Deadline::after(kRetryPause));
    } else {
      const timespec pause{0, static_cast<long>(kRetryPause)};
      nanosleep(&pause, nullptr);
    }
  }
}

Result<std::shared_ptr<spi::Channel>> Context::connect(const std::vector<spi::Address>& addresses, ripc_service_id id,
                                                       Deadline deadline) {
  const std::vector<Way> ways = ways_to(addresses);
  if (ways.empty()) return no_common_transport(addresses);
  Status failure;
  for (const Way& way : ways) {
    std::size_t answered = 0;
    Result<std::shared_ptr<spi::Channel>> channel =
        way.transport->connect_any(way.addresses, id, way.is_last ? deadline : half_of(deadline), answered);
    if (channel.ok()) return channel;
    note_failure(failure, channel.status());
  }
  return failure;
}

std::vector<Context::Way> Context::ways_to(const std::vector<spi::Address>& addresses) const {
  std::vector<Way> ways;
  for (const auto& transport : parts_.transports) {
    Way way{.transport = transport.get(), .addresses = {}, .is_last = false};
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(way.addresses),
                 [&](const spi::Address& address) { return address.transport == transport->name(); });
    if (!way.addresses.empty()) ways.push_back(std::move(way));
  }
  if (!ways.empty()) ways.back().is_last = true;
  return ways;
}

Result<std::shared_ptr<spi::Channel>> Context::connect_to(const spi::ServiceRecord& record, Deadline deadline) {
  Result<std::shared_ptr<spi::Channel>> channel = connect(record.addresses, record.id, deadline);
  if (!channel.ok()) return channel;
  return routes_.insert(record.id, std::move(*channel));
}

bool Context::is_withheld(std::span<const spi::Address> addresses) const noexcept {
  const auto& names = parts_.withheld;
  return std::any_of(addresses.begin(), addresses.end(), [&](const spi::Address& address) {
    return std::find(names.begin(), names.end(), address.transport) != names.end();
  });
}

Status Context::no_common_transport(const std::vector<spi::Address>& addresses) const {
  if (is_withheld(addresses))
    return Status(RIPC_REFUSED,
                  "The service is known, but this context does not talk to other hosts, " + parts_.withheld_reason);
  return Status(RIPC_NO_SERVICE, "The service has no address on a transport that this context may use (" +
                                     transport_names() + "): check RIPC_TRANSPORTS on both sides.");
}

std::string Context::transport_names() const {
  std::string names;
  for (const auto& transport : parts_.transports) {
    if (!names.empty()) names += ',';
    names += transport->name();
  }
  return names;
}

Status Context::group_members(ripc_service_id group,
                              const std::function<void(const spi::ServiceRecord&)>& visit) const {
  if (Status valid = check_group(group); !valid.ok()) return valid;
  return parts_.resolver->members(group, Deadline::after(parts_.resolve_timeout), visit);
}

void Context::drop_channel(const spi::Channel& channel) noexcept {
  routes_.remove(channel);
  reclaim_soon();
}

void Context::reclaim_soon() noexcept {
  if (reclaim_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  loop_->set_timer(reclaim_timer_, monotonic_now() + kReclaimPause);
}

Result<Resolution> Context::resolve(ripc_service_id id) {
  Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, Deadline::after(parts_.resolve_timeout));
  if (!record.ok()) return record.status();
  Resolution resolution;
  resolution.record = std::move(*record);
  for (const auto& transport : parts_.transports) {
    for (const spi::Address& address : resolution.record.addresses) {
      if (address.transport != transport->name() || !resolution.address.transport.empty()) continue;
      resolution.address = address;
      resolution.reason = "the first of this context's transports (" + transport_names() + ") that the service is on";
    }
  }
  if (resolution.address.transport.empty()) {
    if (!resolution.record.addresses.empty()) resolution.address = resolution.record.addresses.front();
    resolution.reason = "none: the service is on none of this context's transports (" + transport_names() + ")";
  }
  resolution.reason += finder_of(resolution.record);
  return resolution;
}

Result<Resolution> Context::find_path(ripc_service_id id) {
  const Deadline deadline = Deadline::after(parts_.resolve_timeout);
  Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, deadline);
  if (!record.ok()) return record.status();
  Resolution path;
  path.record = std::move(*record);
  std::vector<std::pair<std::string_view, std::string>> others;
  std::size_t missed = SIZE_MAX;  // among them: a meeting place where the service is not
  std::string meeting_place;
  Status failure = no_common_transport(path.record.addresses);
  const std::vector<Way> ways = ways_to(path.record.addresses);
  for (const auto& transport : parts_.transports) {
    const auto way =
        std::find_if(ways.begin(), ways.end(), [&](const Way& known) { return known.transport == transport.get(); });
    if (way == ways.end()) {
      others.emplace_back(transport->name(), "the service has no address there");
      continue;
    }
    if (!path.address.transport.empty()) {
      others.emplace_back(transport->name(), "comes after " + path.address.transport + " in this context's order");
      continue;
    }
    std::size_t answered = 0;
    Result<std::shared_ptr<spi::Channel>> channel =
        transport->connect_any(way->addresses, id, way->is_last ? deadline : half_of(deadline), answered);
    if (channel.ok()) {
      path.address = way->addresses[answered];
      (*channel)->prove(deadline);
      path.reason = (*channel)->describe();
      (void)routes_.insert(id, std::move(*channel));
      if (missed != SIZE_MAX && transport->is_on_this_host(path.address))
        others[missed].second = "The service runs on this host, but not with this process's runtime directory, " +
                                meeting_place +
                                ". Set RIPC_RUNTIME_DIR (or XDG_RUNTIME_DIR) to the same directory for both; `ripc "
                                "doctor` looks for others.";
    } else {
      note_failure(failure, channel.status());
      if (std::string place = transport->meeting_place(); !place.empty() && channel.status().code() == RIPC_PEER_DEAD) {
        missed = others.size();
        meeting_place = std::move(place);
      }
      others.emplace_back(transport->name(), channel.status().text());
    }
  }
  if (!parts_.withheld.empty()) others.emplace_back("other hosts", "not asked, " + parts_.withheld_reason);
  for (const spi::Address& address : path.record.addresses) {
    if (transport(address.transport) == nullptr && !is_withheld({&address, 1}))
      others.emplace_back(address.transport, "not among this context's transports (" + transport_names() + ")");
  }
  for (const auto& [name, why] : others) {
    if (!path.others.empty()) path.others += "; ";
    path.others.append(name).append(": ").append(why);
  }
  if (path.address.transport.empty()) return failure;
  path.reason += finder_of(path.record);
  return path;
}

}  // namespace ripc::core
