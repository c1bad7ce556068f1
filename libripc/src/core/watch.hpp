// SPDX-License-Identifier: Apache-2.0
// Watching services by ID: callbacks when one appears and when it ends, and waiting until one appears.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::internal::core {

class Context;
struct Resolution;

// Has one thread, from the first watch on. It looks at a service when a resolver or a transport says that something has
// changed. It also looks now and then at those that are not there, as no resolver learns of everything.
class WatchTable {
 public:
  // RIPC_OK: the service has appeared; else why it ended, with what it was. Of a service that is sought: why it was not
  // found.
  using Callback = std::function<void(ripc_status, const Resolution&)>;
  class Watch;
  using WatchPointer = std::shared_ptr<Watch>;

  explicit WatchTable(Context& context) : context_(context) {}
  ~WatchTable() { stop(); }

  // Any thread. The callback runs in the responder, outside of nested loops. RIPC_NO_MEMORY, RIPC_SYSTEM (no thread).
  Result<WatchPointer> add(ripc_service_id id, Callback callback);
  // Any thread. The callback runs in the table's thread after each look, also at what is not there, until the watch is
  // removed; it may run once more meanwhile. Of a group, it tells whether there are members.
  Result<WatchPointer> seek(ripc_service_id id, Callback callback);
  // Any thread. When it returns the callback does not run and never will; from inside it, the run that is under way is
  // the last.
  void remove(const WatchPointer& watch) noexcept;

  // Any thread. Until the service is there and can be reached; the first look is made in any case. RIPC_INTERRUPTED, or
  // why it is not there.
  Result<Resolution> wait(ripc_service_id id, Deadline deadline);

  // Any thread. The service may have appeared, moved or ended; 0: any of them.
  void changed(ripc_service_id id) noexcept;
  // Responder.
  void channel_lost(const spi::Channel& channel, ripc_status why) noexcept;
  // Ends the thread: no one is notified any more. Only changed() and channel_lost() may run meanwhile, or follow.
  void stop() noexcept;

 private:
  enum class Where { responder, table_thread };
  Result<WatchPointer> add(ripc_service_id id, Callback callback, Where where);
  Status start_locked();
  void run() noexcept;
  void check(const WatchPointer& watch);
  void look_at_group(const WatchPointer& watch);
  void tell(const WatchPointer& watch, ripc_status status, const Resolution& resolution);
  void run_callback(const WatchPointer& watch, ripc_status status, const Resolution& resolution);

  Context& context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<WatchPointer> watches_;
  std::once_flag observes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ripc::internal::core
