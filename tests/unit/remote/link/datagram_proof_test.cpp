// SPDX-License-Identifier: Apache-2.0
#include "remote/link/datagram_proof.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace ripc::internal::remote {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kPatience = 100 * kMillisecond;  // how long the other end waits before it says that nothing came

// The other end is one millisecond away. The path takes the datagrams that the test lets through.
class ProofTest : public testing::Test {
 protected:
  // Takes the steps that are due until there is a verdict, or a second is over. `number`: index of the datagram, from
  // 0.
  DatagramProof::Verdict run(bool sent, const std::function<bool(unsigned number)>& comes,
                             const std::function<bool(unsigned number)>& comes_back, bool answers = true) {
    proof_.begin(now_, sent);
    Nanoseconds answer_at = DatagramProof::kNever;
    bool arrived = sent && comes(0);
    const Nanoseconds end = now_ + 1'000 * kMillisecond;
    for (; proof_.running() && now_ < end; now_ += kMillisecond) {
      if (now_ >= answer_at) {
        answer_at = DatagramProof::kNever;
        if (comes_back(answers_++)) proof_.received();
        proof_.answered(arrived, now_);
        arrived = false;
      }
      const DatagramProof::Step step = proof_.step(now_);
      if (step.greet && comes(greetings_++)) arrived = true;
      if (step.ask && answers) answer_at = now_ + (arrived ? 2 * kMillisecond : kPatience);
    }
    return proof_.verdict();
  }
  static bool always(unsigned) { return true; }
  static bool never(unsigned) { return false; }

  DatagramProof proof_;
  Nanoseconds now_ = 5;
  unsigned greetings_ = 0, answers_ = 0;
};

TEST_F(ProofTest, APathThatWorksIsProvenInOneRoundTripWithOneGreeting) {
  EXPECT_EQ(run(false, always, always), DatagramProof::Verdict::through);
  EXPECT_LE(now_, 5 * kMillisecond);
  EXPECT_LE(greetings_, 2u);
}

TEST_F(ProofTest, SentDatagramsProveAPathInUseWithoutAGreeting) {
  EXPECT_EQ(run(true, always, always), DatagramProof::Verdict::through);
  EXPECT_EQ(greetings_, 0u);
}

TEST_F(ProofTest, APathThatTakesNothingThereIsBlocked) {
  EXPECT_EQ(run(false, never, never), DatagramProof::Verdict::blocked);
  EXPECT_LE(now_, 300 * kMillisecond);
  EXPECT_EQ(run(true, never, always), DatagramProof::Verdict::blocked);
}

TEST_F(ProofTest, APathThatTakesNothingBackIsBlocked) {
  EXPECT_EQ(run(false, always, never), DatagramProof::Verdict::blocked);
  EXPECT_EQ(run(true, always, never), DatagramProof::Verdict::blocked);
}

TEST_F(ProofTest, LostGreetingsDoNotBlockAPath) {
  EXPECT_EQ(run(
                false, [](unsigned number) { return number == 5; }, always),
            DatagramProof::Verdict::through);
  EXPECT_EQ(run(false, always, [](unsigned number) { return number % 6 == 5; }), DatagramProof::Verdict::through);
}

TEST_F(ProofTest, APeerThatSaysNothingIsNotJudgedAndNotFlooded) {
  EXPECT_EQ(run(false, always, always, false), DatagramProof::Verdict::open);
  EXPECT_LE(greetings_, 8u);
}

}  // namespace
}  // namespace ripc::internal::remote
