// SPDX-License-Identifier: Apache-2.0
// Which transports a context starts with, and under which IDs its services are registered.
#include "core/context.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../base/process_helpers.hpp"
#include "core/register_many.hpp"
#include "core/service.hpp"
#include "fake_source.hpp"
#include "support/failing_allocation.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::core {
namespace {

class Contexts : public testing::Test {
 protected:
  // A context with two transports, of which the first cannot start.
  Result<std::unique_ptr<Context>> make(std::vector<std::string> optional) {
    ContextParts parts =
        fake_parts(std::make_unique<FakeTransport>(sources_, "broken", Status(RIPC_PERMISSION, "not allowed")));
    parts.transports.push_back(std::make_unique<FakeTransport>(sources_));
    parts.optional = std::move(optional);
    return Context::create(std::move(parts));
  }

  // A context with a resolver whose answers the test sets.
  Result<std::unique_ptr<Context>> make(FakeResolver*& resolver) {
    auto made = std::make_unique<FakeResolver>();
    resolver = made.get();
    return Context::create(fake_parts(std::make_unique<FakeTransport>(sources_), std::move(made)));
  }

  FakeSources sources_;
};

TEST_F(Contexts, ATransportThatWasAskedForMustStart) {
  const Result<std::unique_ptr<Context>> context = make({"fake"});
  EXPECT_EQ(context.status().code(), RIPC_PERMISSION);
  EXPECT_EQ(context.status().text(), "not allowed");
}

TEST_F(Contexts, AnOptionalTransportThatCannotStartIsLeftOut) {
  const Result<std::unique_ptr<Context>> context = make({"broken"});
  ASSERT_TRUE(context.ok()) << context.status().text();
  const std::vector<spi::Address> addresses = (*context)->paths().own_addresses();
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses.front().transport, "fake");
}

TEST_F(Contexts, WithoutAThreadForTheResponderTheErrorSaysWhichLimitToRaise) {
  SKIP_UNLESS_ROOT("becomes another user, because root has no limit of threads");
  EXPECT_EQ(test::run_in_child([&] {
              const rlimit none{0, 0};
              CHILD_CHECK(::setrlimit(RLIMIT_NPROC, &none) == 0 && test::become_nobody());
              const Status status = make({"broken"}).status();
              CHILD_CHECK(status == RIPC_SYSTEM && test::mentions(status, "ulimit -u"));
              return 0;
            }),
            0);
}

TEST_F(Contexts, TheResponderHasItsNameInToolsThatShowThreads) {
  const Result<std::unique_ptr<Context>> context = make({"broken"});
  ASSERT_TRUE(context.ok()) << context.status().text();
  std::promise<std::string> named;
  (*context)->loop().post([&] {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    named.set_value(name.data());
  });
  EXPECT_EQ(named.get_future().get(), "ripc-responder");
}

TEST_F(Contexts, FindTheirPoolFullOnlyAfterALookAtMessagesThatHaveEnded) {
  constexpr std::size_t kSize = std::size_t{40} << 20;  // more than half of the pool
  FakeResolver* resolver = nullptr;
  const Result<std::unique_ptr<Context>> context = make(resolver);
  ASSERT_TRUE(context.ok()) << context.status().text();
  memory::Pool& pool = (*context)->pool();
  std::byte* const data = pool.lease(kSize).value();
  std::vector<memory::Hold> holds;
  holds.push_back(pool.hold(data, kSize).value());
  ASSERT_TRUE(pool.release(data).ok());
  const auto channel = std::make_shared<FakeChannel>();
  Ticket::Parts parts;
  parts.channel = channel;
  parts.transfer = channel->make_transfer();
  parts.sender = std::make_shared<TicketSender>();
  TicketKeeper& tickets = (*context)->tickets();
  (void)tickets.open(tickets.prepare(parts), std::move(holds), {});
  EXPECT_EQ(pool.lease(kSize).status().code(), RIPC_NO_MEMORY) << "the peer has not taken it";
  channel->finish(parts.transfer, RIPC_OK);
  EXPECT_TRUE(pool.lease(kSize).ok());
}

// Like the queues of a device, which leave the loop only after their last sender has gone.
class LateTransport final : public FakeTransport {
 public:
  LateTransport(FakeSources& sources, std::optional<Status>& left) : FakeTransport(sources), left_(left) {}
  ~LateTransport() override {
    left_ = loop_->add(event_.get(), EPOLLIN, [](std::uint32_t) {});
    loop_->remove(event_.get());
  }
  Status start(spi::Host&, EventLoop& loop) override {
    loop_ = &loop;
    event_.reset(eventfd(0, EFD_CLOEXEC));
    return {};
  }

 private:
  std::optional<Status>& left_;
  EventLoop* loop_ = nullptr;
  UniqueFd event_;
};

TEST_F(Contexts, TheLoopOutlivesTheTransports) {
  std::optional<Status> left;
  Result<std::unique_ptr<Context>> context =
      Context::create(fake_parts(std::make_unique<LateTransport>(sources_, left)));
  ASSERT_TRUE(context.ok()) << context.status().text();
  context->reset();
  ASSERT_TRUE(left.has_value());
  EXPECT_TRUE(left->ok()) << left->text();
}

