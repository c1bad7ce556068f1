// SPDX-License-Identifier: Apache-2.0
// A context as the ZooKeeper resolver sees one, on real servers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/event_loop.hpp"
#include "base/random.hpp"
#include "core/service_id.hpp"
#include "ensemble.hpp"
#include "resolver/zookeeper/directory_resolver.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"
#include "support/waiting.hpp"

namespace zookeeper_tests {

using ripc::internal::Deadline;
using ripc::internal::Nanoseconds;
using ripc::internal::Result;
using ripc::internal::Status;
using ripc::internal::spi::ServiceRecord;
using support::eventually;

inline constexpr Nanoseconds kPatience = 30'000'000'000;
inline constexpr Nanoseconds kSession = 2'000'000'000;

class Context {
 public:
  explicit Context(const std::string& servers, Nanoseconds patience = 5'000'000'000, std::size_t max_cached = 16384)
      : id_(ripc::internal::random_u64() | 1) {
    using namespace ripc::internal::resolver;  // NOLINT: this is about nothing else
    Result<ZooKeeperOptions> ensemble = parse_zookeeper_options(servers);
    EXPECT_TRUE(ensemble.ok()) << ensemble.status().text();
    ensemble->session_timeout = kSession;
    Result<std::unique_ptr<ZooKeeperDirectory>> directory = ZooKeeperDirectory::create(*ensemble);
    EXPECT_TRUE(directory.ok()) << directory.status().text();
    DirectoryOptions options;
    options.credentials.keys =
        *ripc::internal::ClusterKeys::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "test");
    options.hash_name = ripc::internal::core::id_of_name;
    options.patience = patience;
    options.max_cached = max_cached;
    Result<std::unique_ptr<DirectoryResolver>> resolver =
        DirectoryResolver::create(std::move(*directory), options, id_);
    EXPECT_TRUE(resolver.ok()) << resolver.status().text();
    resolver_ = std::move(*resolver);
    Result<std::unique_ptr<ripc::internal::EventLoop>> loop = ripc::internal::EventLoop::create();
    EXPECT_TRUE(loop.ok());
    (void)resolver_->observe(
        **loop,
        [this](const ripc::internal::spi::Change& change) {
          const std::lock_guard lock(mutex_);
          told_.emplace_back(change.id, change.now != nullptr ? change.now->context : 0);
        },
        ripc::internal::spi::Observe::what_arrives);
  }

  ripc::internal::resolver::DirectoryResolver* operator->() { return resolver_.get(); }
  std::uint64_t id() const { return id_; }
  void end() { resolver_.reset(); }

  ServiceRecord record(ripc_service_id id) const {
    ServiceRecord record;
    record.id = id;
    record.context = id_;
    record.pid = static_cast<std::uint32_t>(::getpid());
    record.addresses = {{"socket", "ctx=" + std::to_string(id_) + ";port=7000;ip=127.0.0.1"}};
    return record;
  }
  Result<ServiceRecord> publish(ripc_service_id id, bool takeover = false,
                                std::vector<ServiceRecord>* displaced = nullptr) {
    ServiceRecord own = record(id);
    if (Status status = resolver_->publish(own, takeover, displaced); !status.ok()) return status;
    return own;
  }
  std::uint64_t holder(ripc_service_id id, Nanoseconds timeout = 0) {
    const Result<ServiceRecord> found = resolver_->resolve(id, Deadline::after(timeout));
    return found.ok() ? found->context : 0;
  }
  bool sees(ripc_service_id id, std::uint64_t context) {
    return eventually([&] { return holder(id) == context; }, kPatience);
  }
  bool was_notified(ripc_service_id id, std::uint64_t context) {
    return eventually(
        [&] {
          const std::lock_guard lock(mutex_);
          return std::find(told_.begin(), told_.end(), std::pair(id, context)) != told_.end();
        },
        kPatience);
  }
  std::size_t listed() {
    std::size_t count = 0;
    const Status status = resolver_->list([&](const ServiceRecord&) { ++count; });
    EXPECT_TRUE(status.ok()) << status.text();
    return count;
  }
  bool is_settled() {
    return eventually([&] { return resolver_->state().unsettled == 0; }, kPatience);
  }

 private:
  const std::uint64_t id_;
  std::mutex mutex_;
  std::vector<std::pair<ripc_service_id, std::uint64_t>> told_;
  std::unique_ptr<ripc::internal::resolver::DirectoryResolver> resolver_;
};

}  // namespace zookeeper_tests
