// SPDX-License-Identifier: Apache-2.0
// Calls, of the C interface.
#include <algorithm>
#include <memory>

#include "capi/error.hpp"
#include "capi/handles.hpp"
#include "capi/rpc_handle.hpp"
#include "ripc/rpc.h"

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

namespace {

constexpr Nanoseconds kDefaultCallTimeout = 5'000'000'000;
// From this time on, the rough clock is wrong by at most one part in a hundred.
constexpr Nanoseconds kLongTimeout = 1'000'000'000;
// Each worker is a thread.
constexpr std::uint32_t kMaxWorkers = 1024;

std::uint32_t or_default(std::uint32_t given, std::uint32_t value) noexcept { return given != 0 ? given : value; }

Status read_options(const ripc_rpc_options* given, rpc::Endpoint::Options& options) {
  auto known = blank<ripc_rpc_options>();
  if (!read_sized(given, known)) return bad_size("ripc_rpc_options");
  options.client.slots = or_default(known.slots, options.client.slots);
  options.client.queue = or_default(known.queue, options.client.queue);
  options.server.max_sessions = or_default(known.max_sessions, options.server.max_sessions);
  options.workers = known.workers;
  options.worker_queue = or_default(known.worker_queue, options.worker_queue);
  options.is_recorded = known.recorded != 0;
  if (!std::has_single_bit(options.client.slots) || options.client.slots > RIPC_RPC_MAX_SLOTS)
    return Status(RIPC_INVALID_ARGUMENT, "slots is a power of 2, from 1 to 256.");
  if (options.workers > kMaxWorkers) return Status(RIPC_INVALID_ARGUMENT, "An endpoint has at most 1024 workers.");
  return {};
}

void end_without_answer(ripc_request* request, ripc_status status, wire::call::State outcome) noexcept {
  if (is_over(request) || !request->server->usable()) return;
  request->server->drop(*request, status != RIPC_OK ? status : RIPC_CANCELLED, outcome);
}

// Whether some item may travel long: only then is there a ticket.
bool may_travel_long(std::span<const ripc_item> items) noexcept {
  constexpr std::size_t kSurelyShort = 1024;  // on every path
  std::size_t size = 0;
  for (const ripc_item& item : items) {
    if (item.kind == RIPC_ITEM_LONG || item.kind == RIPC_ITEM_RETURN) return true;
    size += item.size;
  }
  return size > kSurelyShort;
}

Status make_request(rpc::Endpoint& endpoint, ripc_service_id to, std::uint32_t method, const ripc_item* items,
                    std::size_t count, const ripc_call_options* given, rpc::CallRequest& request) {
  if (items == nullptr && count != 0)
    return Status(RIPC_INVALID_ARGUMENT, "There is a count of arguments but no array.");
  ripc_call_options options;
  ripc_call_options_init(&options);
  if (!read_sized(given, options)) return bad_size("ripc_call_options");
  if (options.returns == nullptr && options.return_count != 0)
    return Status(RIPC_INVALID_ARGUMENT, "There is a count of return buffers but no array.");
  Nanoseconds timeout = options.timeout != RIPC_DEFAULT_TIME ? options.timeout : kDefaultCallTimeout;
  if (options.parent != nullptr) {
    timeout = std::min(timeout, ripc_request_time_left(options.parent));
    if (timeout == 0) return Status(RIPC_TIMEOUT, "The call that this one is made for has no time left: end it.");
  }
  request.to = to;
  request.method = method;
  request.items = {items, count};
  request.returns = {options.returns, options.return_count};
  request.is_rough = timeout >= kLongTimeout;
  request.now = request.is_rough ? endpoint.rough_now() : endpoint.now();
  request.deadline = Deadline::after(timeout, request.now).at();
  request.is_idempotent = options.idempotent != 0;
  request.loan_ended = options.loan_ended;
  request.loan_user = options.loan_user;
  return {};
}

}  // namespace

extern "C" {

void ripc_rpc_options_init(ripc_rpc_options* options) { init(options); }
void ripc_call_result_init(ripc_call_result* result) { init(result); }
void ripc_rpc_statistics_init(ripc_rpc_statistics* statistics) { init(statistics); }
void ripc_call_options_init(ripc_call_options* options) {
  if (options == nullptr) return;
  init(options);
  options->timeout = RIPC_DEFAULT_TIME;
}

ripc_status ripc_rpc_create(ripc_service* service, const ripc_rpc_options* options, ripc_rpc** rpc) {
  return guarded_on(service, [&](core::Service& self) -> Status {
    if (rpc == nullptr) return RIPC_INVALID_ARGUMENT;
    *rpc = nullptr;
    rpc::Endpoint::Options read;
    if (Status status = read_options(options, read); !status.ok()) return status;
    read.server.spin = self.context().spin().any_peer();
    Result<std::unique_ptr<rpc::Endpoint>> endpoint = rpc::Endpoint::create(self, read);
    if (!endpoint.ok()) return endpoint.status();
    *rpc = reinterpret_cast<ripc_rpc*>(endpoint->release());
    return {};
  });
}

void ripc_rpc_destroy(ripc_rpc* rpc) {
  // In a forked child its workers do not exist, and its calls are the parent's.
  if (rpc != nullptr && from(rpc)->service().context().usable()) delete from(rpc);
}

// ---- Answering -----------------------------------------------------------------------------------------------

ripc_status ripc_rpc_handle(ripc_rpc* rpc, uint32_t method, uint32_t flags, ripc_rpc_handler handler, void* user) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    if ((flags & ~std::uint32_t{RIPC_RPC_WORKER}) != 0) return RIPC_INVALID_ARGUMENT;
    return self.handle(method, {handler, user, (flags & RIPC_RPC_WORKER) != 0});
  });
}

