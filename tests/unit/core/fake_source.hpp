// SPDX-License-Identifier: Apache-2.0
// A context whose peers the test plays: it offers packets in their name, and says when the bytes that they exposed have
// arrived.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/context.hpp"
#include "core/service.hpp"
#include "fake_transport.hpp"
#include "spi/resolver.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::core {

// One peer. Keys name its transfers. One thread.
class FakeSource final : public spi::Source {
 public:
  explicit FakeSource(std::size_t messages_at_once) : FakeSource(messages_at_once, nullptr, nullptr) {}
  FakeSource(std::size_t messages_at_once, const spi::PeerTable* peers, const spi::Peer* peer)
      : Source({.context = 2,
                .reply_address = {"fake", "peer"},
                .messages_at_once = messages_at_once,
                .patience = 60'000'000'000,
                .peers = peers,
                .peer = peer}) {}

  // ---- What the test, as the peer, does ----

  // Sends a message with one long item for each key; each byte of an item is its key.
  void send_long(std::uint32_t tag, std::initializer_list<std::uint64_t> keys, std::uint64_t length = kLength,
                 std::uint8_t flags = 0) {
    wire::Encoder encoder(wire::PacketKind::message, tag, kService, flags);
    for (const std::uint64_t key : keys) encoder.add(wire::Descriptor{.key = key, .location = 0, .length = length});
    send(encoder);
  }
  // The same, as the reply to a request: `key` goes into the request's first return buffer, the others into windows.
  void send_directed(std::uint32_t tag, std::uint64_t request, std::uint64_t key,
                     std::initializer_list<std::uint64_t> others = {}, std::uint8_t flags = 0) {
    wire::Encoder encoder(wire::PacketKind::message, tag, kService, flags);
    encoder.add(wire::Directed{0, {.key = key, .location = 0, .length = kLength}});
    for (const std::uint64_t other : others)
      encoder.add(wire::Descriptor{.key = other, .location = 0, .length = kLength});
    encoder.add_reply(request);
    send(encoder);
  }
  // Sends a reply that says that the request's return buffer 0 was written.
  void send_returned(std::uint32_t tag, std::uint64_t request) {
    wire::Encoder encoder(wire::PacketKind::message, tag, kService);
    encoder.add(wire::Returned{0, kLength});
    encoder.add_reply(request);
    send(encoder);
  }
  void send_reply(std::uint32_t tag, std::uint64_t request) {
    wire::Encoder encoder(wire::PacketKind::message, tag, kService);
    encoder.add_reply(request);
    send(encoder);
  }
  void send_request(std::uint32_t tag, std::uint64_t request, std::uint8_t flags = 0) {
    wire::Encoder encoder(wire::PacketKind::message, tag, kService, flags);
    encoder.add_request(request);
    send(encoder);
  }
  // Sends `size` bytes in the message; byte n has the value n modulo 256. If `request` is not 0, the message names it
  // and grants a return buffer.
  void send_large(std::uint32_t tag, std::size_t size, std::uint64_t request = 0) {
    std::vector<std::byte> bytes(size);
    for (std::size_t index = 0; index < size; ++index) bytes[index] = static_cast<std::byte>(index);
    wire::Encoder encoder(wire::PacketKind::message, tag, kService);
    encoder.add_payload(bytes);
    if (request != 0) {
      encoder.add(wire::Grant{.key = 1, .location = 0, .length = kLength});
      encoder.add_request(request);
    }
    send(encoder);
  }
  void send_short(std::uint32_t tag, std::uint8_t flags = 0) {
    const std::byte payload{1};
    wire::Encoder encoder(wire::PacketKind::message, tag, kService, flags);
    encoder.add_payload({&payload, 1});
    send(encoder);
  }
  // The bytes of this item have arrived, or will not come.
  void complete(std::uint64_t key, ripc_status status = RIPC_OK) { outcomes_[key] = status; }
  void end() { ended = true; }
  // The packets sent so far arrive only after a poll that finds nothing.
  void come_later() { later = std::exchange(packets, {}); }

  // ---- What the test asks ----

  bool is_pulling(std::uint64_t key) const { return pulls_.contains(key); }
  // Whether the pull of this item may end its transfer.
  bool may_finish(std::uint64_t key) const { return is_pulling(key) && pulls_.at(key)->finishes; }
  // How the receiver ended the message whose first item this was; RIPC_PENDING: it has not yet.
  ripc_status finished(std::uint64_t key) const {
    const auto found = finished_.find(key);
    return found == finished_.end() ? RIPC_PENDING : found->second;
  }

  static constexpr std::uint64_t kLength = 100;
  static constexpr ripc_service_id kService = 77;
  std::deque<std::vector<std::byte>> packets;  // not taken yet
  std::deque<std::vector<std::byte>> later;
  bool ended = false;

  // ---- spi::Source ----

