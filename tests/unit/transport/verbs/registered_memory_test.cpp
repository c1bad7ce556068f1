// SPDX-License-Identifier: Apache-2.0
// Memory that the application has registered (ripc_memory_register), over a real device: the device registers it once.
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "altered_device.hpp"
#include "nodes.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr std::size_t kRegisteredBytes = 64 << 10;

// Private anonymous memory, registered with a pool.
class Memory {
 public:
  Memory(memory::Pool& pool, std::byte fill) : pool_(pool) {
    map(nullptr, fill);
    enroll();
  }
  ~Memory() {
    (void)pool_.unregister_memory(data_);
    ::munmap(data_, kRegisteredBytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  std::span<std::byte> bytes() const { return {data_, kRegisteredBytes}; }
  void enroll() { ASSERT_TRUE(pool_.register_memory(data_, kRegisteredBytes).ok()); }
  void leave() { ASSERT_TRUE(pool_.unregister_memory(data_).ok()); }
  // Maps other pages at the same address.
  void exchange(std::byte fill) { map(data_, fill); }

 private:
  void map(void* at, std::byte fill) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0);
    void* const made = ::mmap(at, kRegisteredBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    ASSERT_NE(made, MAP_FAILED);
    data_ = static_cast<std::byte*>(made);
    std::fill_n(data_, kRegisteredBytes, fill);
  }

  memory::Pool& pool_;
  std::byte* data_ = nullptr;
};

class RegisteredMemory : public Nodes {
 protected:
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(devices_->devices().front()->windows) << "without windows each transfer has a registration of its own";
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    receive(1);
  }

  // Transfers one item from the client's memory into the server's.
  void transfer(std::span<std::byte> from, std::byte* to) {
    LongItem item;
    ASSERT_NO_FATAL_FAILURE(item.begin(*client_, *channel_, *sink_.source, from, to));
    spi::Pull& pull = item.pull;
    const Deadline deadline = Deadline::after(kLimit);
    while (pull.status == RIPC_PENDING && !deadline.expired()) (void)sink_.source->pull(pull);
    ASSERT_EQ(pull.status, RIPC_OK);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = sink_.source->finish(pull.descriptor, RIPC_OK);
    ASSERT_EQ(status, RIPC_OK);
    ASSERT_EQ(outcome_of(item.transfer), RIPC_OK);
    ASSERT_TRUE(std::equal(from.begin(), from.end(), to));
  }
  // The first transfer makes the connection with its buffers.
  void warm_up() {
    const auto from = std::make_unique<std::byte[]>(64);
    const auto to = std::make_unique<std::byte[]>(64);
    transfer({from.get(), 64}, to.get());
  }
};

TEST_F(RegisteredMemory, IsRegisteredOnceForAllItsUses) {
  ASSERT_NO_FATAL_FAILURE(warm_up());
  const Registrations made(*devices_);
  const Memory from(client_->pool(), std::byte{1});
  const Memory to(server_->pool(), std::byte{0});
  for (int round = 1; round <= 20; ++round) {
    std::fill_n(from.data(), kRegisteredBytes, static_cast<std::byte>(round));
    ASSERT_NO_FATAL_FAILURE(transfer(from.bytes(), to.data())) << "round " << round;
  }
  EXPECT_EQ(made.count(), 2u) << "one at each end";
}

TEST_F(RegisteredMemory, ThatIsNotIsRegisteredForEachUse) {
  ASSERT_NO_FATAL_FAILURE(warm_up());
  const Registrations made(*devices_);
  Memory from(client_->pool(), std::byte{1});
  from.leave();
  const Memory to(server_->pool(), std::byte{0});
  for (int round = 1; round <= 3; ++round) {
    from.exchange(static_cast<std::byte>(round));
    ASSERT_NO_FATAL_FAILURE(transfer(from.bytes(), to.data())) << "round " << round;
  }
  EXPECT_EQ(made.count(), 4u) << "one at the end whose memory is registered";
}

// Memory that is mapped at its address later is other memory.
TEST_F(RegisteredMemory, IsForgottenWithItsLastRegistration) {
  Memory from(client_->pool(), std::byte{1});
  Memory to(server_->pool(), std::byte{0});
  for (int round = 1; round <= 20; ++round) {
    ASSERT_NO_FATAL_FAILURE(transfer(from.bytes(), to.data())) << "round " << round;
    for (Memory* const one : {&from, &to}) {
      one->leave();
      one->exchange(static_cast<std::byte>(round));
      one->enroll();
    }
  }
}

// Reading maps one page of zeros everywhere; the first write to a page replaces it.
TEST_F(RegisteredMemory, ThatHadOnlyBeenReadShowsWhatIsWrittenLater) {
  const Memory from(client_->pool(), std::byte{1});
  const Memory to(server_->pool(), std::byte{1});
  ASSERT_EQ(::madvise(from.data(), kRegisteredBytes, MADV_DONTNEED), 0);
  ASSERT_TRUE(std::all_of(from.data(), from.data() + kRegisteredBytes,
                          [](const volatile std::byte& value) { return value == std::byte{0}; }));
  ASSERT_NO_FATAL_FAILURE(transfer(from.bytes(), to.data()));
  std::fill_n(from.data(), kRegisteredBytes, std::byte{7});
  ASSERT_NO_FATAL_FAILURE(transfer(from.bytes(), to.data()));
}

TEST_F(RegisteredMemory, IsRegisteredAsAWholeWhereWindowsAreNarrow) {
  Registrar registrar(with_narrow_windows(devices_->devices().front()), client_->pool());
  const Registrations made(*devices_);
  Memory memory(client_->pool(), std::byte{1});
  const auto part = [&](std::size_t start) { return *registrar.for_window(memory.data() + start, 4096, nullptr); };
  const std::weak_ptr<const Region> region = part(0);
  EXPECT_EQ(part(8192), region.lock());
  EXPECT_EQ(registrar.local(memory.data() + 100, 10, true)->region, region.lock());
  EXPECT_EQ(region.lock()->mr()->length, kRegisteredBytes);
  EXPECT_EQ(made.count(), 1u);
  RegionPointer in_use = region.lock();
  registrar.registration_gone(memory.bytes());
  EXPECT_NE(part(0), in_use);
  in_use.reset();
  EXPECT_TRUE(region.expired());
}

// Otherwise a window would open more than its range.
TEST_F(RegisteredMemory, IsRegisteredInThePartsThatAreOpenedWhereWindowsAreNot) {
  ASSERT_FALSE(devices_->devices().front()->narrow_windows);
  Registrar registrar(devices_->devices().front(), client_->pool());
  const Registrations made(*devices_);
  const Memory memory(client_->pool(), std::byte{1});
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t start : {std::size_t{0}, std::size_t{8192}}) {
      const Result<RegionPointer> region = registrar.for_window(memory.data() + start, 4096, nullptr);
      ASSERT_TRUE(region.ok()) << region.status().text();
      EXPECT_EQ((*region)->mr()->addr, memory.data() + start);
      EXPECT_EQ((*region)->mr()->length, 4096u);
    }
  }
  EXPECT_EQ(made.count(), 2u);
  registrar.registration_gone(memory.bytes());
  ASSERT_TRUE(registrar.for_window(memory.data(), 4096, nullptr).ok());
  EXPECT_EQ(made.count(), 3u);
}

}  // namespace
}  // namespace ripc::internal::verbs
