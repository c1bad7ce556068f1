// SPDX-License-Identifier: Apache-2.0
// Contexts, services, names and counters of the C interface.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/key_file.hpp"
#include "base/plain_text.hpp"
#include "capi/compose.hpp"
#include "capi/credentials.hpp"
#include "capi/error.hpp"
#include "capi/handles.hpp"
#include "core/register_many.hpp"
#include "core/service_id.hpp"

namespace ripc::internal::capi {

namespace {

bool is_power_of_two_between(std::uint32_t value, std::uint32_t low, std::uint32_t high) noexcept {
  return value >= low && value <= high && (value & (value - 1)) == 0;
}

// RIPC_OK if the ID may belong to a single service.
Status check_single(ripc_service_id id) {
  if (id == 0) return RIPC_INVALID_ARGUMENT;
  if (is_group(id))
    return Status(RIPC_INVALID_ARGUMENT,
                  id_text(id) + " is the ID of a group, not of a service: name one of its members.");
  return {};
}

Result<core::ServiceOptions> read(const ripc_service_options& given) {
  core::ServiceOptions options;
  options.takeover = given.takeover != 0;
  if (is_group(given.id))
    return Status(
        RIPC_INVALID_ARGUMENT,
        id_text(given.id) + " is the ID of a group: register a service under another ID, and let it join the group.");
  if (given.id > RIPC_WELL_KNOWN_MAX)
    return Status(RIPC_INVALID_ARGUMENT,
                  "A well-known ID is at most 2^62 - 1; the rest belongs to names and random IDs: pass a name, or 0.");
  options.id = given.id;
  if (given.name != nullptr) {
    if (Status status = core::check_service_name(given.name); !status.ok()) return status;
    options.name = given.name;
    if (options.id == 0) options.id = core::service_id_from_name(options.name);
  }
  if (given.queue_messages != 0) options.queue_messages = given.queue_messages;
  if (given.queue_bytes != 0) options.queue_bytes = given.queue_bytes;
  if (given.max_senders != 0) options.max_senders = given.max_senders;
  if (given.max_messages != 0) options.max_messages = given.max_messages;
  if (!is_power_of_two_between(options.queue_messages, 16, 65536))
    return Status(RIPC_INVALID_ARGUMENT, "queue_messages must be a power of two from 16 to 65536.");
  if (!is_power_of_two_between(options.queue_bytes, 4096, 64u << 20))
    return Status(RIPC_INVALID_ARGUMENT, "queue_bytes must be a power of two from 4096 to 67108864.");
  return options;
}

// Describes the record, with this one of its addresses.
ripc_service_info describe(const spi::ServiceRecord& record, const spi::Address& address) noexcept {
  auto info = blank<ripc_service_info>();
  info.id = record.id;
  info.incarnation = record.incarnation;
  info.pid = record.pid;
  copy_text(info.name, record.name);
  info.group_count = static_cast<std::uint32_t>(std::min(record.groups.size(), std::size(info.groups)));
  std::copy_n(record.groups.begin(), info.group_count, info.groups);
  if (!address.transport.empty()) {
    copy_text(info.transport, address.transport);
    copy_text(info.address, {address.transport, ":", address.locator});
  }
  return info;
}

// Takes no memory: the reports of a watch would not stay in order if one had to wait for it.
ripc_service_info describe(const core::Resolution& found) noexcept {
  const bool has_path = !found.address.transport.empty() || found.record.addresses.empty();
  ripc_service_info info = describe(found.record, has_path ? found.address : found.record.addresses.front());
  copy_text(info.reason, found.reason);
  copy_text(info.others, found.others);
  return info;
}

ripc_rail_info describe(const spi::RailReport& rail) {
  auto info = blank<ripc_rail_info>();
  copy_text(info.device, rail.device);
  copy_text(info.local, rail.local);
  copy_text(info.peer, rail.peer);
  info.bytes_sent = rail.bytes_sent;
  info.bytes_received = rail.bytes_received;
  info.rate = rail.rate;
  info.spare = rail.is_spare ? 1 : 0;
  info.connections = rail.connections;
  return info;
}

Status tell(const Result<core::Resolution>& found, const char* name, ripc_service_info* out) {
  if (!found.ok()) return found.status();
  if (name != nullptr && !found->record.name.empty() && found->record.name != name)
    return Status(RIPC_NAME_COLLISION, "The ID of '" + std::string(name) + "' is held by a service named '" +
                                           found->record.name + "': rename one of the two.");
  const ripc_service_info info = describe(*found);
  return write_sized(info, out) ? Status() : bad_size("ripc_service_info");
}

}  // namespace

}  // namespace ripc::internal::capi

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

