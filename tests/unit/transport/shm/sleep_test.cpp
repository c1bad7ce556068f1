// SPDX-License-Identifier: Apache-2.0
// What a sleeping receiver costs the processors of its senders.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <thread>

#include "../../base/process_helpers.hpp"
#include "base/process_barrier.hpp"
#include "ripc/ripc.h"
#include "support/handles.hpp"
#include "support/initialized.hpp"

namespace ripc::internal::shm {
namespace {

constexpr std::uint64_t kMoment = 1'000'000;
constexpr std::uint64_t kPatience = 20'000'000'000;
constexpr int kAwakeAgain = 256;

// Each barrier interrupts the processors that run processes with a context.
std::atomic<std::uint64_t> barriers{0};

// A context without spinning, with one service.
class Side {
 public:
  explicit Side(const std::string& directory) {
    ripc_context_options options = support::initialized(ripc_context_options_init);
    options.runtime_directory = directory.c_str();
    options.transports = "shm";
    options.spin = 0;
    ripc_context* context = nullptr;
    EXPECT_EQ(ripc_context_create(&options, &context), RIPC_OK) << ripc_last_error();
    context_.reset(context);
    ripc_service* service = nullptr;
    EXPECT_EQ(ripc_service_register(context, nullptr, &service), RIPC_OK) << ripc_last_error();
    service_.reset(service);
  }

  ripc_status send_to(const Side& other) const {
    return ripc_send(service_.get(), ripc_service_get_id(other.service_.get()), &kItem, 1, nullptr, nullptr);
  }
  ripc_status receive(std::uint64_t timeout) const {
    ripc_message* message = nullptr;
    const ripc_status status = ripc_receive(service_.get(), 0, timeout, &message);
    ripc_message_release(message);
    return status;
  }
  std::uint64_t sleeps() const {
    ripc_service_statistics statistics = support::initialized(ripc_service_statistics_init);
    EXPECT_EQ(ripc_service_get_statistics(service_.get(), &statistics), RIPC_OK);
    return statistics.sleeps;
  }

 private:
  static constexpr ripc_item kItem{"x", 1, RIPC_ITEM_SHORT, 0};
  support::Context context_;
  support::Service service_;
};

class ShmSleep : public testing::Test {
 protected:
  void SetUp() override {
    if (!register_process_barrier()) GTEST_SKIP() << "the kernel has no membarrier";
  }
  const test::TemporaryDirectory directory_;
  const Side one_{directory_.path()};
  const Side other_{directory_.path()};
};

TEST_F(ShmSleep, ManyInARowTakeOneBarrier) {
  constexpr int kRounds = 200;
  ASSERT_EQ(one_.send_to(other_), RIPC_OK);
  ASSERT_EQ(other_.receive(kPatience), RIPC_OK);
  std::atomic<bool> failed{false};
  std::thread answering([&] {
    for (int round = 0; round < kRounds && !failed; ++round)
      failed = other_.receive(kPatience) != RIPC_OK || other_.send_to(one_) != RIPC_OK;
  });
  const std::uint64_t before = barriers;
  for (int round = 0; round < kRounds && !failed; ++round)
    failed = one_.send_to(other_) != RIPC_OK || one_.receive(kPatience) != RIPC_OK;
  answering.join();
  EXPECT_FALSE(failed);
  EXPECT_GT(one_.sleeps() + other_.sleeps(), 20u) << "they did not sleep";
  EXPECT_LE(barriers - before, 2u);
}

TEST_F(ShmSleep, IsWithoutCostForTheSendersOfAReceiverThatWasAwakeForAWhile) {
  EXPECT_EQ(other_.receive(kMoment), RIPC_TIMEOUT);
  std::uint64_t before = barriers;
  EXPECT_EQ(other_.receive(kMoment), RIPC_TIMEOUT);
  EXPECT_EQ(barriers, before) << "senders knew that it sleeps often";
  for (int number = 0; number < kAwakeAgain; ++number) {
    ASSERT_EQ(one_.send_to(other_), RIPC_OK);
    ASSERT_EQ(other_.receive(0), RIPC_OK);
  }
  before = barriers;
  EXPECT_EQ(other_.receive(kMoment), RIPC_TIMEOUT);
  EXPECT_EQ(barriers - before, 1u) << "senders were not told that they need no fence";
}

}  // namespace
}  // namespace ripc::internal::shm

// Replaces the C library's syscall(), to count the barriers.
// NOLINTNEXTLINE(cert-dcl50-cpp,readability-inconsistent-declaration-parameter-name): it is declared so
extern "C" long syscall(long number, ...) noexcept {
  static const auto kReal = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (number == SYS_membarrier && words[0] == MEMBARRIER_CMD_GLOBAL_EXPEDITED) ++ripc::internal::shm::barriers;
  return kReal(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
