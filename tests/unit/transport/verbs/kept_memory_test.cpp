// SPDX-License-Identifier: Apache-2.0
// Memory of the application whose registrations are kept, over a real device.
#include <sys/mman.h>

#include <algorithm>

#include "nodes.hpp"

namespace ripc::verbs {
namespace {

constexpr std::size_t kKeptBytes = 64 << 10;

std::byte* map_memory(std::byte fill, void* at = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* const made = ::mmap(at, kKeptBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  auto* const bytes = static_cast<std::byte*>(made);
  std::fill_n(bytes, kKeptBytes, fill);
  return bytes;
}

class KeptMemory : public Nodes {
 protected:
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const Status status = memory::MappingWatch::available();
    if (!status.ok()) GTEST_SKIP() << status.text();
    if (!fabric_->devices().front()->windows) GTEST_SKIP() << "what is opened to a peer without windows is not kept";
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    receive(1);
  }

  // One item from the client's memory into the server's.
  void transfer(std::byte* from, std::byte* to) {
    LongItem item;
    ASSERT_NO_FATAL_FAILURE(item.begin(*client_, *channel_, *sink_.source, {from, kKeptBytes}, to));
    spi::Pull& pull = item.pull;
    const Deadline deadline = Deadline::after(kLimit);
    while (pull.status == RIPC_PENDING && !deadline.expired()) (void)sink_.source->pull(pull);
    ASSERT_EQ(pull.status, RIPC_OK);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = sink_.source->finish(pull.descriptor, RIPC_OK);
    ASSERT_EQ(status, RIPC_OK);
    ASSERT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
};

TEST_F(KeptMemory, IsRegisteredForItsFirstUseAndOnceForAllLaterOnes) {
  std::byte* const from = map_memory(std::byte{1});
  std::byte* const to = map_memory(std::byte{0});
  for (int round = 1; round <= 20; ++round) {
    std::fill_n(from, kKeptBytes, static_cast<std::byte>(round));
    transfer(from, to);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(std::equal(from, from + kKeptBytes, to)) << "round " << round;
  }
  for (Node* const node : {client_.get(), server_.get()}) {
    EXPECT_EQ(node->transport().cache_counters().misses, 2u);
    EXPECT_EQ(node->transport().cache_counters().hits, 18u);
  }
  ::munmap(from, kKeptBytes);
  ::munmap(to, kKeptBytes);
}

// Reading maps one page of zeros everywhere, which the first write exchanges.
TEST_F(KeptMemory, ThatHadOnlyBeenReadShowsWhatIsWrittenLater) {
  std::byte* const from = map_memory(std::byte{1});
  std::byte* const to = map_memory(std::byte{1});
  ASSERT_EQ(::madvise(from, kKeptBytes, MADV_DONTNEED), 0);
  const auto* const read = static_cast<const volatile std::byte*>(from);
  for (std::size_t index = 0; index < kKeptBytes; ++index) {
    const std::byte value = read[index];
    ASSERT_EQ(value, std::byte{0});
  }
  // The first use keeps nothing.
  for (const std::byte fill : {std::byte{0}, std::byte{0}, std::byte{7}}) {
    if (fill != std::byte{0}) std::fill_n(from, kKeptBytes, fill);
    transfer(from, to);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(std::equal(from, from + kKeptBytes, to));
  }
  EXPECT_EQ(client_->transport().cache_counters().hits, 1u);
  ::munmap(from, kKeptBytes);
  ::munmap(to, kKeptBytes);
}

TEST_F(KeptMemory, MappedAgainAtTheSameAddressBringsTheNewBytesToTheNewWindow) {
  std::byte* from = map_memory(std::byte{1});
  std::byte* to = map_memory(std::byte{0});
  for (int round = 1; round <= 100; ++round) {
    transfer(from, to);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(std::equal(from, from + kKeptBytes, to)) << "round " << round;
    ::munmap(from, kKeptBytes);
    from = map_memory(static_cast<std::byte>(round), from);
    if (round % 2 == 0) {
      ::munmap(to, kKeptBytes);
      to = map_memory(std::byte{0}, to);
    }
    ASSERT_NE(from, nullptr);
    ASSERT_NE(to, nullptr);
  }
  ::munmap(from, kKeptBytes);
  ::munmap(to, kKeptBytes);
}

}  // namespace
}  // namespace ripc::verbs