extern "C" {

void ripc_context_options_init(ripc_context_options* options) {
  if (options == nullptr) return;
  init(options);
  options->resolve_timeout = RIPC_DEFAULT_TIME;
  options->spin = RIPC_DEFAULT_TIME;
  options->peer_policy = UINT32_MAX;
  options->network = UINT32_MAX;
  options->encrypt = UINT32_MAX;
}

ripc_status ripc_cluster_key_create(const char* file, uint32_t replace, char* path, size_t path_size) {
  return guarded([&]() -> Status {
    if (Status status = check_file(file); !status.ok()) return status;
    const std::string place = file != nullptr ? std::string(file) : default_key_path();
    if (place.empty())
      return Status(RIPC_SYSTEM,
                    "This user has no home for the cluster key: name a file, and set RIPC_CLUSTER_KEY_FILE to it.");
    if (path != nullptr && place.size() >= path_size)
      return Status(RIPC_INVALID_ARGUMENT, "There is no room for the path of the key file: pass 4096 bytes.");
    if (file == nullptr) {
      if (Status made = make_default_key_folders(); !made.ok()) return made;
    }
    Status status = make_key_file(place, replace != 0);
    if (status.ok() && path != nullptr) std::memcpy(path, place.c_str(), place.size() + 1);
    return status;
  });
}

ripc_status ripc_context_create(const ripc_context_options* options, ripc_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return RIPC_INVALID_ARGUMENT;
    *context = nullptr;
    ripc_context_options effective;
    ripc_context_options_init(&effective);
    if (!read_sized(options, effective)) return bad_size("ripc_context_options");
    Result<Settings> settings = read_settings(effective);
    if (!settings.ok()) return settings.status();
    Result<std::unique_ptr<core::Context>> composed = compose(*settings);
    if (!composed.ok()) return composed.status();
    *context = handle(std::move(*composed).release());
    return {};
  });
}

void ripc_context_destroy(ripc_context* context) {
  // In a forked child the responder thread does not exist: nothing can be ended there, and the parent continues.
  if (context == nullptr || !from(context)->usable()) return;
  if (from(context)->loop().in_loop_thread()) {
    std::fputs(
        "ripc: ripc_context_destroy() runs in a callback of the context, whose thread it would wait for: "
        "destroy it in another thread.\n",
        stderr);
    std::abort();
  }
  delete from(context);
}

void ripc_service_options_init(ripc_service_options* options) { init(options); }

void ripc_service_info_init(ripc_service_info* info) { init(info); }
void ripc_service_statistics_init(ripc_service_statistics* statistics) { init(statistics); }

ripc_status ripc_id_from_name(const char* name, ripc_service_id* id) {
  return guarded([&]() -> Status {
    if (name == nullptr || id == nullptr) return RIPC_INVALID_ARGUMENT;
    return core::id_of_name(name).move_to(*id);
  });
}

ripc_status ripc_group_id_from_name(const char* name, ripc_service_id* group) {
  return guarded([&]() -> Status {
    if (name == nullptr || group == nullptr) return RIPC_INVALID_ARGUMENT;
    return core::id_of_group(name).move_to(*group);
  });
}