// Fails to publish, after what the test does meanwhile.
class FailingResolver final : public FakeResolver {
 public:
  std::function<void()> meanwhile;
  Status publish(spi::ServiceRecord& record, bool takeover, std::vector<spi::ServiceRecord>* displaced) override {
    if (!meanwhile) return FakeResolver::publish(record, takeover, displaced);
    meanwhile();
    return RIPC_TIMEOUT;
  }
};

class Takeovers : public Contexts {
 protected:
  // Registers a service, whose ID options_ then take over.
  void hold(std::unique_ptr<FakeTransport> transport) {
    auto resolver = std::make_unique<FailingResolver>();
    resolver_ = resolver.get();
    Result<std::unique_ptr<Context>> context = Context::create(fake_parts(std::move(transport), std::move(resolver)));
    ASSERT_TRUE(context.ok());
    context_ = std::move(*context);
    options_.id = 42;
    const Result<Service*> holder = services().add(options_);
    ASSERT_TRUE(holder.ok());
    holder_ = *holder;
    options_.takeover = true;
  }

  ServiceTable& services() { return context_->services(); }
  ripc_status received() {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    return holder_->receive(0, 0, messages, count);
  }

  FailingResolver* resolver_ = nullptr;
  std::unique_ptr<Context> context_;
  ServiceOptions options_;
  Service* holder_ = nullptr;
};

TEST_F(Takeovers, ThatFailLeaveTheHolderWhatItHas) {
  ASSERT_NO_FATAL_FAILURE(hold(std::make_unique<FakeTransport>(sources_)));
  resolver_->publication = RIPC_TIMEOUT;
  EXPECT_EQ(services().add(options_).status().code(), RIPC_TIMEOUT);
  EXPECT_EQ(received(), RIPC_EMPTY) << "not RIPC_FENCED";
  options_.takeover = false;
  resolver_->publication = {};
  EXPECT_EQ(services().add(options_).status().code(), RIPC_ID_IN_USE);

  options_.takeover = true;
  EXPECT_TRUE(services().add(options_).ok());
  EXPECT_EQ(received(), RIPC_FENCED);
}

TEST_F(Takeovers, ThatFailWithoutMemoryLeaveTheHolderWhatItHas) {
  ASSERT_NO_FATAL_FAILURE(hold(std::make_unique<FakeTransport>(sources_)));
  std::optional<support::FailingAllocation> scarcity;
  resolver_->meanwhile = [&] {
    scarcity.emplace(1, support::FailingAllocation::Where::here, support::FailingAllocation::Count::rest);
  };
  ripc_status status = RIPC_OK;
  try {
    status = services().add(options_).status().code();
  } catch (const std::bad_alloc&) {
    status = RIPC_NO_MEMORY;
  }
  scarcity.reset();
  ASSERT_EQ(services().find(42).get(), holder_);
  EXPECT_EQ(status, RIPC_TIMEOUT);
  EXPECT_EQ(received(), RIPC_EMPTY);
}

// Has no room until the test says so.
class FullChannel final : public FakeChannel {
 public:
  std::atomic<bool> room{false};
  std::atomic<bool> requested{false};
  bool has_room(bool notify) noexcept override {
    if (notify) requested = true;
    return room;
  }
};

class FullPeer final : public FakeTransport {
 public:
  using FakeTransport::FakeTransport;
  const std::shared_ptr<FullChannel> channel = std::make_shared<FullChannel>();
  std::string where = "here";
  spi::Address address() const override { return {"fake", where}; }
  Result<spi::Connected> connect(std::span<const spi::Address>, ripc_service_id, Deadline) override {
    return spi::Connected{.channel = channel};
  }
};

TEST_F(Takeovers, ThatFailTellTheHolderWhatHappenedMeanwhile) {
  auto made = std::make_unique<FullPeer>(sources_);
  FullPeer& transport = *made;
  ASSERT_NO_FATAL_FAILURE(hold(std::move(made)));
  std::future<Status> waiting =
      std::async(std::launch::async, [&] { return holder_->wait_room(7, Deadline::never()); });
  ASSERT_TRUE(support::eventually([&] { return transport.channel->requested.load(); }));
  resolver_->meanwhile = [&] {
    transport.channel->room = true;
    context_->room(*transport.channel);
    transport.where = "there";
    services().publish_addresses();
  };
  EXPECT_EQ(services().add(options_).status().code(), RIPC_TIMEOUT);
  EXPECT_EQ(waiting.wait_for(std::chrono::nanoseconds(support::kLimit)), std::future_status::ready);
  holder_->interrupt();
  EXPECT_EQ(waiting.get().code(), RIPC_OK);
  EXPECT_EQ(holder_->publication().record().addresses, std::vector({spi::Address{"fake", "there"}}));
}

