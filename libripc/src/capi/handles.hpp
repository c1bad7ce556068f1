// SPDX-License-Identifier: Apache-2.0
// The C handles and the C++ objects they stand for; structures that carry their size.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "base/fork_guard.hpp"
#include "capi/error.hpp"
#include "core/context.hpp"
#include "core/service.hpp"
#include "core/state/message.hpp"
#include "core/state/ticket.hpp"
#include "core/watch.hpp"
#include "ripc/ripc.h"

struct ripc_ticket {
  ripc_ticket(std::shared_ptr<ripc::internal::core::Ticket> of, ripc::internal::Nanoseconds spins) noexcept
      : ticket(std::move(of)), spin(spins) {}
  std::shared_ptr<ripc::internal::core::Ticket> ticket;
  ripc::internal::Nanoseconds spin;
  std::uint64_t fork_generation = ripc::internal::ForkGuard::known_generation();
};

struct ripc_watch {
  explicit ripc_watch(ripc::internal::core::Context* in) noexcept : context(in) {}
  ripc::internal::core::Context* context;
  ripc::internal::core::WatchTable::WatchPointer watch;
};

namespace ripc::internal::capi {

inline core::Context* from(ripc_context* handle) noexcept { return reinterpret_cast<core::Context*>(handle); }
inline core::Service* from(ripc_service* handle) noexcept { return reinterpret_cast<core::Service*>(handle); }
inline const core::Service* from(const ripc_service* handle) noexcept {
  return reinterpret_cast<const core::Service*>(handle);
}
inline core::Message* from(ripc_message* handle) noexcept { return reinterpret_cast<core::Message*>(handle); }
inline const core::Message* from(const ripc_message* handle) noexcept {
  return reinterpret_cast<const core::Message*>(handle);
}
inline core::ViewHold* from(ripc_view_hold* handle) noexcept { return reinterpret_cast<core::ViewHold*>(handle); }
inline ripc_view_hold* handle(core::ViewHold* hold) noexcept { return reinterpret_cast<ripc_view_hold*>(hold); }
inline ripc_context* handle(core::Context* context) noexcept { return reinterpret_cast<ripc_context*>(context); }
inline ripc_message* handle(core::Message* message) noexcept { return reinterpret_cast<ripc_message*>(message); }
inline ripc_service* handle(core::Service* service) noexcept { return reinterpret_cast<ripc_service*>(service); }

// RIPC_OK if calls on the handle are possible.
inline ripc_status check(core::Context* context) noexcept {
  if (context == nullptr) return RIPC_INVALID_ARGUMENT;
  return context->usable() ? RIPC_OK : RIPC_FORKED;
}
inline ripc_status check(core::Service* service) noexcept {
  if (service == nullptr) return RIPC_INVALID_ARGUMENT;
  return service->context().usable() ? RIPC_OK : RIPC_FORKED;
}
inline ripc_status check(const ripc_ticket* ticket) noexcept {
  if (ticket == nullptr) return RIPC_INVALID_ARGUMENT;
  return ForkGuard::known_generation() == ticket->fork_generation ? RIPC_OK : RIPC_FORKED;
}

// guarded() for a call on a handle: `call` gets the object, if check() accepts it.
template <typename Handle, typename Call>
ripc_status guarded_on(Handle* handle, const Call& call) noexcept {
  return guarded([&]() -> Status {
    if (const ripc_status status = check(from(handle)); status != RIPC_OK) return status;
    return call(*from(handle));
  });
}

// Reports the outcome of Service::receive().
inline ripc_status report_receive(ripc_status status) noexcept {
  if (status == RIPC_INVALID_ARGUMENT) [[unlikely]]
    return report(Status(status, "Another thread receives from this service: one at a time."));
  return report(status);
}

// Initialises the caller's structure in place: copying bytes that were just written in other pieces costs a stall.
template <typename T>
void init(T* structure) noexcept {
  if (structure == nullptr) return;
  std::memset(static_cast<void*>(structure), 0, sizeof *structure);
  structure->size = sizeof *structure;
}

// A structure with its size set, and everything else zero.
template <typename T>
T blank() noexcept {
  T structure;
  init(&structure);
  return structure;
}

// For callers built with an older or newer library: reads the fields that both know into `to`, whose other fields keep
// their defaults. False if the size cannot be right.
template <typename T>
bool read_sized(const T* given, T& to) noexcept {
  if (given == nullptr) return true;
  if (given->size == sizeof(T)) [[likely]] {
    to = *given;
    return true;
  }
  if (given->size < sizeof(std::size_t) || given->size > 65536) return false;
  const std::size_t size = given->size < sizeof(T) ? given->size : sizeof(T);
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(given), size);
  to.size = sizeof(T);
  return true;
}

// The other way round: fills as much of the caller's structure as it has.
template <typename T>
bool write_sized(const T& from, T* to) noexcept {
  if (to == nullptr || to->size < sizeof(std::size_t) || to->size > 65536) return false;
  const std::size_t size = to->size;
  std::memcpy(static_cast<void*>(to), static_cast<const void*>(&from), size < sizeof(T) ? size : sizeof(T));
  to->size = size;
  return true;
}

inline Status bad_size(const char* structure) {
  return Status(RIPC_INVALID_ARGUMENT, std::string("The size of the ") + structure +
                                           " structure is not set: fill it with its _init function, or set `size` to "
                                           "its sizeof.");
}

// Copies texts, one after the other, into a fixed field, always terminated; if it is cut, it ends with "...".
template <std::size_t Size>
void copy_text(char (&to)[Size], std::initializer_list<std::string_view> texts) noexcept {
  std::size_t length = 0;
  for (const std::string_view text : texts) {
    const std::size_t taken = std::min(text.size(), Size - 1 - length);
    std::copy_n(text.begin(), taken, to + length);
    length += taken;
    if (taken < text.size()) std::fill_n(to + length - 3, 3, '.');
  }
  to[length] = '\0';
}
template <std::size_t Size>
void copy_text(char (&to)[Size], std::string_view text) noexcept {
  copy_text(to, {text});
}

}  // namespace ripc::internal::capi
