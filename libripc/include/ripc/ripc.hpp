// SPDX-License-Identifier: Apache-2.0
// libripc for C++20: message passing by service ID. Header-only, over ripc.h and nothing else.
//
//   auto context = ripc::Context::create();
//   auto service = context->register_service({.name = "echo"});
//   while (auto message = service->receive())
//     (void)service->reply(*message, message->item(0).bytes());
//
// The bytes to send may be temporary, or part of the message being answered. By the time send() and reply() return,
// they have copied whatever the receiver has not read. Only borrow() makes no copy: its memory must last until the
// Ticket completes.
//
// These rules hold for every declaration, unless its own comment says otherwise.
//
//   Ownership  Context, Service, Message, Ticket, Buffer, Registration, Notification and Watch are move-only. Each owns
//              one handle. Destroy everything made from a Context before the Context itself: declare the Context first.
//   Threads    Any thread may call; one thread at a time receives from one service. Calls on an object must not overlap
//              its move or destruction.
//   Errors     No exceptions: Error or Result (ripc/error.hpp). An empty object (default-made or moved-from) gives
//              RIPC_INVALID_ARGUMENT. Functions that take or return std::string, std::vector or std::function may
//              throw std::bad_alloc. send(), reply(), notify() and receive() never allocate here.
//   Callbacks  Run in the context's responder thread. They must not throw, and must not destroy the context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ripc/error.hpp"
#include "ripc/identity.hpp"
#include "ripc/message.hpp"
#include "ripc/service.hpp"

namespace ripc {

namespace detail {
// The C interface reads a string only up to its first zero byte, so a name that contains one is replaced by an invalid
// name.
inline const char* c_name(const std::string& name) noexcept {
  return name.find('\0') == std::string::npos ? name.c_str() : "\x01";
}
}  // namespace detail

// The ID of a name. RIPC_INVALID_ARGUMENT if the name is not valid.
inline Result<ServiceId> id_from_name(const std::string& name) noexcept {
  ServiceId id = 0;
  const ripc_status status = ripc_id_from_name(detail::c_name(name), &id);
  if (status != RIPC_OK) return Error::from_last_call(status);
  return id;
}

// The ID of a group with a name, for send() and join(). RIPC_INVALID_ARGUMENT if the name is not valid.
inline Result<ServiceId> group_id_from_name(const std::string& name) noexcept {
  ServiceId group = 0;
  const ripc_status status = ripc_group_id_from_name(detail::c_name(name), &group);
  if (status != RIPC_OK) return Error::from_last_call(status);
  return group;
}

// The library's version, "MAJOR.MINOR.PATCH". Static.
inline const char* version() noexcept { return ripc_version(); }

// ---- Options and results -------------------------------------------------------------------------------------

// How the library is started. A field that is not set selects the default of ripc_context_options.
struct ContextOptions {
  std::string runtime_directory = {};
  std::string transports = {};  // comma-separated, first is preferred
  std::string static_resolver = {};
  std::uint64_t pool_limit = 0;                // bytes
  Nanoseconds resolve_timeout = kDefaultTime;  // 1 second; at most an hour
  Nanoseconds spin = kDefaultTime;             // how long a wait polls before it sleeps: $RIPC_SPIN_US, else adaptive
  std::uint32_t peer_policy = UINT32_MAX;      // ripc_peer_policy
  std::uint32_t max_peers = 0;
  std::string cluster_key_file = {};
  std::uint32_t network = UINT32_MAX;  // ripc_network
  std::string zookeeper = {};          // HOST:PORT,...[/FOLDER]
  std::string identity_file = {};
  std::string trust_file = {};
  std::uint32_t encrypt = UINT32_MAX;  // ripc_encrypt
};

// A living service, as Context::resolve() and Context::services() return it.
struct ServiceInfo {
  ServiceId id = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t pid = 0;  // of the holder, as the holder published it; 0 if unknown
  std::string name;       // "" if it has none
  std::string transport;  // of the address
  std::string address;    // transport:locator; a send tries this one first
  std::string reason;     // why this path
  std::string others;     // find_path(): the other paths and why each is not used
  std::vector<ServiceId> groups;

