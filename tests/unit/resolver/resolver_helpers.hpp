// SPDX-License-Identifier: Apache-2.0
// For tests of resolvers.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/runtime_directory.hpp"
#include "resolver/local/local_resolver.hpp"
#include "tests/unit/base/process_helpers.hpp"

namespace ripc::internal::spi {

inline bool operator==(const ServiceRecord& one, const ServiceRecord& other) {
  return one.id == other.id && one.name == other.name && one.incarnation == other.incarnation &&
         one.context == other.context && one.pid == other.pid && one.addresses == other.addresses &&
         one.groups == other.groups;
}

inline void PrintTo(const ServiceRecord& record, std::ostream* out) {
  *out << "{id " << record.id << ", name '" << record.name << "', incarnation " << record.incarnation << ", context "
       << record.context << ", pid " << record.pid << ", " << record.addresses.size() << " addresses}";
}

}  // namespace ripc::internal::spi

namespace ripc::internal::test {

inline void write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  EXPECT_TRUE(file.good()) << path;
}

inline std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// For a static resolver that accepts any address and uses it as it is written.
inline Status any_address(const spi::Address&) { return {}; }
inline Result<spi::ServiceRecord> as_written(spi::ServiceRecord record, Deadline) { return record; }

inline std::size_t open_descriptors() { return names_in("/proc/self/fd").size() - 1; }

// A context as the local resolver sees one: an id, a socket while it lives, and its resolver.
class LocalContext {
 public:
  explicit LocalContext(const std::string& path, std::uint32_t policy = RIPC_PEERS_SAME_USER) : id_(random_u64()) {
    Result<std::shared_ptr<RuntimeDirectory>> directory = RuntimeDirectory::open(path.c_str(), policy);
    if (!directory.ok()) return;
    directory_ = *directory;
    Result<UniqueFd> listener = directory_->listen(id_);
    if (listener.ok()) listener_ = std::move(*listener);
    resolver_ = std::make_unique<resolver::LocalResolver>(directory_, id_);
  }

  explicit operator bool() const { return resolver_ != nullptr && static_cast<bool>(listener_); }
  std::uint64_t id() const { return id_; }
  RuntimeDirectory& directory() { return *directory_; }
  resolver::LocalResolver* operator->() { return resolver_.get(); }
  resolver::LocalResolver& operator*() { return *resolver_; }
  // As if the process were killed: nothing is cleaned up.
  void die() { listener_.reset(); }

  spi::ServiceRecord record(ripc_service_id service, const std::string& name = "") const {
    spi::ServiceRecord record;
    record.id = service;
    record.name = name;
    record.context = id_;
    record.pid = static_cast<std::uint32_t>(::getpid());
    record.addresses = {{"shm", "#" + std::to_string(id_)}, {"socket", "127.0.0.1:7000"}};
    return record;
  }
  // Publishes a service and returns the status; the record is then in `last`.
  Status publish(ripc_service_id service, const std::string& name = "", bool takeover = false) {
    last = record(service, name);
    displaced.clear();
    return resolver_->publish(last, takeover, &displaced);
  }
  // The same for tests in which many contexts want one ID: on a busy machine the thread with the lock may not run for a
  // second.
  Status publish_patiently(ripc_service_id service, const std::string& name = "", bool takeover = false) {
    Status status;
    for (int attempt = 0; attempt < 20; ++attempt) {
      status = publish(service, name, takeover);
      if (!(status == RIPC_TIMEOUT)) break;
    }
    return status;
  }
  Result<spi::ServiceRecord> resolve(ripc_service_id service) {
    return resolver_->resolve(service, Deadline::after(10'000'000'000));
  }

  spi::ServiceRecord last;
  std::vector<spi::ServiceRecord> displaced;

 private:
  std::uint64_t id_;
  std::shared_ptr<RuntimeDirectory> directory_;
  UniqueFd listener_;
  std::unique_ptr<resolver::LocalResolver> resolver_;
};

inline std::vector<spi::ServiceRecord> listed(spi::Resolver& resolver) {
  std::vector<spi::ServiceRecord> records;
  EXPECT_TRUE(resolver.list([&](const spi::ServiceRecord& record) { records.push_back(record); }).ok());
  std::sort(records.begin(), records.end(), [](const auto& one, const auto& other) { return one.id < other.id; });
  return records;
}

}  // namespace ripc::internal::test

namespace ripc::internal::resolver {

using spi::ServiceRecord;
using test::Child;
using test::listed;
using test::LocalContext;
using test::mentions;
using test::names_in;
using test::Pipe;
using test::run_in_child;
using Names = std::vector<std::string>;

}  // namespace ripc::internal::resolver