  ripc_status begin(std::span<const wire::Descriptor>) noexcept override { return RIPC_OK; }
  ripc_status prepare(spi::Pull& pull) noexcept override {
    const auto found = unprepared.find(pull.descriptor.key);
    return found == unprepared.end() ? RIPC_OK : found->second;
  }
  ripc_status pull(spi::Pull& pull) noexcept override {
    if (pull.lend) return RIPC_UNSUPPORTED;
    const std::uint64_t key = pull.descriptor.key;
    pulls_[key] = &pull;
    const auto found = outcomes_.find(key);
    if (found == outcomes_.end()) return RIPC_PENDING;
    if (found->second == RIPC_OK)
      std::memset(pull.destination, static_cast<int>(key), static_cast<std::size_t>(pull.descriptor.length));
    pull.status = found->second;
    pulls_.erase(key);
    return pull.status;
  }
  void abandon(spi::Pull& pull) noexcept override { pulls_.erase(pull.descriptor.key); }
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status) noexcept override {
    finished_[descriptor.key] = status;
    return RIPC_OK;
  }
  ripc_status push(const wire::Grant&, spi::Bytes) noexcept override {
    ++pushes;
    return pushing;
  }

  ripc_status pushing = RIPC_UNSUPPORTED;  // what push() says
  int pushes = 0;
  std::map<std::uint64_t, ripc_status> unprepared;  // by key: what prepare() says

 private:
  void send(wire::Encoder& encoder) {
    std::vector<std::byte> packet;
    for (const spi::Bytes range : encoder.finish()) packet.insert(packet.end(), range.begin(), range.end());
    packets.push_back(std::move(packet));
  }

  std::map<std::uint64_t, ripc_status> outcomes_, finished_;
  std::map<std::uint64_t, spi::Pull*> pulls_;
};

// The test's list of peers, as a port sees it.
using FakeSources = std::vector<std::shared_ptr<FakeSource>>;

class FakePort final : public spi::Port {
 public:
  static constexpr std::size_t kMostCopied = 4096;
  FakePort(const spi::PortOptions& options, FakeSources& sources)
      : Port(options, kMostCopied, counters_), sources_(sources) {}
  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept override {
    std::size_t taken = 0;
    for (const auto& source : sources_) {
      while (!source->packets.empty() && taken < budget) {
        const spi::Delivery delivery = deliver(sink, *source, source->packets.front());
        if (delivery == spi::Delivery::stop) return taken;
        if (delivery == spi::Delivery::blocked) break;
        source->packets.pop_front();
        ++taken;
      }
      if (source->ended && source->packets.empty()) sink.source_gone(*source);
      if (taken == 0 && source->packets.empty()) source->packets = std::exchange(source->later, {});
    }
    std::erase_if(sources_, [](const auto& source) { return source->ended && source->packets.empty(); });
    counters_.sources = sources_.size();
    return taken;
  }
  bool arm(bool) noexcept override { return true; }
  void close() noexcept override {}

 private:
  static spi::Delivery deliver(spi::PacketSink& sink, FakeSource& source, const std::vector<std::byte>& packet) {
    if (packet.size() <= kMostCopied) return sink.deliver(source, packet, nullptr);
    const spi::PacketSink::Memory memory = sink.make_room(packet.size());
    if (!memory) return spi::Delivery::stop;
    std::memcpy(memory.get(), packet.data(), packet.size());
    return sink.deliver(source, {memory.get(), packet.size()}, &memory);
  }

  FakeSources& sources_;
  spi::PortCounters counters_;
};

class FakeTransport : public spi::Transport {
 public:
  explicit FakeTransport(FakeSources& sources, std::string_view name = "fake", Status start = {})
      : Transport(name), sources_(sources), start_(std::move(start)) {}
  Status start(spi::Host&, EventLoop&) override { return start_; }
  void stop() noexcept override {}
  spi::Address address() const override { return {"fake", "here"}; }
  bool may_lead(const spi::Address&) const noexcept override { return true; }
  Result<std::unique_ptr<spi::Port>> open_port(const spi::PortOptions& options, EventSet&) override {
    return std::unique_ptr<spi::Port>(std::make_unique<FakePort>(options, sources_));
  }
  Result<spi::Connected> connect(std::span<const spi::Address>, ripc_service_id, Deadline) override {
    return spi::Connected{.channel = std::make_shared<FakeChannel>()};
  }
  Status fence(const spi::Address&, ripc_service_id, std::uint64_t, Deadline) override { return {}; }

 private:
  FakeSources& sources_;
  const Status start_;
};

class FakeResolver : public spi::Resolver {
 public:
  Status publication;                      // what publishing a service returns
  std::size_t taken = 0;                   // how many publications find a living holder before the others succeed
  std::vector<ripc_service_id> published;  // the IDs of all attempts
  spi::Observer observe_with;              // who wants to be notified of changes
  std::uint64_t incarnation = 1;           // of the holder that resolve() finds

  std::string_view name() const noexcept override { return "fake"; }
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline) override {
    spi::ServiceRecord record;
    record.id = id;
    record.incarnation = incarnation;
    record.context = 2;
    record.addresses = {{"fake", "peer"}};
    return record;
  }
  Status publish(spi::ServiceRecord& record, bool, std::vector<spi::ServiceRecord>*) override {
    record.incarnation = 1;
    published.push_back(record.id);
    if (published.size() <= taken) return RIPC_ID_IN_USE;
    return publication;
  }
  Status update(const spi::ServiceRecord&) override { return {}; }
  Status observe(EventLoop&, spi::Observer observer, spi::Observe) override {
    observe_with = std::move(observer);
    return {};
  }
  void withdraw(const spi::ServiceRecord&) noexcept override {}
  void invalidate(const spi::ServiceRecord&) noexcept override {}
  Status members(ripc_service_id, Deadline, const std::function<void(const spi::ServiceRecord&)>&) override {
    return {};
  }
  Status list(const std::function<void(const spi::ServiceRecord&)>&) override { return {}; }
};

// The parts of a context with this transport; a test may add more.
inline ContextParts fake_parts(std::unique_ptr<spi::Transport> transport,
                               std::unique_ptr<spi::Resolver> resolver = std::make_unique<FakeResolver>()) {
  ContextParts parts;
  parts.id = 1;
  parts.pool = std::make_unique<memory::Pool>(std::uint64_t{64} << 20);
  parts.transports.push_back(std::move(transport));
  parts.resolver = std::move(resolver);
  return parts;
}

}  // namespace ripc::internal::core