  static ServiceInfo from_c(const ripc_service_info& info) {
    return {info.id,     info.incarnation, info.pid,
            info.name,   info.transport,   info.address,
            info.reason, info.others,      {info.groups, info.groups + info.group_count}};
  }
};

// One of the ways by which long items reach, or could reach, another host, as Context::rails() returns it. A side that
// mostly sends knows only TCP's estimate of the rate, which may be far too high where it sends little.
struct RailInfo {
  std::string device;  // of this host: a network interface, or an RDMA device; "": the interface is gone
  std::string local;   // addresses
  std::string peer;
  std::uint64_t bytes_sent = 0;  // with protocol overhead; over RDMA only what this side itself reads and writes
  std::uint64_t bytes_received = 0;
  std::uint64_t rate = 0;         // bytes per second, as last measured; 0: not measured yet
  bool spare = false;             // less than a quarter of the fastest rate: a receiving side does not use it
  std::uint32_t connections = 0;  // open over this rail now
};

// One finding of diagnose(). Several may have the same subject. Texts that are too long end with "...".
struct Finding {
  std::uint32_t level = 0;  // 0 good, 1 works but slower or limited, 2 broken
  std::string subject;
  std::string text;    // what was found
  std::string advice;  // what to do; "" if nothing
};

namespace detail {

struct BufferRelease {
  void operator()(std::byte* data) const noexcept { (void)ripc_buffer_release(context, data); }
  ripc_context* context = nullptr;
  std::size_t size = 0;
};

struct MemoryUnregister {
  void operator()(void* data) const noexcept { (void)ripc_memory_unregister(context, data); }
  ripc_context* context = nullptr;
};

// The callback must outlive the watch.
struct Unwatch {
  void operator()(ripc_watch* handle) const noexcept { ripc_service_unwatch(handle); }
  std::shared_ptr<void> callback{};
};

}  // namespace detail

// ---- Buffer --------------------------------------------------------------------------------------------------

// A lease of registered memory from the context's pool. The destructor ends the lease. The library keeps memory that a
// ticket still needs until the ticket completes.
class Buffer {
 public:
  Buffer() noexcept = default;

  bool empty() const noexcept { return data_ == nullptr; }
  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return empty() ? 0 : data_.get_deleter().size; }  // as requested
  WritableBytes bytes() const noexcept { return {data(), size()}; }
  void release() noexcept { data_.reset(); }
  // The lease was given away with a message (given_item): this object no longer owns it.
  void detach() noexcept { (void)data_.release(); }

 private:
  friend class Context;
  Buffer(ripc_context* context, std::byte* data, std::size_t size) noexcept : data_(data, {context, size}) {}

  std::unique_ptr<std::byte, detail::BufferRelease> data_;
};

// The registration of memory that the application owns. The destructor ends it. After that nothing reads the memory,
// and messages whose bytes are still being read from it fail with RIPC_CANCELLED. Destroy it before the memory.
class Registration {
 public:
  Registration() noexcept = default;

  bool empty() const noexcept { return data_ == nullptr; }
  void unregister() noexcept { data_.reset(); }

 private:
  friend class Context;
  Registration(ripc_context* context, void* data) noexcept : data_(data, {context}) {}

  std::unique_ptr<void, detail::MemoryUnregister> data_;
};

// ---- Watch ---------------------------------------------------------------------------------------------------

// Runs in the responder thread. The program ends if there is no memory for the strings in its arguments.
using WatchCallback = std::function<void(ripc_status status, const ServiceInfo& info)>;

// The result of Context::watch(). The destructor ends the watch; after that the callback does not run. Inside the
// callback, the destructor returns at once. The callback may run before watch() has returned.
class Watch {
 public:
  Watch() noexcept = default;

  bool empty() const noexcept { return handle_ == nullptr; }
  void end() noexcept { handle_ = {}; }

 private:
  friend class Context;
  struct Callback : std::enable_shared_from_this<Callback> {
    explicit Callback(WatchCallback function) : call(std::move(function)) {}
    static void run(void* user, ripc_status status, const ripc_service_info* info) noexcept {
      // The callback may end its own watch.
      const auto self = static_cast<Callback*>(user)->shared_from_this();
      self->call(status, ServiceInfo::from_c(*info));
    }
    WatchCallback call;
  };

