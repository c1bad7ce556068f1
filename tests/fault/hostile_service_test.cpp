// SPDX-License-Identifier: Apache-2.0
// Tests a hostile service of the same user. It answers an honest sender with impossible queues and wrong descriptors,
// and overwrites the memory that the sender uses. Where the failure would be the death of the honest side, that side
// runs in its own process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "hostile.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kService = 1001;
constexpr ripc_service_id kHonest = 1003;
constexpr ripc_service_id kLiar = 1004;

// How a service can lie in its Opened message and in the descriptors that it hands over.
const std::vector<std::string> kLies{"no cells",       "odd cells",       "endless cells",    "no data",
                                     "endless data",   "unsealed memory", "small memory",     "no memfd",
                                     "no descriptor",  "state slot",      "unsealed state",   "wrong request",
                                     "status pending", "status forked",   "garbage datagram", "silence"};

// Arguments DIRECTORY CONTEXT LIE SEED. Says hello to kService as kLiar and answers every sender to kLiar.
int liar(const std::vector<std::string>& arguments) {
  const std::string& lie = arguments.at(2);
  Random random(std::stoull(arguments.at(3)));
  Hostile hostile(arguments.at(0), std::stoull(arguments.at(1)));
  if (!hostile.connected() || !hostile.greet()) return 1;
  auto link = hostile.open(kService, 1);
  if (!link) return 1;
  link->commit(short_packet(kLiar, make_item(64, 1)));
  const shm::Geometry geometry{128, 8192};
  std::vector<HostileLink> served;
  for (;;) {
    const auto open = hostile.wait_for<control::Open>(served.empty() ? kLimit : 0);
    if (hostile.closed()) return 0;
    if (open) {
      control::Opened answer{open->request, RIPC_OK, open->link, 1, geometry.cells, geometry.data_bytes, 0, 0};
      HostileLink made;
      made.link = open->link;
      made.geometry = geometry;
      made.memory_fd = make_memfd(geometry.total(), lie != "unsealed memory");
      made.state_fd = make_memfd(4096, lie != "unsealed state");
      made.doorbell.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
      if (lie == "no cells") answer.cells = 0;
      if (lie == "odd cells") answer.cells = 100;
      if (lie == "endless cells") answer.cells = 1u << 31;
      if (lie == "no data") answer.data_bytes = 0;
      if (lie == "endless data") answer.data_bytes = 1u << 31;
      if (lie == "small memory") made.memory_fd = make_memfd(4096, true);
      if (lie == "no memfd") made.memory_fd.reset(::open("/dev/zero", O_RDWR | O_CLOEXEC));
      if (lie == "state slot") answer.state_slot = 64;
      if (lie == "wrong request") ++answer.request;
      if (lie == "status pending" || lie == "status forked") {
        answer = {};
        answer.request = open->request;
        answer.link = open->link;
        answer.status = lie == "status pending" ? RIPC_PENDING : RIPC_FORKED;
      }
      if (lie == "silence") continue;
      if (lie == "garbage datagram") {
        hostile.send_raw(std::vector<std::byte>(50, std::byte{0x5a}));
        continue;
      }
      ripc::internal::UniqueFd keep;
      if (lie == "broken pipe" || lie == "full pipe") {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return 1;
        made.doorbell.reset(ends[1]);
        keep.reset(ends[0]);
        if (lie == "broken pipe") keep.reset();
        const std::vector<char> filler(1 << 20);
        if (lie == "full pipe" && ::write(ends[1], filler.data(), filler.size()) <= 0) return 1;
        // Both sides share the open file description, so the hostile side decides whether a write blocks.
        if (fcntl(ends[1], F_SETFL, 0) != 0) return 1;
      }
      if (lie == "full counter") {
        const std::uint64_t most = UINT64_MAX - 1;
        if (::write(made.doorbell.get(), &most, sizeof most) != sizeof most) return 1;
        if (fcntl(made.doorbell.get(), F_SETFL, 0) != 0) return 1;
      }
      auto memory = ripc::internal::map_foreign_memory(made.memory_fd.get(), geometry.total(), true);
      if (memory.ok()) made.memory = std::move(*memory);
      auto state = ripc::internal::map_foreign_memory(made.state_fd.get(), 4096, true);
      if (state.ok()) made.state_page = std::move(*state);
      // The service seems to sleep, so that the sender rings the doorbell.
      if (made.state_page) reinterpret_cast<shm::ServiceLine*>(made.state_page.data())->sleep_epoch.store(1);
      const std::array<int, 3> descriptors{made.memory_fd.get(), made.doorbell.get(), made.state_fd.get()};
      hostile.send(answer, lie == "no descriptor" ? std::span<const int>() : descriptors);
      if (keep) (void)keep.release();
      if (made.memory && made.state_page) served.push_back(std::move(made));
    }
    if (lie != "scribble" || served.empty()) continue;
    HostileLink& target = served[random.below(served.size())];
    for (int count = 0; count < 200; ++count) {
      const std::uint64_t slot = random.below(shm::kTransferSlots);
      const std::uint64_t word = target.page().transfers[slot].load();
      switch (random.below(8)) {
        case 0:
          target.page().receiver.head_cells.store(static_cast<std::uint32_t>(random.next()));
          break;
        case 1:
          target.page().receiver.head_data.store(static_cast<std::uint32_t>(random.next()));
          break;
        case 2:  // any state and any status for a transfer that exists
          target.page().transfers[slot].store((word & ~std::uint64_t{0xffff}) | random.below(0x2000));
          break;
        case 3:
          target.page().transfers[slot].store(random.next());
          break;
        case 4:
          target.page().grants[random.below(shm::kGrantSlots)].store(random.next());
          break;
        case 5:
          reinterpret_cast<shm::ServiceLine*>(target.state_page.data())
              ->sleep_epoch.store(static_cast<std::uint32_t>(random.next()));
          break;
        case 6:
          target.memory.data()[random.below(target.memory.size())] = static_cast<std::byte>(random.next());
          break;
        default:
          // Frees room now and then, as an honest reader would.
          target.page().receiver.head_cells.store(target.next += 64);
      }
    }
    if (random.below(4) == 0) hostile.send(control::TransferDone{target.link});
    if (random.below(4) == 0) hostile.send(control::Room{target.link});
    if (random.below(500) == 0) hostile.send(control::LinkClosed{target.link});
    hostile.send(control::BounceRequest{target.link, random.next(), random.next(), 1, 0, 0});
  }
}