ripc_status ripc_group_join(ripc_service* service, ripc_service_id group) {
  return guarded_on(service, [&](auto& self) { return self.publication().join(group); });
}

ripc_status ripc_group_leave(ripc_service* service, ripc_service_id group) {
  return guarded_on(service, [&](auto& self) { return self.publication().leave(group); });
}

ripc_status ripc_service_register(ripc_context* context, const ripc_service_options* options, ripc_service** service) {
  return guarded([&]() -> Status {
    if (service == nullptr) return RIPC_INVALID_ARGUMENT;
    *service = nullptr;
    if (const ripc_status status = check(from(context)); status != RIPC_OK) return status;
    auto given = blank<ripc_service_options>();
    if (!read_sized(options, given)) return bad_size("ripc_service_options");
    Result<core::ServiceOptions> effective = read(given);
    if (!effective.ok()) return effective.status();
    Result<core::Service*> registered = from(context)->services().add(*effective);
    if (!registered.ok()) return registered.status();
    *service = handle(*registered);
    return {};
  });
}

ripc_status ripc_service_register_many(ripc_context* context, const ripc_service_options* options, size_t count,
                                       ripc_service** services) {
  return guarded([&]() -> Status {
    if ((services == nullptr || options == nullptr) && count != 0) return RIPC_INVALID_ARGUMENT;
    std::fill_n(services, count, nullptr);
    if (const ripc_status status = check(from(context)); status != RIPC_OK) return status;
    std::vector<core::ServiceOptions> wanted;
    for (size_t index = 0; index < count; ++index) {
      // The caller may be built with another version, whose structure is smaller or larger than ours.
      const auto* const given = reinterpret_cast<const ripc_service_options*>(
          reinterpret_cast<const std::byte*>(options) + index * options->size);
      auto known = blank<ripc_service_options>();
      if (!read_sized(given, known) || given->size != options->size) return bad_size("ripc_service_options");
      Result<core::ServiceOptions> effective = read(known);
      if (!effective.ok())
        return Status(effective.status().code(),
                      "Service " + std::to_string(index) + ": " + std::string(effective.status().text()));
      wanted.push_back(std::move(*effective));
    }
    std::vector<core::Service*> registered(count);
    Status status = core::register_services(*from(context), wanted, registered);
    std::transform(registered.begin(), registered.end(), services, [](core::Service* each) { return handle(each); });
    return status;
  });
}

void ripc_service_unregister(ripc_service* service) {
  if (service == nullptr || !from(service)->context().usable()) return;
  from(service)->context().services().remove(from(service));
}

ripc_service_id ripc_service_get_id(const ripc_service* service) {
  return service == nullptr ? 0 : from(service)->id();
}

const char* ripc_service_get_name(const ripc_service* service) {
  return service == nullptr ? "" : from(service)->name().c_str();
}

uint64_t ripc_service_get_incarnation(const ripc_service* service) {
  return service == nullptr ? 0 : from(service)->incarnation();
}

ripc_context* ripc_service_get_context(const ripc_service* service) {
  if (service == nullptr) return nullptr;
  return handle(&const_cast<core::Service*>(from(service))->context());
}

ripc_status ripc_resolve(ripc_context* context, ripc_service_id id, ripc_service_info* info) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (info == nullptr) return RIPC_INVALID_ARGUMENT;
    if (Status single = check_single(id); !single.ok()) return single;
    return tell(self.paths().resolve(id), nullptr, info);
  });
}

ripc_status ripc_find_path(ripc_context* context, ripc_service_id id, ripc_service_info* info) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (info == nullptr) return RIPC_INVALID_ARGUMENT;
    if (Status single = check_single(id); !single.ok()) return single;
    return tell(self.paths().find_path(id), nullptr, info);
  });
}