  Watch(ripc_watch* handle, std::shared_ptr<Callback> callback) noexcept : handle_(handle, {std::move(callback)}) {}

  std::unique_ptr<ripc_watch, detail::Unwatch> handle_;
};

// ---- Context -------------------------------------------------------------------------------------------------

// The library in one process: transports, pool, resolver and the responder thread. Several contexts of one process are
// independent peers. After fork() the child makes its own; calls on the parent's give RIPC_FORKED.
class Context {
 public:
  // Starts the library. RIPC_PERMISSION, RIPC_REFUSED, RIPC_UNSUPPORTED, RIPC_LIMIT, RIPC_NO_DESCRIPTORS,
  // RIPC_NO_MEMORY, RIPC_INVALID_ARGUMENT, RIPC_SYSTEM: ripc_context_create().
  static Result<Context> create(const ContextOptions& options = {}) noexcept {
    if (has_zero(options)) return detail::zero_in_text();
    const ripc_context_options c_options = to_c(options);
    ripc_context* handle = nullptr;
    const ripc_status status = ripc_context_create(&c_options, &handle);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Context(handle);
  }

  Context() noexcept = default;
  // Takes ownership of a handle from ripc_context_create().
  explicit Context(ripc_context* handle) noexcept : handle_(handle) {}

  bool empty() const noexcept { return handle_ == nullptr; }
  // Ends the context now. Everything made from it must be gone.
  void destroy() noexcept { handle_.reset(); }
  // Borrowed, for calls into ripc.h.
  ripc_context* handle() const noexcept { return handle_.get(); }

  // Registers a service. When this returns, other processes can find it. RIPC_ID_IN_USE, RIPC_NAME_COLLISION,
  // RIPC_PERMISSION, RIPC_LIMIT and others: ripc_service_register().
  Result<Service> register_service(const ServiceOptions& options = {}) noexcept {
    const ripc_service_options c_options = to_c(options);
    ripc_service* service = nullptr;
    const ripc_status status = ripc_service_register(handle_.get(), &c_options, &service);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Service(service);
  }
  // Registers many services together, in the time that one takes: either all, in the order of `options`, or none.
  // Errors as above.
  Result<std::vector<Service>> register_services(std::span<const ServiceOptions> options) {
    std::vector<ripc_service_options> c_options;
    for (const ServiceOptions& each : options) c_options.push_back(to_c(each));
    std::vector<ripc_service*> handles(options.size());
    std::vector<Service> services;
    services.reserve(options.size());
    const ripc_status status =
        ripc_service_register_many(handle_.get(), c_options.data(), c_options.size(), handles.data());
    if (status != RIPC_OK) return Error::from_last_call(status);
    for (ripc_service* each : handles) services.emplace_back(each);
    return services;
  }

