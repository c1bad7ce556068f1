// SPDX-License-Identifier: Apache-2.0
// Buffers and registrations of the C interface.
#include "capi/error.hpp"
#include "capi/handles.hpp"

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

extern "C" {

ripc_status ripc_buffer_lease(ripc_context* context, size_t size, void** data) {
  return guarded([&]() -> Status {
    if (data == nullptr) return RIPC_INVALID_ARGUMENT;
    *data = nullptr;
    if (const ripc_status status = check(from(context)); status != RIPC_OK) return status;
    return from(context)->pool().lease(size).move_to(*data);
  });
}

ripc_status ripc_buffer_release(ripc_context* context, void* data) {
  return guarded_on(context, [&](auto& self) { return self.pool().release(data); });
}

ripc_status ripc_buffer_find(ripc_context* context, const void* address, void** data, size_t* size) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (data == nullptr || size == nullptr) return RIPC_INVALID_ARGUMENT;
    Result<std::span<std::byte>> found = self.pool().find(address);
    if (!found.ok()) return found.status();
    *data = found->data();
    *size = found->size();
    return {};
  });
}

ripc_status ripc_memory_register(ripc_context* context, void* data, size_t size) {
  return guarded_on(context, [&](auto& self) { return self.pool().register_memory(data, size); });
}

ripc_status ripc_memory_unregister(ripc_context* context, void* data) {
  return guarded_on(context, [&](auto& self) { return self.unregister_memory(data); });
}

void ripc_pool_statistics_init(ripc_pool_statistics* statistics) { init(statistics); }

ripc_status ripc_pool_get_statistics(ripc_context* context, ripc_pool_statistics* statistics) {
  return guarded_on(context, [&](auto& self) -> Status {
    if (statistics == nullptr) return RIPC_INVALID_ARGUMENT;
    auto current = blank<ripc_pool_statistics>();
    self.pool().fill_statistics(current);
    return write_sized(current, statistics) ? Status() : bad_size("ripc_pool_statistics");
  });
}

}  // extern "C"