ripc_service_id ripc_request_get_source(const ripc_request* request) {
  return is_over(request) ? 0 : request->message->source;
}

uint32_t ripc_request_get_method(const ripc_request* request) { return is_over(request) ? 0 : request->method; }

size_t ripc_request_get_item_count(const ripc_request* request) { return is_over(request) ? 0 : request->items.size(); }

ripc_status ripc_request_get_item(const ripc_request* request, size_t index, ripc_item_view* view) {
  if (view == nullptr || index >= ripc_request_get_item_count(request)) return report(RIPC_INVALID_ARGUMENT);
  *view = request->items[index];
  return RIPC_OK;
}

size_t ripc_request_get_return_count(const ripc_request* request) {
  return is_over(request) ? 0 : ripc_message_get_return_count(reinterpret_cast<ripc_message*>(request->message));
}

size_t ripc_request_get_return_size(const ripc_request* request, size_t index) {
  if (is_over(request)) return 0;
  return ripc_message_get_return_size(reinterpret_cast<ripc_message*>(request->message), index);
}

uint64_t ripc_request_time_left(const ripc_request* request) {
  return is_over(request) || !request->server->usable() ? 0 : request->server->time_left(*request);
}

ripc_status ripc_request_reply(ripc_request* request, uint32_t code, const ripc_item* items, size_t count,
                               ripc_ticket** ticket) {
  return guarded([&]() -> Status {
    if (ticket != nullptr) *ticket = nullptr;
    if (request == nullptr || (items == nullptr && count != 0)) return RIPC_INVALID_ARGUMENT;
    if (is_over(request))
      return Status(RIPC_INVALID_ARGUMENT, "This request has ended: answer, drop or refuse each request once.");
    if (!request->server->usable()) return RIPC_FORKED;
    std::unique_ptr<ripc_ticket> made;
    if (ticket != nullptr && may_travel_long({items, count}))
      made = std::make_unique<ripc_ticket>(nullptr, request->server->options().spin);
    Status status = request->server->reply(*request, code, {items, count}, made ? &made->ticket : nullptr);
    if (status.ok() && made && made->ticket) *ticket = made.release();
    return status;
  });
}

void ripc_request_drop(ripc_request* request, ripc_status status) {
  end_without_answer(request, status, wire::call::State::may_have_run);
}

void ripc_request_refuse(ripc_request* request, ripc_status status) {
  end_without_answer(request, status, wire::call::State::not_run);
}

// ---- Calling -------------------------------------------------------------------------------------------------

ripc_status ripc_rpc_call(ripc_rpc* rpc, ripc_service_id to, uint32_t method, const ripc_item* items, size_t count,
                          const ripc_call_options* options, ripc_call_done done, void* user, uint64_t* call) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    rpc::CallRequest request;
    if (Status made = make_request(self, to, method, items, count, options, request); !made.ok()) return made;
    request.done = done;
    request.user = user;
    return self.call(request, call);
  });
}

ripc_status ripc_rpc_call_wait(ripc_rpc* rpc, ripc_service_id to, uint32_t method, const ripc_item* items, size_t count,
                               const ripc_call_options* options, ripc_call_result* result) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    auto ended = blank<ripc_call_result>();
    if (!write_sized(ended, result)) return bad_size("ripc_call_result");
    rpc::CallRequest request;
    if (Status made = make_request(self, to, method, items, count, options, request); !made.ok()) return made;
    if (Status status = self.call_and_wait(request, ended); !status.ok()) return status;
    (void)write_sized(ended, result);
    return {};
  });
}

ripc_status ripc_rpc_cancel(ripc_rpc* rpc, uint64_t call) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) { return self.cancel(call); });
}

ripc_status ripc_rpc_run(ripc_rpc* rpc, uint64_t timeout, size_t* events) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    std::size_t count = 0;
    Status status = self.run(timeout, count);
    if (events != nullptr) *events = count;
    return status;
  });
}

ripc_status ripc_rpc_get_statistics(ripc_rpc* rpc, ripc_rpc_statistics* statistics) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    if (!write_sized(self.statistics(), statistics)) return bad_size("ripc_rpc_statistics");
    return {};
  });
}

ripc_status ripc_rpc_list_methods(ripc_rpc* rpc, ripc_rpc_method_visitor visitor, void* user) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    if (visitor == nullptr) return RIPC_INVALID_ARGUMENT;
    for (const auto& [method, statistics] : self.methods()) visitor(user, &statistics);
    return {};
  });
}

}  // extern "C"