  // Finds a living service. RIPC_NO_SERVICE within the resolve timeout, or another status of ripc_resolve(); by name
  // also RIPC_NAME_COLLISION.
  Result<ServiceInfo> resolve(ServiceId id) {
    return ask([&](ripc_service_info* info) { return ripc_resolve(handle_.get(), id, info); });
  }
  Result<ServiceInfo> resolve(const std::string& name) {
    return ask([&](ripc_service_info* info) { return ripc_resolve_name(handle_.get(), detail::c_name(name), info); });
  }
  // Finds the path that a send to a living service takes, and connects if necessary. Errors as for resolve(). If no
  // path works, returns the error of the last one tried, such as RIPC_PEER_DEAD, RIPC_REFUSED or RIPC_TIMEOUT.
  Result<ServiceInfo> find_path(ServiceId id) {
    return ask([&](ripc_service_info* info) { return ripc_find_path(handle_.get(), id, info); });
  }
  // Waits until a living service has this ID, or this name, and a path to it works. Returns at once if it is already
  // there; kNoWait looks only once. RIPC_INTERRUPTED. After the timeout: RIPC_NO_SERVICE if there is no such service,
  // else the errors of find_path(); by name also RIPC_NAME_COLLISION.
  Result<ServiceInfo> wait_service(ServiceId id, Nanoseconds timeout = kForever) {
    return ask(
        [&](ripc_service_info* info) { return ripc_wait_service(handle_.get(), id, detail::to_c(timeout), info); });
  }
  Result<ServiceInfo> wait_service(const std::string& name, Nanoseconds timeout = kForever) {
    return ask([&](ripc_service_info* info) {
      return ripc_wait_service_name(handle_.get(), detail::c_name(name), detail::to_c(timeout), info);
    });
  }
  // Watches the service with this ID. The callback runs alternately when the service is there (also if it is already)
  // and when it has ended. No message needs to be sent to find out. The result owns the watch and the callback.
  // RIPC_NO_MEMORY, RIPC_SYSTEM.
  //
  // The callback's status is RIPC_OK if the service is there. RIPC_CLOSED: its holder unregistered it, or lost the ID.
  // RIPC_PEER_DEAD: its process ended, or cannot be reached any more. RIPC_FENCED: a newer registration has the ID; the
  // next call reports it.
  Result<Watch> watch(ServiceId id, WatchCallback callback) {
    if (!callback) return detail::no_function();
    auto shared = std::make_shared<Watch::Callback>(std::move(callback));
    ripc_watch* watch = nullptr;
    const ripc_status status = ripc_service_watch(handle_.get(), id, &Watch::Callback::run, shared.get(), &watch);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Watch(watch, std::move(shared));
  }
  // Every living service that the resolvers can list.
  Result<std::vector<ServiceInfo>> services() {
    detail::Collected<ServiceInfo> collected;
    const ripc_status status = ripc_list_services(handle_.get(), &Context::collect, &collected);
    return std::move(collected).finish(status);
  }
  // Every rail that leads to the process of a living service, as ripc_list_rails() describes. Errors as for
  // find_path().
  Result<std::vector<RailInfo>> rails(ServiceId id) {
    detail::Collected<RailInfo> collected;
    const ripc_status status = ripc_list_rails(handle_.get(), id, &Context::collect_rail, &collected);
    return std::move(collected).finish(status);
  }
  // Every living member of a group. RIPC_INVALID_ARGUMENT: the ID is not a group's.
  Result<std::vector<ServiceInfo>> members(ServiceId group) {
    detail::Collected<ServiceInfo> collected;
    const ripc_status status = ripc_group_members(handle_.get(), group, &Context::collect, &collected);
    return std::move(collected).finish(status);
  }

  // Leases at least `size` bytes, aligned to 64 bytes (4096 from 4 KiB on), contents undefined. RIPC_NO_MEMORY: the
  // pool limit is reached.
  Result<Buffer> lease(std::size_t size) noexcept {
    void* data = nullptr;
    const ripc_status status = ripc_buffer_lease(handle_.get(), size, &data);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Buffer(handle_.get(), static_cast<std::byte*>(data), size);
  }
  // The lease or registration that contains `address`; borrowed. RIPC_INVALID_ARGUMENT if none does.
  Result<WritableBytes> find_buffer(const void* address) noexcept {
    void* data = nullptr;
    std::size_t size = 0;
    const ripc_status status = ripc_buffer_find(handle_.get(), address, &data, &size);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return WritableBytes(static_cast<std::byte*>(data), size);
  }
  // Registers memory that the application owns, so that long sends from it need no set-up.
  Result<Registration> register_memory(WritableBytes memory) noexcept {
    const ripc_status status = ripc_memory_register(handle_.get(), memory.data(), memory.size());
    if (status != RIPC_OK) return Error::from_last_call(status);
    return Registration(handle_.get(), memory.data());
  }
  Result<ripc_pool_statistics> pool_statistics() noexcept {
    ripc_pool_statistics statistics;
    ripc_pool_statistics_init(&statistics);
    const ripc_status status = ripc_pool_get_statistics(handle_.get(), &statistics);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return statistics;
  }

  // What this context has refused.
  Result<ripc_security_statistics> security_statistics() noexcept {
    ripc_security_statistics statistics;
    ripc_security_statistics_init(&statistics);
    const ripc_status status = ripc_security_get_statistics(handle_.get(), &statistics);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return statistics;
  }
  // Whether the trust file on the disk is in force; the error says what to fix.
  Error trust_status() noexcept {
    const ripc_status status = ripc_trust_status(handle_.get());
    return status == RIPC_OK ? Error() : Error::from_last_call(status);
  }