class HostileService : public testing::Test {
 protected:
  void start(const std::string& lie) {
    ripc_context_options options = context_options(directory_.path());
    options.resolve_timeout = 300 * kMillisecond;
    options.pool_limit = 256 << 20;
    ripc_context* context = nullptr;
    ASSERT_EQ(ripc_context_create(&options, &context), RIPC_OK) << ripc_last_error();
    context_.reset(context);
    const std::uint64_t target = only_context(directory_.path());
    ASSERT_NE(target, 0u);
    service_ = make_service(context_, kService);
    peer_context_ = make_context(directory_.path(), 256 << 20);
    peer_ = make_service(peer_context_, kHonest);
    ASSERT_TRUE(service_ && peer_);
    ASSERT_EQ(exchange(service_, peer_, 1), "");
    process_ = Process("liar", {directory_.path(), std::to_string(target), lie,
                                std::to_string(number_from_environment("RIPC_FAULT_SEED", 9))});
    const Message message = receive(service_);
    ASSERT_TRUE(message);
    ASSERT_EQ(ripc_message_get_source(message.get()), kLiar);
  }

  TemporaryDirectory directory_;
  Context context_, peer_context_;
  Service service_, peer_;
  Process process_;
};

class Lie : public HostileService, public testing::WithParamInterface<std::string> {};