TEST_F(Contexts, AHolderThatEndsDuringATakeoverThatFailsLeavesTheIdFree) {
  FakeResolver* resolver = nullptr;
  Result<std::unique_ptr<Context>> context = make(resolver);
  ASSERT_TRUE(context.ok());
  ServiceTable& services = (*context)->services();
  ServiceOptions options;
  options.id = 42;
  for (int round = 0; round < 2000; ++round) {
    resolver->publication = {};
    options.takeover = false;
    const Result<Service*> holder = services.add(options);
    ASSERT_TRUE(holder.ok()) << "round " << round << ": " << holder.status().text();
    resolver->publication = RIPC_TIMEOUT;
    options.takeover = true;
    std::latch start(2);
    std::jthread ending([&] {
      start.arrive_and_wait();
      // Each round ends the holder at another moment of the takeover.
      for (int pause = round % 100; pause > 0; --pause) cpu_pause();
      services.remove(*holder);
    });
    start.arrive_and_wait();
    EXPECT_EQ(services.add(options).status().code(), RIPC_TIMEOUT);
  }
}

TEST_F(Contexts, ARandomIdThatAnotherHasIsReplacedByAnotherOne) {
  FakeResolver* resolver = nullptr;
  Result<std::unique_ptr<Context>> context = make(resolver);
  ASSERT_TRUE(context.ok());
  resolver->taken = 2;
  const Result<Service*> service = (*context)->services().add({});
  ASSERT_TRUE(service.ok()) << service.status().text();
  ASSERT_EQ(resolver->published.size(), 3u);
  EXPECT_EQ(std::set(resolver->published.begin(), resolver->published.end()).size(), 3u) << "each time another one";
  EXPECT_EQ((*service)->id(), resolver->published.back());

  resolver->taken = SIZE_MAX;
  EXPECT_EQ((*context)->services().add({}).status().code(), RIPC_ID_IN_USE) << "the tries come to an end";
  ServiceOptions fixed;
  fixed.id = 42;
  const std::size_t before = resolver->published.size();
  EXPECT_EQ((*context)->services().add(fixed).status().code(), RIPC_ID_IN_USE);
  EXPECT_EQ(resolver->published.size(), before + 1) << "a number that was asked for stays what it is";
}

// Like a resolver that asks other hosts: each publication waits until `count` publications are under way.
class AskingResolver final : public FakeResolver {
 public:
  explicit AskingResolver(std::size_t count) : expected_(count) {}
  Status publish(spi::ServiceRecord& record, bool, std::vector<spi::ServiceRecord>*) override {
    std::unique_lock lock(mutex_);
    ++under_way_;
    changed_.notify_all();
    const bool together = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return under_way_ >= expected_; });
    record.incarnation = 1;
    return together ? Status() : Status(RIPC_TIMEOUT, "they come one by one");
  }

 private:
  const std::size_t expected_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t under_way_ = 0;
};

TEST_F(Contexts, ManyServicesAreRegisteredSideBySide) {
  constexpr std::size_t kCount = 20;
  const Result<std::unique_ptr<Context>> context =
      Context::create(fake_parts(std::make_unique<FakeTransport>(sources_), std::make_unique<AskingResolver>(kCount)));
  ASSERT_TRUE(context.ok());
  std::vector<ServiceOptions> wanted(kCount);
  for (std::size_t index = 0; index < kCount; ++index) wanted[index].id = index + 1;
  std::vector<Service*> services(kCount);
  const Status status = register_services(**context, wanted, services);
  ASSERT_TRUE(status.ok()) << status.text();
  for (std::size_t index = 0; index < kCount; ++index) EXPECT_EQ(services[index]->id(), index + 1);
}

// Reports a takeover while the service is being registered.
class ReportingResolver final : public FakeResolver {
 public:
  Context* context = nullptr;
  std::uint64_t reported = 0;
  Status publish(spi::ServiceRecord& record, bool, std::vector<spi::ServiceRecord>*) override {
    EXPECT_EQ(context->fenced(record.id, reported), RIPC_OK);
    record.incarnation = 7;
    return {};
  }
};

class Reports : public Contexts {
 protected:
  // Registers a service while another holder with this incarnation is reported, which the resolver also finds. Returns
  // the status of the service's receive().
  ripc_status received_after(std::uint64_t reported) {
    auto made = std::make_unique<ReportingResolver>();
    ReportingResolver& resolver = *made;
    resolver.reported = resolver.incarnation = reported;
    const Result<std::unique_ptr<Context>> context =
        Context::create(fake_parts(std::make_unique<FakeTransport>(sources_), std::move(made)));
    if (!context.ok()) return context.status().code();
    resolver.context = context->get();
    ServiceOptions options;
    options.id = 42;
    options.takeover = true;
    const Result<Service*> service = (*context)->services().add(options);
    if (!service.ok()) return service.status().code();
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    return (*service)->receive(0, 0, messages, count);
  }
};

TEST_F(Reports, OfTheHolderBeforeDoNotFenceTheServiceThatTakesOver) { EXPECT_EQ(received_after(6), RIPC_EMPTY); }

TEST_F(Reports, OfANewerHolderFenceAServiceThatIsRegisteredMeanwhile) { EXPECT_EQ(received_after(8), RIPC_FENCED); }

}  // namespace
}  // namespace ripc::internal::core