  // Posts a window that any service of this context may use, after its own. Otherwise like Service::post_window().
  Error post_window(WritableBytes window, std::uint64_t cookie = 0) noexcept {
    const ripc_status status = ripc_context_window_post(handle_.get(), window.data(), window.size(), cookie);
    return status == RIPC_OK ? Error() : Error::from_last_call(status);
  }
  Result<std::size_t> withdraw_windows(std::uint64_t cookie) noexcept {
    std::size_t count = 0;
    const ripc_status status = ripc_context_window_withdraw(handle_.get(), cookie, &count);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return count;
  }

  // Checks this machine and this process for what a context with these options needs: ripc_diagnose(). Needs no
  // context. Succeeds even if something is broken: the levels of the findings say so. It takes a few tenths of a
  // second. With a ZooKeeper ensemble it takes a few seconds, plus one for each server that does not answer.
  // RIPC_INVALID_ARGUMENT, RIPC_NO_MEMORY, RIPC_SYSTEM.
  static Result<std::vector<Finding>> diagnose(const ContextOptions& options = {}) {
    if (has_zero(options)) return detail::zero_in_text();
    const ripc_context_options c_options = to_c(options);
    detail::Collected<Finding> collected;
    const ripc_status status = ripc_diagnose(
        &c_options,
        [](void* user, const ripc_finding* finding) {
          static_cast<detail::Collected<Finding>*>(user)->add([&] {
            return Finding{finding->level, finding->subject, finding->text, finding->advice};
          });
        },
        &collected);
    return std::move(collected).finish(status);
  }

 private:
  static void collect(void* user, const ripc_service_info* info) {
    static_cast<detail::Collected<ServiceInfo>*>(user)->add([&] { return ServiceInfo::from_c(*info); });
  }

  static void collect_rail(void* user, const ripc_rail_info* rail) {
    static_cast<detail::Collected<RailInfo>*>(user)->add([&] {
      return RailInfo{rail->device,         rail->local, rail->peer,       rail->bytes_sent,
                      rail->bytes_received, rail->rate,  rail->spare != 0, rail->connections};
    });
  }

  static bool has_zero(const ContextOptions& options) noexcept {
    return detail::has_zero(options.runtime_directory) || detail::has_zero(options.transports) ||
           detail::has_zero(options.static_resolver) || detail::has_zero(options.cluster_key_file) ||
           detail::has_zero(options.zookeeper) || detail::has_zero(options.identity_file) ||
           detail::has_zero(options.trust_file);
  }

  // These borrow the strings of `options`.
  static ripc_service_options to_c(const ServiceOptions& options) noexcept {
    ripc_service_options result;
    ripc_service_options_init(&result);
    result.id = options.id;
    result.name = options.name.empty() ? nullptr : detail::c_name(options.name);
    result.takeover = options.takeover ? 1 : 0;
    result.queue_messages = options.queue_messages;
    result.queue_bytes = options.queue_bytes;
    result.max_senders = options.max_senders;
    result.max_messages = options.max_messages;
    return result;
  }
  static ripc_context_options to_c(const ContextOptions& options) noexcept {
    const auto or_null = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    ripc_context_options result;
    ripc_context_options_init(&result);
    result.runtime_directory = or_null(options.runtime_directory);
    result.transports = or_null(options.transports);
    result.static_resolver = or_null(options.static_resolver);
    result.pool_limit = options.pool_limit;
    result.resolve_timeout = detail::option_to_c(options.resolve_timeout);
    result.spin = detail::option_to_c(options.spin);
    result.peer_policy = options.peer_policy;
    result.max_peers = options.max_peers;
    result.cluster_key_file = or_null(options.cluster_key_file);
    result.network = options.network;
    result.zookeeper = or_null(options.zookeeper);
    result.identity_file = or_null(options.identity_file);
    result.trust_file = or_null(options.trust_file);
    result.encrypt = options.encrypt;
    return result;
  }
  template <typename Call>
  static Result<ServiceInfo> ask(Call call) {
    ripc_service_info info;
    ripc_service_info_init(&info);
    const ripc_status status = call(&info);
    if (status != RIPC_OK) return Error::from_last_call(status);
    return ServiceInfo::from_c(info);
  }

  detail::Owner<ripc_context, ripc_context_destroy> handle_;
};

}  // namespace ripc
