// SPDX-License-Identifier: Apache-2.0
// The questions that a transport has asked its peers, until the answers come or no one waits for them any more.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/status.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::spi {

// Replaces a status that no honest peer answers, because it would be mistaken for a state of this process. `also`: a
// further status that the protocol allows.
inline ripc_status checked_answer(ripc_status status, ripc_status also) noexcept {
  switch (status) {
    case RIPC_OK:
    case RIPC_NO_SERVICE:
    case RIPC_REFUSED:
    case RIPC_NO_MEMORY:
    case RIPC_NO_DESCRIPTORS:
    case RIPC_LIMIT:
      return status;
    default:
      return status == also ? status : RIPC_CORRUPT;
  }
}

// For the thread that holds the transport's mutex. `Peer`: a pointer that tells peers apart.
template <typename Peer, typename Answer>
class QuestionTable {
 public:
  struct Question {
    explicit Question(Peer asked) : peer(std::move(asked)) {}

    const Peer peer;
    bool answered = false;  // or the peer is lost
    ripc_status status = RIPC_PENDING;
    Answer answer{};
  };
  using QuestionPointer = std::shared_ptr<Question>;

  // Returns the number that the peer repeats in its answer. Throws std::bad_alloc.
  std::uint64_t add(QuestionPointer question) {
    questions_.emplace(next_, std::move(question));
    return next_++;
  }

  // The asker stops waiting. Returns what it learned. `sent`: whether the peer was asked; `is_over`: whether the wait
  // ended before its deadline.
  Status take_out(std::uint64_t number, const Question& question, ripc_status sent, bool is_over) {
    questions_.erase(number);
    if (sent != RIPC_OK) return sent;
    if (!is_over) return RIPC_TIMEOUT;
    return question.answered ? question.status : RIPC_CLOSED;
  }

  // The peer answers; keep(answer) stores the answer. False: no honest peer can have sent it.
  template <typename Keep>
  bool answer(std::uint64_t number, const Peer& peer, ripc_status status, Keep&& keep) {
    const auto found = questions_.find(number);
    // No one waits any more: the asker has closed the link already.
    if (found == questions_.end()) return true;
    Question& question = *found->second;
    if (question.peer != peer || question.answered) return false;
    keep(question.answer);
    question.status = status;
    question.answered = true;
    return true;
  }

  // The peer is lost.
  void end(const Peer& peer, ripc_status status) noexcept {
    for (auto& [number, question] : questions_) {
      if (question->peer != peer || question->answered) continue;
      question->answered = true;
      question->status = status;
    }
  }

 private:
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, QuestionPointer> questions_;
};

}  // namespace ripc::internal::spi
