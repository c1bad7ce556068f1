// SPDX-License-Identifier: Apache-2.0
// Finds out whether a link's datagrams get through, in both directions. Decides when the opener greets the other end by
// UDP, when it asks by TCP what has come, and what the answers mean. Filtered UDP datagrams vanish without an error.
#pragma once

#include <algorithm>

#include "base/backoff.hpp"
#include "base/clock.hpp"

namespace ripc::internal::remote {

// One thread at a time.
class DatagramProof {
 public:
  enum class Verdict { open, through, blocked };
  static constexpr Nanoseconds kNever = UINT64_MAX;
  // What to do now, in this order, and when to call step() again.
  struct Step {
    bool greet = false;
    bool ask = false;
    Nanoseconds next = kNever;
  };

  // Begins, or begins again. `sent`: datagrams have gone out already. A greeting costs room that no one has granted,
  // and a receiver that reads nothing for long must not be flooded with them.
  void begin(Nanoseconds now, bool sent) noexcept {
    *this = {};
    verdict_ = Verdict::open;
    greet_at_ = sent ? kNever : now;
    ask_at_ = now;
  }
  bool running() const noexcept { return verdict_ == Verdict::open; }
  Verdict verdict() const noexcept { return verdict_; }

  Step step(Nanoseconds now) noexcept {
    if (!running()) return {};
    Step step;
    step.ask = now >= ask_at_;
    step.greet = now >= greet_at_;
    if (step.ask) ask_at_ = kNever;
    if (step.greet) {
      const Nanoseconds pause = pause_.next();
      greet_at_ = ++greetings_ < kMostGreetings && !forward_ ? now + pause : kNever;
    }
    step.next = std::min(ask_at_, greet_at_);
    return step;
  }

  // Any datagram of the other end has come.
  void received() noexcept {
    backward_ = true;
    conclude();
  }

  // The other end has answered the question.
  void answered(bool arrived, Nanoseconds now) noexcept {
    if (!running()) return;
    greetings_ = 0;
    if (arrived) {
      forward_ = true;
      // Its greeting came before the answer, unless it was lost.
      if (!backward_ && ++silences_ == kMostSilences) verdict_ = Verdict::blocked;
      ask_at_ = now + silences_ * kFirstPause * kFirstPauses;
    } else {
      if (++denials_ == kMostDenials) verdict_ = Verdict::blocked;
      pause_.reset();
      greet_at_ = ask_at_ = now;
    }
    conclude();
  }

 private:
  static constexpr Nanoseconds kFirstPause = 2'000'000;
  static constexpr Nanoseconds kLongestPause = 64'000'000;
  // The pause before the next question, in kFirstPause, is this many for each answer so far without a greeting.
  static constexpr unsigned kFirstPauses = 4;
  static constexpr unsigned kMostGreetings = 7;  // between two answers; they need no credit
  static constexpr unsigned kMostDenials = 2;    // each after a patience of the other end's
  static constexpr unsigned kMostSilences = 8;   // greetings of the other end that did not come

  void conclude() noexcept {
    if (running() && forward_ && backward_) verdict_ = Verdict::through;
  }

  Verdict verdict_ = Verdict::through;
  bool forward_ = false, backward_ = false;
  unsigned greetings_ = 0, denials_ = 0, silences_ = 0;
  Backoff pause_{kFirstPause, kLongestPause};
  Nanoseconds greet_at_ = kNever, ask_at_ = kNever;
};

}  // namespace ripc::internal::remote
