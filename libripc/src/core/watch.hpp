// SPDX-License-Identifier: Apache-2.0
// Watches services by ID: runs callbacks when one appears and when it ends, and waits until one appears.
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

// Has one thread, which starts with the first watch. It checks a service when a resolver or a transport reports a
// change. It also checks missing services now and then, because no resolver learns of everything.
class WatchTable {
 public:
  // RIPC_OK: the service has appeared. Otherwise why it ended, with its last resolution. With seek(): why it was not
  // found.
  using Callback = std::function<void(ripc_status, const Resolution&)>;
  class Watch;
  using WatchPointer = std::shared_ptr<Watch>;

  explicit WatchTable(Context& context) : context_(context) {}
  ~WatchTable() { stop(); }

  // Any thread. The callback runs in the responder, outside of nested loops. RIPC_NO_MEMORY, RIPC_SYSTEM (no thread).
  Result<WatchPointer> add(ripc_service_id id, Callback callback);
  // Any thread. Until the watch is removed, the callback runs in the table's thread after each check, even if the
  // service is missing. It may run once more during the removal. For a group, it reports whether there are members.
  Result<WatchPointer> seek(ripc_service_id id, Callback callback);
  // Any thread. When it returns, the callback does not run and never will again. Called from inside the callback, the
  // current run is the last.
  void remove(const WatchPointer& watch) noexcept;

  // Any thread. Waits until the service is there and can be reached. The first check is made in any case.
  // RIPC_INTERRUPTED, or why the service is not there.
  Result<Resolution> wait(ripc_service_id id, Deadline deadline);

  // Any thread. The service may have appeared, moved or ended; 0: any of them.
  void changed(ripc_service_id id) noexcept;
  // Responder.
  void channel_lost(const spi::Channel& channel, ripc_status why) noexcept;
  // Ends the thread: nobody is notified any more. Only changed() and channel_lost() may run at the same time or later.
  void stop() noexcept;

 private:
  enum class Where { responder, table_thread };
  Result<WatchPointer> add(ripc_service_id id, Callback callback, Where where);
  Status start_locked();
  void run() noexcept;
  bool check(const WatchPointer& watch);
  Result<Resolution> find_path(Watch& watch);
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