TEST_P(Lie, TheSendFailsAndNothingElse) {
  start(GetParam());
  if (HasFatalFailure()) return;
  const std::size_t descriptors = descriptor_count();
  const std::size_t mappings = mapping_count();
  for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
    const std::uint64_t begin = now();
    const ripc_status status = send_short(service_, kLiar, attempt);
    EXPECT_LT(now() - begin, kLimit);
    // ripc_send() returns a status that it may return, whatever the peer says.
    EXPECT_TRUE(status == RIPC_CORRUPT || status == RIPC_TIMEOUT || status == RIPC_PEER_DEAD ||
                status == RIPC_NO_SERVICE || status == RIPC_REFUSED || status == RIPC_CLOSED)
        << ripc_status_name(status) << ": " << ripc_last_error();
  }
  EXPECT_EQ(exchange(service_, peer_, 5), "");
  EXPECT_LE(mapping_count(), mappings + 16);
  process_.kill();
  EXPECT_TRUE(eventually([&] {
    (void)receive(service_, 0);
    return descriptor_count() <= descriptors;
  })) << descriptor_count()
      << " descriptors, " << descriptors << " before";
}

INSTANTIATE_TEST_SUITE_P(Opened, Lie, testing::ValuesIn(kLies), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST_F(HostileService, ScribblingOverTheSendersMemoryEndsNothingButItsOwnMessages) {
  start("scribble");
  if (HasFatalFailure()) return;
  const std::uint64_t rounds = number_from_environment("RIPC_FAULT_HOSTILE_ROUNDS", 30) * 20;
  std::vector<Ticket> tickets;
  std::uint64_t accepted = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (send_short(service_, kLiar, round, 24 + round % 3000) == RIPC_OK) ++accepted;
    void* lease = nullptr;
    ASSERT_EQ(ripc_buffer_lease(context_.get(), 5000, &lease), RIPC_OK) << ripc_last_error();
    fill_item(lease, 5000, round);
    const ripc_item item{lease, 5000, RIPC_ITEM_LONG, 0};
    ripc_send_options options;
    ripc_send_options_init(&options);
    options.timeout = 20 * kMillisecond;
    ripc_ticket* ticket = nullptr;
    if (ripc_send(service_.get(), kLiar, &item, 1, &options, &ticket) == RIPC_OK) {
      ++accepted;
      tickets.emplace_back(ticket);
    }
    ASSERT_EQ(ripc_buffer_release(context_.get(), lease), RIPC_OK);
    if (tickets.size() > 8) {
      (void)ripc_ticket_poll(tickets.front().get());
      (void)ripc_ticket_cancel(tickets.front().get());
      tickets.erase(tickets.begin());
    }
    if (round % 10 == 0) {
      ASSERT_EQ(exchange(service_, peer_, round), "");
    }
  }
  EXPECT_GT(accepted, 10u);
  process_.kill();
  for (const Ticket& ticket : tickets) EXPECT_NE(ripc_ticket_wait(ticket.get(), kLimit), RIPC_PENDING);
  tickets.clear();
  EXPECT_TRUE(eventually([&] { return pool_statistics_of(context_).leased == 0; }))
      << pool_statistics_of(context_).leased;
  EXPECT_EQ(exchange(service_, peer_, 3), "");
}

// The receiver chooses what the sender writes to. Each case runs in a child, which must neither die nor hang.
class Doorbell : public testing::TestWithParam<std::string> {};

TEST_P(Doorbell, ItDoesNotStopOrKillTheSender) {
  const TemporaryDirectory directory;
  Process honest("sender", {directory.path(), GetParam()});
  EXPECT_EQ(honest.wait(10 * kSecond), 0) << "128 + n: killed by signal n; -1: the send hangs";
}

INSTANTIATE_TEST_SUITE_P(Of, Doorbell, testing::Values("broken pipe", "full pipe", "full counter"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// Arguments DIRECTORY LIE.
int sender(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0));
  const Service service = make_service(context, kService);
  const std::uint64_t target = only_context(arguments.at(0));
  if (!service || target == 0) return 4;
  Process process("liar", {arguments.at(0), std::to_string(target), arguments.at(1), "1"});
  if (!receive(service)) return 5;
  // A refusal is as good as a successful send.
  (void)send_short(service, kLiar, 1);
  (void)send_short(service, kLiar, 2);
  return 0;
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"liar", fault::liar}, {"sender", fault::sender}}); }
