// SPDX-License-Identifier: Apache-2.0
// For tests of the directory resolver: contexts on one fake directory.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/event_loop.hpp"
#include "fake_directory.hpp"
#include "multicast_helpers.hpp"
#include "resolver/zookeeper/directory_resolver.hpp"

namespace ripc::internal::test {

inline resolver::DirectoryOptions directory_options(const std::string& key = kKeyText) {
  resolver::DirectoryOptions options;
  options.hash_name = core::id_of_name;
  if (!key.empty()) options.credentials.keys = make_keys(key);
  return options;
}

// A context as the directory resolver sees one.
class DirectoryContext {
 public:
  explicit DirectoryContext(FakeWorld& world, const resolver::DirectoryOptions& options = directory_options(),
                            bool starts_linked = true)
      : id_(random_u64() | 1) {
    auto made = std::make_unique<FakeDirectory>(world, starts_linked);
    directory_ = made.get();
    auto resolver = resolver::DirectoryResolver::create(std::move(made), options, id_);
    EXPECT_TRUE(resolver.ok()) << resolver.status().text();
    if (!resolver.ok()) return;
    resolver_ = std::move(*resolver);
    Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
    EXPECT_TRUE(loop.ok()) << loop.status().text();
    (void)resolver_->observe(
        **loop,
        [this](const spi::Change& change) {
          const std::lock_guard lock(mutex_);
          told_.emplace_back(change.id, change.now != nullptr ? change.now->context : 0);
        },
        spi::Observe::what_arrives);
  }

  resolver::DirectoryResolver* operator->() { return resolver_.get(); }
  FakeDirectory& directory() { return *directory_; }
  std::uint64_t id() const { return id_; }
  void end() { resolver_.reset(); }

  spi::ServiceRecord record(ripc_service_id id, const std::string& name = "") const {
    spi::ServiceRecord record;
    record.id = id;
    record.name = name;
    record.context = id_;
    record.pid = 77;
    record.addresses = {{"socket", "ctx=" + std::to_string(id_) + ";port=7000;ip=127.0.0.1"}};
    return record;
  }
  Result<spi::ServiceRecord> publish(ripc_service_id id, bool takeover = false,
                                     std::vector<spi::ServiceRecord>* displaced = nullptr) {
    spi::ServiceRecord own = record(id);
    if (Status status = resolver_->publish(own, takeover, displaced); !status.ok()) return status;
    return own;
  }
  // The context that holds the ID; 0: none is found.
  std::uint64_t holder(ripc_service_id id, Nanoseconds timeout = 0) {
    const Result<spi::ServiceRecord> found = resolver_->resolve(id, Deadline::after(timeout));
    return found.ok() ? found->context : 0;
  }
  bool sees(ripc_service_id id, std::uint64_t context) {
    return eventually([&] { return holder(id) == context; });
  }
  bool was_notified(ripc_service_id id, std::uint64_t context) {
    return eventually([&] {
      const std::lock_guard lock(mutex_);
      return std::find(told_.begin(), told_.end(), std::pair(id, context)) != told_.end();
    });
  }
  std::vector<ripc_service_id> members(ripc_service_id group, Nanoseconds timeout = 1'000'000'000) {
    std::vector<ripc_service_id> ids;
    EXPECT_TRUE(resolver_
                    ->members(group, Deadline::after(timeout),
                              [&](const spi::ServiceRecord& record) { ids.push_back(record.id); })
                    .ok());
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  const std::uint64_t id_;
  std::mutex mutex_;
  std::vector<std::pair<ripc_service_id, std::uint64_t>> told_;
  FakeDirectory* directory_ = nullptr;
  std::unique_ptr<resolver::DirectoryResolver> resolver_;
};

}  // namespace ripc::internal::test
