// SPDX-License-Identifier: Apache-2.0
#include "core/register_many.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "base/loop_wait.hpp"
#include "core/context.hpp"
#include "core/service.hpp"

namespace ripc::internal::core {

namespace {

// A registration sleeps while others are asked: many threads cost little.
constexpr std::size_t kMaxThreads = 64;

class Registration {
 public:
  Registration(Context& context, std::span<const ServiceOptions> wanted, std::span<Service*> services)
      : context_(context), wanted_(wanted), services_(services) {}

  Status run() {
    std::list<std::jthread> helpers;
    try {
      while (helpers.size() + 1 < std::min(wanted_.size(), kMaxThreads)) {
        begin();
        helpers.emplace_back([this] { work(); });
      }
    } catch (const std::exception&) {  // of the system, or no memory
      end();                           // the existing threads do the work
    }
    begin();
    work();
    // The helpers may need the responder, which this thread may be.
    std::unique_lock lock(mutex_);
    (void)wait_in(context_.loop(), lock, changed_, Deadline::never(), [this] { return working_ == 0; });
    return failure_;
  }

 private:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++working_;
  }
  void end() noexcept {
    const std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
    context_.loop().wake();
  }
  void work() noexcept {
    for (std::size_t index = next_++; index < wanted_.size(); index = next_++) {
      ripc_status status = RIPC_NO_MEMORY;
      try {
        Result<Service*> registered = context_.services().add(wanted_[index]);
        if (registered.ok()) {
          services_[index] = *registered;
          continue;
        }
        status = registered.status().code();
        fail(Status(status, name_of(index) + ": " + std::string(registered.status().text())));
      } catch (const std::bad_alloc&) {
        fail(status);
      }
    }
    end();
  }
  std::string name_of(std::size_t index) const {
    return wanted_[index].name.empty() ? "Service " + std::to_string(index) : "'" + wanted_[index].name + "'";
  }
  void fail(Status status) noexcept {
    next_ = wanted_.size();
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }

  Context& context_;
  const std::span<const ServiceOptions> wanted_;
  const std::span<Service*> services_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t working_ = 0;
  Status failure_;
};

}  // namespace

Status register_services(Context& context, std::span<const ServiceOptions> wanted, std::span<Service*> services) {
  std::fill(services.begin(), services.end(), nullptr);
  if (wanted.empty()) return {};
  Status status = Registration(context, wanted, services).run();
  if (status.ok()) return status;
  for (Service*& service : services) {
    if (service != nullptr) context.services().remove(service);
    service = nullptr;
  }
  return status;
}

}  // namespace ripc::internal::core
