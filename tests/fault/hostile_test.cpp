// SPDX-License-Identifier: Apache-2.0
// Tests a hostile sender of the same user, while an honest peer talks to the same service. The hostile sender is a
// separate process, because an honest service writes into its peers' memory where they ask for it. RIPC_FAULT_SEED
// chooses its garbage.
#include "hostile.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "scribbler.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kHonest = 1003;

// ---- The hostile process -----------------------------------------------------------------------------------------

// Arguments DIRECTORY CONTEXT KIND. Floods the context as KIND says, creates the file DIRECTORY/ready, and stays.
int flooder(const std::vector<std::string>& arguments) {
  const std::string& kind = arguments.at(2);
  Hostile hostile(arguments.at(0), std::stoull(arguments.at(1)));
  if (!hostile.connected() || !hostile.greet()) return 1;
  raise_descriptor_limit(4096);
  std::vector<std::unique_ptr<Hostile>> others;
  if (kind == "open") {
    for (std::uint64_t link = 1; link <= 3000; ++link) {
      std::vector<std::byte> bytes;
      control::encode(control::Open{link, kService, link, 0, 0}, bytes);
      // Without reading a single answer.
      if (!hostile.send_raw(bytes)) break;
    }
  } else if (kind == "arena") {
    for (std::uint32_t id = 1; id <= 3000; ++id) {
      const ripc::internal::UniqueFd arena = make_memfd(4096, true);
      const std::array<int, 1> descriptor{arena.get()};
      if (!hostile.send(control::Arena{id, 0, 4096}, descriptor)) break;
    }
  } else if (kind == "huge arena") {
    for (std::uint32_t id = 1; id <= 127; ++id) {
      const std::size_t size = std::size_t{1} << 40;
      const ripc::internal::UniqueFd arena = make_memfd(size, true);
      const std::array<int, 1> descriptor{arena.get()};
      if (!hostile.send(control::Arena{id, 0, size}, descriptor)) break;
    }
  } else if (kind == "connect") {
    for (int count = 0; count < 300; ++count)
      others.push_back(std::make_unique<Hostile>(arguments.at(0), std::stoull(arguments.at(1))));
  }
  // An answer to this last question shows that everything before it was read. The answer may be lost among those that
  // were not read, so the question is repeated.
  const bool answered = eventually([&] {
    (void)hostile.closed();
    hostile.send(control::Fence{.request = 77, .service = 1, .incarnation = 1});
    return hostile.wait_for<control::Fenced>(100 * kMillisecond).has_value();
  });
  if (!answered) return 1;
  std::ofstream(arguments.at(0) + "/ready") << "ready";
  for (;;) pause();
}

// ---- The honest processes ----------------------------------------------------------------------------------------

class HostileSender : public testing::Test {
 protected:
  void SetUp() override {
    context_ = make_context(directory_.path(), 256 << 20);
    ASSERT_TRUE(context_);
    target_ = only_context(directory_.path());
    ASSERT_NE(target_, 0u);
    service_ = make_service(context_, kService, [](ripc_service_options& options) { options.max_senders = 64; });
    other_ = make_service(context_, kOther);
    peer_context_ = make_context(directory_.path(), 256 << 20);
    peer_ = make_service(peer_context_, kHonest);
    ASSERT_TRUE(service_ && other_ && peer_);
    ASSERT_EQ(exchange(service_, peer_, 1), "");
    ASSERT_EQ(exchange(other_, peer_, 2), "");
  }

