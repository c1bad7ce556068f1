// SPDX-License-Identifier: Apache-2.0
// Explains to people which path is taken to a service, and why.
#include <algorithm>
#include <utility>

#include "core/path/paths.hpp"

namespace ripc::internal::core {

namespace {

// The end of a reason: who found the service.
std::string finder_of(const spi::ServiceRecord& record) {
  return record.found_by.empty() ? std::string() : "; found by the " + std::string(record.found_by) + " resolver";
}

}  // namespace

Result<Resolution> Paths::resolve(ripc_service_id id) {
  Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, Deadline::after(parts_.resolve_timeout));
  if (!record.ok()) return record.status();
  Resolution resolution;
  resolution.record = std::move(*record);
  follow(resolution.record);
  const spi::Address* const reachable = reachable_address(resolution.record);
  resolution.address = likely_address(resolution.record, reachable);
  resolution.reason =
      reachable != nullptr
          ? "the first of this context's transports (" + transport_names() + ") that lead to the service"
          : "none: none of this context's transports (" + transport_names() + ") leads to the service";
  resolution.reason += finder_of(resolution.record);
  return resolution;
}

const spi::Address* Paths::reachable_address(const spi::ServiceRecord& record) const noexcept {
  for (const auto& transport : parts_.transports) {
    for (const spi::Address& address : record.addresses) {
      if (address.transport == transport->name() && transport->may_lead(address)) return &address;
    }
  }
  return nullptr;
}

spi::Address Paths::likely_address(const spi::ServiceRecord& record, const spi::Address* reachable) const {
  if (reachable != nullptr) return *reachable;
  if (record.addresses.empty()) return {};
  const auto other = std::find_if(record.addresses.begin(), record.addresses.end(),
                                  [&](const spi::Address& address) { return transport(address.transport) == nullptr; });
  return other != record.addresses.end() ? *other : record.addresses.front();
}

Result<Resolution> Paths::try_paths(ripc_service_id id, Deadline deadline) {
  Result<spi::ServiceRecord> record = parts_.resolver->resolve(id, deadline);
  if (!record.ok()) return record.status();
  Resolution path;
  path.record = std::move(*record);
  std::vector<std::pair<std::string_view, std::string>> others;
  std::size_t missed = SIZE_MAX;  // index in `others` of a rendezvous directory without the service
  std::string rendezvous_directory;
  Status failure = no_common_transport(path.record.addresses);
  const std::vector<Candidate> candidates = candidates_for(spi::expected_addresses(path.record));
  follow(path.record);
  std::optional<spi::Connected> open = routes_.open_path(id);
  // A path that loses packets is tried again: a link that sends over TCP does not show whether datagrams get through.
  if (open && open->channel->loses()) open.reset();
  for (const auto& transport : parts_.transports) {
    const auto candidate = std::find_if(candidates.begin(), candidates.end(),
                                        [&](const Candidate& known) { return known.transport == transport.get(); });
    if (candidate == candidates.end()) {
      others.emplace_back(transport->name(), "the service has no address there");
      continue;
    }
    if (!path.address.transport.empty()) {
      others.emplace_back(transport->name(), "comes after " + path.address.transport + " in this context's order");
      continue;
    }
    const bool is_open = open && std::ranges::find(candidate->addresses, open->address) != candidate->addresses.end();
    Result<spi::Connected> way = is_open ? *open : connect(*candidate, id, deadline);
    if (way.ok()) {
      path.address = way->address;
      path.reason = way->channel->describe(deadline).text;
      const bool is_on_this_host = way->is_on_this_host;
      (void)routes_.insert(id, *std::move(way));
      if (missed != SIZE_MAX && is_on_this_host)
        others[missed].second = "The service runs on this host, but not with this process's runtime directory, " +
                                rendezvous_directory +
                                ". Set RIPC_RUNTIME_DIR (or XDG_RUNTIME_DIR) to the same directory for both; `ripc "
                                "doctor` looks for others.";
    } else {
      note_failure(failure, way.status());
      if (!transport->rendezvous_directory().empty() && way.status().code() == RIPC_PEER_DEAD) {
        missed = others.size();
        rendezvous_directory = transport->rendezvous_directory();
      }
      others.emplace_back(transport->name(), way.status().text());
    }
  }
  if (!parts_.withheld.empty()) others.emplace_back("other hosts", "not asked, " + parts_.withheld_reason);
  for (const spi::Address& address : path.record.addresses) {
    if (transport(address.transport) == nullptr && !is_withheld({&address, 1}))
      others.emplace_back(address.transport,
                          "not among this context's transports (" + transport_names() + ")" +
                              (parts_.is_encryption_required ? ", as RIPC_ENCRYPT is required" : ""));
  }
  for (const auto& [name, why] : others) {
    if (!path.others.empty()) path.others += "; ";
    path.others.append(name).append(": ").append(why);
  }
  if (path.address.transport.empty()) return failure;
  path.reason += finder_of(path.record);
  return path;
}

Result<std::vector<spi::RailReport>> Paths::rails(ripc_service_id id) {
  Counter resolutions;
  Result<std::shared_ptr<spi::Channel>> channel = channel_to(id, resolutions);
  if (!channel.ok()) return channel.status();
  return (*channel)->describe(Deadline::after(0)).rails;
}

}  // namespace ripc::internal::core
