// SPDX-License-Identifier: Apache-2.0
// Tests contexts that end properly, but at any moment, while others connect and send to them. A sender learns that they
// are gone, and nothing else. RIPC_FAULT_ROUNDS sets the number of rounds, RIPC_FAULT_SEED chooses the moments.
#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fault_support.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kEnding = 1002;
constexpr std::uint64_t kLatestEnd = 600'000;  // nanoseconds after the first message was sent

bool says_gone(ripc_status status) {
  return status == RIPC_NO_SERVICE || status == RIPC_PEER_DEAD || status == RIPC_CLOSED;
}

// Send short and long messages until the other side is gone, and record every other failure.
class Senders {
 public:
  explicit Senders(const Service& service) : service_(service) {}

  void send_until_gone(bool is_long) {
    const std::vector<std::byte> item = make_item(is_long ? 20'000 : 64, 7);
    const ripc_item sent{item.data(), item.size(),
                         static_cast<std::uint32_t>(is_long ? RIPC_ITEM_LONG : RIPC_ITEM_SHORT), 0};
    for (const std::uint64_t until = now() + kLimit; now() < until;) {
      ripc_ticket* made = nullptr;
      const ripc_status status = ripc_send(service_.get(), kEnding, &sent, 1, nullptr, is_long ? &made : nullptr);
      const Ticket ticket(made);
      if (ticket) (void)ripc_ticket_cancel(ticket.get());
      if (says_gone(status)) return;
      if (status != RIPC_OK && status != RIPC_AGAIN && status != RIPC_LIMIT) {
        note(ripc_status_name(status) + std::string(": ") + ripc_last_error());
        return;
      }
    }
    note("never gone");
  }
  std::set<std::string> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  void note(std::string what) {
    const std::lock_guard lock(mutex_);
    heard_.insert(std::move(what));
  }

  const Service& service_;
  mutable std::mutex mutex_;
  std::set<std::string> heard_;
};

// A busy machine must not make resolving time out.
Context make_patient_context(const std::string& directory, const char* transport) {
  ripc_context_options options = context_options(directory);
  options.transports = transport;
  options.resolve_timeout = kLimit;
  return make_context(options);
}

class Ending : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Over, Ending, testing::Values("shm", "socket"), [](const auto& one) { return one.param; });

TEST_P(Ending, ASenderToAContextThatEndsLearnsThatItIsGone) {
  const auto [rounds, seed] = rounds_from_environment();
  Random random(seed);
  const TemporaryDirectory directory;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Context context = make_patient_context(directory.path(), GetParam());
    const Service service = make_service(context, 0);
    Context other = make_patient_context(directory.path(), GetParam());
    Service ending = make_service(other, kEnding);
    ASSERT_TRUE(service && ending);
    Senders senders(service);
    std::barrier start(4);
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; ++number) {
      threads.emplace_back([&, number] {
        start.arrive_and_wait();
        senders.send_until_gone(number == 0);
      });
    }
    start.arrive_and_wait();
    const std::uint64_t until = now() + random.below(kLatestEnd);
    while (now() < until) {
    }
    ending.reset();
    other.reset();
    for (std::thread& thread : threads) thread.join();
    for (const std::string& heard : senders.heard()) ADD_FAILURE() << heard;
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {}); }