  // Expects that honest messages get through, whatever the hostile messages between them look like.
  void exchange_amid_garbage(std::uint64_t seed, std::uint32_t flags) {
    ripc_status sent = RIPC_AGAIN;
    ASSERT_TRUE(eventually([&] { return (sent = send_short(peer_, kService, seed)) != RIPC_AGAIN; }));
    ASSERT_EQ(sent, RIPC_OK) << ripc_last_error();
    std::vector<std::byte> bytes = make_item(20000, seed + 1);
    const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_LONG, 0};
    ripc_ticket* ticket = nullptr;
    const bool with_long = (flags & RIPC_RECEIVE_LEND) != 0;
    if (with_long) {
      ASSERT_EQ(ripc_send(peer_.get(), kService, &item, 1, nullptr, &ticket), RIPC_OK) << ripc_last_error();
    }
    const Ticket owned(ticket);
    const int expected = with_long ? 2 : 1;
    int found = 0;
    ASSERT_TRUE(eventually([&] {
      while (const Message message = receive(service_, 0, flags)) {
        if (ripc_message_get_source(message.get()) == kHonest) {
          EXPECT_EQ(flaw_of(message.get()), "");
          ++found;
          continue;
        }
        // Hostile views must at least be readable, and an answer to garbage must do no harm.
        unsigned sum = 0;
        for (std::size_t index = 0; index < ripc_message_get_item_count(message.get()); ++index) {
          ripc_item_view view{};
          EXPECT_EQ(ripc_message_get_item(message.get(), index, &view), RIPC_OK);
          if (view.data == nullptr) continue;
          const auto* data = static_cast<const unsigned char*>(view.data);
          for (std::size_t at = 0; at < view.size; at += 512) sum += data[at];
          if (view.size != 0) sum += data[view.size - 1];
        }
        guard_ = guard_ + sum;
        const ripc_item answer{bytes.data(), 64, RIPC_ITEM_RETURN, 0};
        ripc_send_options options;
        ripc_send_options_init(&options);
        options.timeout = 100 * kMillisecond;
        if (ripc_message_get_return_count(message.get()) != 0 && replies_++ < 20)
          (void)ripc_reply(service_.get(), message.get(), &answer, 1, &options, nullptr);
      }
      return found == expected;
    })) << found
        << " of " << expected;
    if (ticket != nullptr) {
      EXPECT_EQ(ripc_ticket_wait(ticket, kLimit), RIPC_OK);
    }
  }

  void expect_back_to(std::size_t descriptors) {
    EXPECT_TRUE(eventually([&] {
      while (receive(service_, 0)) {
      }
      // An arena that the pool has made meanwhile stays.
      return descriptor_count() <= descriptors + pool_statistics_of(context_).arenas;
    })) << descriptor_count()
        << " descriptors, " << descriptors << " before";
    EXPECT_TRUE(eventually([&] { return pool_statistics_of(context_).leased == 0; }));
    EXPECT_EQ(statistics_of(service_).senders, 1u) << "only the honest sender is left";
    EXPECT_EQ(exchange(service_, peer_, 3), "");
    EXPECT_EQ(exchange(other_, peer_, 4), "");
  }

  void start_flood(const std::string& kind) {
    flood_ = Process("flooder", {directory_.path(), std::to_string(target_), kind});
    ASSERT_TRUE(eventually([&] {
      while (receive(service_, 0, RIPC_RECEIVE_LEND)) {
      }
      return access((directory_.path() + "/ready").c_str(), F_OK) == 0;
    }));
  }

  TemporaryDirectory directory_;
  Context context_, peer_context_;
  Service service_, other_, peer_;
  std::uint64_t target_ = 0;
  Process flood_;
  int replies_ = 0;
  volatile unsigned guard_ = 0;
};

TEST_F(HostileSender, GarbageInSharedMemoryDisturbsNoHonestPeer) {
  const std::uint64_t seed = number_from_environment("RIPC_FAULT_SEED", 7);
  const std::uint64_t rounds = number_from_environment("RIPC_FAULT_HOSTILE_ROUNDS", 30);
  std::printf("RIPC_FAULT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const std::size_t descriptors = descriptor_count();
  const std::size_t memory = resident_bytes();
  Process process("scribbler",
                  {directory_.path(), std::to_string(target_), std::to_string(seed), std::to_string(rounds)});
  std::uint64_t number = 0;
  int status = -1;
  while (status == -1 && !HasFatalFailure()) {
    ++number;
    exchange_amid_garbage(10 * number, number % 2 == 0 ? 0u : std::uint32_t{RIPC_RECEIVE_LEND});
    // A dead sender keeps its doorbell and its connection until the receiver has looked at its queue.
    ASSERT_LE(descriptor_count(), descriptors + 3 * 64 + 8);
    status = process.wait(0);
  }
  EXPECT_EQ(status, 0) << "the hostile process could not even connect";
  EXPECT_GT(statistics_of(service_).packets_corrupt, 0u) << "the garbage was looked at";
  std::printf("%llu honest exchanges; %llu packets refused\n", static_cast<unsigned long long>(number),
              static_cast<unsigned long long>(statistics_of(service_).packets_corrupt));
  expect_back_to(descriptors);
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), memory + (64 << 20));
  }
}

TEST_F(HostileSender, OpeningLinksWithoutEndGivesAFewAndLeavesMaxSendersToOthers) {
  constexpr std::size_t kLinks = 8;
  const std::size_t descriptors = descriptor_count();
  start_flood("open");
  EXPECT_EQ(statistics_of(service_).senders, 1 + kLinks);
  // Each link holds one doorbell, and an answer that was not read yet holds at most three more descriptors.
  EXPECT_LE(descriptor_count(), descriptors + 4 * kLinks + 8);
  exchange_amid_garbage(5, 0);
  EXPECT_EQ(exchange(other_, peer_, 6), "");
  flood_.kill();
  expect_back_to(descriptors);
}

