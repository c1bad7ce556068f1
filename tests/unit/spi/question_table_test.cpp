// SPDX-License-Identifier: Apache-2.0
#include "spi/question_table.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ripc::internal::spi {
namespace {

using PeerPointer = std::shared_ptr<int>;
using Questions = QuestionTable<PeerPointer, std::string>;

class QuestionTableTest : public testing::Test {
 protected:
  bool answer(std::uint64_t number, const PeerPointer& peer, ripc_status status = RIPC_OK) {
    return questions_.answer(number, peer, status, [](std::string& kept) { kept = "yes"; });
  }

  const PeerPointer peer_ = std::make_shared<int>(1), other_ = std::make_shared<int>(2);
  Questions questions_;
  const Questions::QuestionPointer question_ = std::make_shared<Questions::Question>(peer_);
  const std::uint64_t number_ = questions_.add(question_);
};

TEST_F(QuestionTableTest, KeepsTheAnswerForTheAsker) {
  EXPECT_FALSE(question_->answered);
  EXPECT_TRUE(answer(number_, peer_, RIPC_NO_SERVICE));
  EXPECT_TRUE(question_->answered);
  EXPECT_EQ(question_->answer, "yes");
  EXPECT_EQ(questions_.take_out(number_, *question_, RIPC_OK, true).code(), RIPC_NO_SERVICE);
}

TEST_F(QuestionTableTest, NoOneElseCanAnswerAndNoOneTwice) {
  EXPECT_FALSE(answer(number_, other_));
  EXPECT_FALSE(question_->answered);
  EXPECT_TRUE(answer(number_, peer_));
  EXPECT_FALSE(answer(number_, peer_));
}

TEST_F(QuestionTableTest, AnAnswerThatComesTooLateBreaksNothing) {
  EXPECT_EQ(questions_.take_out(number_, *question_, RIPC_OK, false).code(), RIPC_TIMEOUT);
  EXPECT_TRUE(answer(number_, peer_));
  EXPECT_FALSE(question_->answered);
}

TEST_F(QuestionTableTest, TheEndOfAPeerEndsItsQuestionsOnly) {
  const auto to_other = std::make_shared<Questions::Question>(other_);
  const std::uint64_t number = questions_.add(to_other);
  questions_.end(peer_, RIPC_PEER_DEAD);
  EXPECT_EQ(questions_.take_out(number_, *question_, RIPC_OK, true).code(), RIPC_PEER_DEAD);
  EXPECT_FALSE(to_other->answered);
  EXPECT_TRUE(answer(number, other_));
}

TEST_F(QuestionTableTest, TellsWhyThereIsNoAnswer) {
  EXPECT_EQ(questions_.take_out(number_, *question_, RIPC_NO_MEMORY, false).code(), RIPC_NO_MEMORY);
  const std::uint64_t again = questions_.add(question_);
  EXPECT_NE(again, number_);
  // The wait is over because the transport has stopped.
  EXPECT_EQ(questions_.take_out(again, *question_, RIPC_OK, true).code(), RIPC_CLOSED);
}

}  // namespace
}  // namespace ripc::internal::spi
