// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the sending parts: channels to peers, and the peers' answers, as the test sets them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/path/paths.hpp"
#include "fake_source.hpp"

namespace ripc::internal::core {

class ScriptedChannel final : public FakeChannel {
 public:
  static constexpr std::size_t kLimit = 4096;
  explicit ScriptedChannel(std::uint64_t incarnation = 1, spi::Multicast* multicast = nullptr,
                           std::size_t limit = kLimit)
      : FakeChannel(Facts{.incarnation = incarnation, .packet_limit = limit, .loses = false, .multicast = multicast}) {}
  // Larger packets need widen().
  void make_narrow(std::size_t ready) noexcept { set_ready_limit(ready); }

  ripc_status send(const spi::Outgoing& outgoing) noexcept override {
    ++sends;
    const ripc_status answer = answers.empty() ? RIPC_OK : answers.front();
    if (!answers.empty()) answers.pop_front();
    return answer == RIPC_OK ? FakeChannel::send(outgoing) : answer;
  }
  ripc_status send_many(std::span<const wire::Plain> messages, std::size_t& sent) noexcept override {
    if (messages.empty()) ++flushes;
    return FakeChannel::send_many(messages, sent);
  }
  ripc_status widen(std::size_t packet) noexcept override {
    widened = packet;
    return widening;
  }
  ripc_status begin_to_widen(std::size_t packet) noexcept override {
    begun_to_widen = packet;
    return beginning;
  }
  bool has_room(bool) noexcept override { return room; }
  ripc_status grant(std::span<std::byte> memory, wire::Grant& grant) noexcept override {
    ++grants;
    return FakeChannel::grant(memory, grant);
  }
  ripc_status end_grant(const wire::Grant&) noexcept override {
    --grants;
    return RIPC_EMPTY;
  }

  std::deque<ripc_status> answers;  // to the next sends; then RIPC_OK
  ripc_status widening = RIPC_OK, beginning = RIPC_PENDING;
  bool room = true;
  int sends = 0, flushes = 0, grants = 0;
  std::size_t widened = 0, begun_to_widen = 0;
};

class ScriptedTransport final : public FakeTransport {
 public:
  using FakeTransport::FakeTransport;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                 Deadline deadline) override {
    asked.push_back({addresses.front().locator, deadline});
    auto& next = ways[id];
    if (next.empty()) return failure;
    spi::Connected way{.channel = std::move(next.front())};
    next.pop_front();
    return way;
  }
  Status fence(const spi::Address& address, ripc_service_id, std::uint64_t, Deadline) override {
    fenced.push_back(address.member + "@" + address.locator);
    return address.locator == "silent" ? Status(RIPC_TIMEOUT) : Status();
  }

  struct Asked {
    std::string locator;
    Deadline deadline;
  };
  std::map<ripc_service_id, std::deque<std::shared_ptr<spi::Channel>>> ways;  // connect() returns these in order
  Status failure = RIPC_PEER_DEAD;                                            // and then this
  std::vector<Asked> asked;
  std::vector<std::string> fenced;
};

class ScriptedResolver final : public FakeResolver {
 public:
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override {
    if (std::exchange(no_memory, false)) throw std::bad_alloc();
    if (!knows) return RIPC_NO_SERVICE;
    Result<spi::ServiceRecord> record = FakeResolver::resolve(id, deadline);
    if (!also.transport.empty()) record->addresses.push_back(also);
    return record;
  }
  Status members(ripc_service_id, Deadline, const spi::Visit& visit) override {
    for (const auto& [id, holder] : in_group) {
      spi::ServiceRecord record;
      record.id = id;
      record.incarnation = holder;
      record.addresses = {{"fake", "peer"}};
      visit(record);
    }
    return {};
  }
  void invalidate(const spi::ServiceRecord& record) noexcept override {
    if (on_invalidate) on_invalidate(record.id);
  }

  bool no_memory = false;  // for the next resolve() only
  bool knows = true;
  spi::Address also;                                  // one more address of every service
  std::map<ripc_service_id, std::uint64_t> in_group;  // the members, with their incarnations
  std::function<void(ripc_service_id)> on_invalidate;
};

class ScriptedPeers : public testing::Test {
 protected:
  void TearDown() override {
    paths_.shut_down();
    loop_->clear();
  }
  // Adds the next channel that connect() returns for this service.
  template <typename... Facts>
  std::shared_ptr<ScriptedChannel> lead(ripc_service_id to, Facts... facts) {
    auto channel = std::make_shared<ScriptedChannel>(facts...);
    transport_.ways[to].push_back(channel);
    return channel;
  }
  std::shared_ptr<ScriptedChannel> lead_and_connect(ripc_service_id to) {
    auto channel = lead(to);
    EXPECT_TRUE(paths_.channel_to(to, resolutions_).ok());
    return channel;
  }

  static constexpr ripc_service_id kPeer = 7;
  FakeSources sources_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  ContextParts parts_ = fake_parts(std::make_unique<ScriptedTransport>(sources_), std::make_unique<ScriptedResolver>());
  ScriptedTransport& transport_ = static_cast<ScriptedTransport&>(*parts_.transports.front());
  ScriptedResolver& resolver_ = static_cast<ScriptedResolver&>(*parts_.resolver);
  Paths paths_{parts_, *loop_};
  Counter resolutions_{0};
};

}  // namespace ripc::internal::core