TEST_F(HostileSender, AnnouncingArenasWithoutEndIsBounded) {
  const std::size_t descriptors = descriptor_count();
  const std::size_t mappings = mapping_count();
  start_flood("arena");
  EXPECT_LE(mapping_count(), mappings + 4096 + 64);
  EXPECT_LE(descriptor_count(), descriptors + 8);
  exchange_amid_garbage(5, RIPC_RECEIVE_LEND);
  flood_.kill();
  expect_back_to(descriptors);
  EXPECT_TRUE(eventually([&] { return mapping_count() <= mappings + (kSanitized ? 2000 : 64); }));
}

TEST_F(HostileSender, HugeArenasLeaveAddressSpaceForOthers) {
  start_flood("huge arena");
  constexpr std::size_t size = std::size_t{2} << 40;
  void* const space = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(space, MAP_FAILED) << "one peer used up the address space of the process";
  if (space != MAP_FAILED) munmap(space, size);
  exchange_amid_garbage(5, RIPC_RECEIVE_LEND);
}

TEST_F(HostileSender, ConnectionsThatNeverGreetAreHarmless) {
  raise_descriptor_limit(4096);
  const std::size_t descriptors = descriptor_count();
  start_flood("connect");
  exchange_amid_garbage(5, RIPC_RECEIVE_LEND);
  flood_.kill();
  expect_back_to(descriptors);
}

TEST_F(HostileSender, ALinkThatIsClosedDeliversWhatWasSentAndNotWhatIsWrittenForEver) {
  constexpr ripc_service_id kTarget = 1005;
  const Service target = make_service(context_, kTarget);
  Hostile hostile(directory_.path(), target_);
  ASSERT_TRUE(target && hostile.connected() && hostile.greet());
  auto link = hostile.open(kTarget, 1);
  ASSERT_TRUE(link);
  const std::vector<std::byte> packet = short_packet(kLiar, make_item(24, 1));
  link->commit(packet);
  ASSERT_TRUE(receive(target));
  ASSERT_TRUE(hostile.send(control::CloseLink{.link = 1}));
  // The answer shows that the end of the link was read.
  ASSERT_TRUE(hostile.send(control::Fence{.request = 77, .service = 1, .incarnation = 1}));
  ASSERT_TRUE(hostile.wait_for<control::Fenced>());
  // From here on, the queue is never empty.
  link->commit(packet);
  std::uint32_t delivered = 0;
  do {
    link->commit(packet);
  } while (receive(target, 0) && ++delivered <= link->geometry.cells);
  EXPECT_LE(delivered, link->geometry.cells);
  EXPECT_EQ(statistics_of(target).senders, 0u);
}

TEST_F(HostileSender, WrongArenaDescriptorsEndTheConnectionOnly) {
  const ripc::internal::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const ripc::internal::UniqueFd folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const ripc::internal::UniqueFd unsealed = make_memfd(1 << 20, false);
  const ripc::internal::UniqueFd small = make_memfd(4096, true);
  for (const int descriptor : {null.get(), folder.get(), unsealed.get(), small.get(), -1}) {
    Hostile hostile(directory_.path(), target_);
    ASSERT_TRUE(hostile.connected() && hostile.greet());
    const std::array<int, 1> one{descriptor};
    ASSERT_TRUE(hostile.send(control::Arena{1, 0, 1 << 20}, descriptor < 0 ? std::span<const int>() : one));
    EXPECT_TRUE(eventually([&] { return hostile.closed(); })) << "descriptor " << descriptor;
    EXPECT_EQ(exchange(service_, peer_, 2), "");
  }
}

TEST_F(HostileSender, TruncatedAndForeignDatagramsEndTheConnectionOnly) {
  std::vector<std::byte> whole;
  control::encode(control::Open{1, kService, 1, 0, 0}, whole);
  for (std::size_t length = 1; length <= whole.size(); ++length) {
    Hostile hostile(directory_.path(), target_);
    ASSERT_TRUE(hostile.connected() && hostile.greet());
    std::vector<std::byte> bytes = whole;
    if (length < whole.size()) {
      bytes.resize(length);
    } else {
      bytes[1] = std::byte{99};
    }
    ASSERT_TRUE(hostile.send_raw(bytes));
    EXPECT_TRUE(eventually([&] { return hostile.closed(); })) << length;
  }
  EXPECT_EQ(exchange(service_, peer_, 2), "");
}

TEST_F(HostileSender, AMessageBeforeTheGreetingEndsTheConnectionOnly) {
  Hostile hostile(directory_.path(), target_);
  ASSERT_TRUE(hostile.connected());
  ASSERT_TRUE(hostile.send(control::Open{1, kService, 1, 0, 0}));
  EXPECT_TRUE(eventually([&] { return hostile.closed(); }));
  EXPECT_EQ(exchange(service_, peer_, 2), "");
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) {
  return fault::run(argc, argv, {{"scribbler", fault::scribbler}, {"flooder", fault::flooder}});
}