ripc_status ripc_list_rails(ripc_context* context, ripc_service_id id, ripc_rail_visitor visitor, void* user) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (visitor == nullptr) return RIPC_INVALID_ARGUMENT;
    if (Status single = check_single(id); !single.ok()) return single;
    const Result<std::vector<spi::RailReport>> rails = self.paths().rails(id);
    if (!rails.ok()) return rails.status();
    for (const spi::RailReport& rail : *rails) {
      const ripc_rail_info info = describe(rail);
      visitor(user, &info);
    }
    return {};
  });
}

ripc_status ripc_resolve_name(ripc_context* context, const char* name, ripc_service_info* info) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (info == nullptr || name == nullptr) return RIPC_INVALID_ARGUMENT;
    const Result<ripc_service_id> id = core::id_of_name(name);
    if (!id.ok()) return id.status();
    return tell(self.paths().resolve(*id), name, info);
  });
}

ripc_status ripc_wait_service(ripc_context* context, ripc_service_id id, uint64_t timeout, ripc_service_info* info) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (Status single = check_single(id); !single.ok()) return single;
    const Result<core::Resolution> found = self.watches().wait(id, Deadline::after(timeout));
    return info == nullptr ? found.status() : tell(found, nullptr, info);
  });
}

ripc_status ripc_wait_service_name(ripc_context* context, const char* name, uint64_t timeout, ripc_service_info* info) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (name == nullptr) return RIPC_INVALID_ARGUMENT;
    const Result<ripc_service_id> id = core::id_of_name(name);
    if (!id.ok()) return id.status();
    auto unwanted = blank<ripc_service_info>();
    return tell(self.watches().wait(*id, Deadline::after(timeout)), name, info != nullptr ? info : &unwanted);
  });
}

ripc_status ripc_service_watch(ripc_context* context, ripc_service_id id, ripc_watch_callback callback, void* user,
                               ripc_watch** watch) {
  return guarded([&]() -> Status {
    if (watch == nullptr) return RIPC_INVALID_ARGUMENT;
    *watch = nullptr;
    if (const ripc_status status = check(from(context)); status != RIPC_OK) return status;
    if (callback == nullptr) return RIPC_INVALID_ARGUMENT;
    if (Status single = check_single(id); !single.ok()) return single;
    auto made = std::make_unique<ripc_watch>(from(context));
    auto added = from(context)->watches().add(id, [callback, user](ripc_status status, const core::Resolution& found) {
      const ripc_service_info info = describe(found);
      callback(user, status, &info);
    });
    if (!added.ok()) return added.status();
    made->watch = std::move(*added);
    *watch = made.release();
    return {};
  });
}

void ripc_service_unwatch(ripc_watch* watch) {
  const std::unique_ptr<ripc_watch> owned(watch);
  if (owned && owned->context->usable()) owned->context->watches().remove(owned->watch);
}

ripc_status ripc_group_members(ripc_context* context, ripc_service_id group, ripc_service_visitor visitor, void* user) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (visitor == nullptr) return RIPC_INVALID_ARGUMENT;
    return self.group_members(group, [&](const spi::ServiceRecord& record) {
      const ripc_service_info info = describe(record, self.paths().likely_address(record));
      visitor(user, &info);
    });
  });
}

ripc_status ripc_list_services(ripc_context* context, ripc_service_visitor visitor, void* user) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (visitor == nullptr) return RIPC_INVALID_ARGUMENT;
    return self.resolver().list([&](const spi::ServiceRecord& record) {
      const ripc_service_info info = describe(record, self.paths().likely_address(record));
      visitor(user, &info);
    });
  });
}

ripc_status ripc_service_get_statistics(ripc_service* service, ripc_service_statistics* statistics) {
  return guarded_on(service, [&](auto& self) -> Status {
    if (statistics == nullptr) return RIPC_INVALID_ARGUMENT;
    auto current = blank<ripc_service_statistics>();
    self.fill_statistics(current);
    return write_sized(current, statistics) ? Status() : bad_size("ripc_service_statistics");
  });
}

}  // extern "C"
