// SPDX-License-Identifier: Apache-2.0
#include "remote/session/dialer.hpp"

#include <algorithm>
#include <new>

namespace ripc::internal::remote {

namespace {

// How long an address is tried alone before the next one is tried, too.
constexpr Nanoseconds kHeadStart = 10'000'000;

// Which of two failures tells more.
int weight(ripc_status status) noexcept {
  switch (status) {
    case RIPC_OK:
      return 0;
    case RIPC_PEER_DEAD:
      return 1;
    case RIPC_TIMEOUT:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

std::shared_ptr<Dialer> Dialer::dial(EventLoop& loop, Authenticator& authenticator, std::vector<Endpoint> endpoints,
                                     const Greeting& greeting, std::uint64_t context, Deadline deadline,
                                     Handshake::Done done) {
  std::shared_ptr<Dialer> dialer(
      new Dialer(loop, authenticator, std::move(endpoints), greeting, context, deadline, std::move(done)));
  if (dialer->endpoints_.empty()) {
    Greeted none;
    none.status = Status(RIPC_PEER_DEAD, "The context has no address that this machine could reach.");
    none.definite = true;
    dialer->finish(std::move(none));
  } else {
    dialer->attempts_.reserve(dialer->endpoints_.size());
    dialer->next();
  }
  return dialer;
}

Dialer::~Dialer() { cancel(); }

bool Dialer::dials(const Endpoint& remote) const noexcept {
  return !over_ && std::ranges::any_of(endpoints_, [&](const Endpoint& endpoint) { return endpoint.same_ip(remote); });
}

void Dialer::cancel() noexcept {
  over_ = true;
  done_ = nullptr;
  if (timer_ != 0) loop_.cancel_timer(timer_);
  timer_ = 0;
  for (const auto& attempt : attempts_) {
    if (attempt) attempt->cancel();
  }
}

void Dialer::finish(Greeted greeted) noexcept {
  if (over_) return;
  // What `done_` holds may own this object.
  const Handshake::Done done = std::move(done_);
  cancel();
  try {
    done(std::move(greeted));
  } catch (const std::bad_alloc&) {
    // As in Handshake: `done` has ended what the handshake was for.
  }
}

void Dialer::next() noexcept {
  if (over_ || attempts_.size() == endpoints_.size()) return;
  attempts_.push_back(nullptr);
  try {
    attempt(attempts_.size() - 1);
  } catch (const std::bad_alloc&) {
    Greeted none;
    none.status = RIPC_NO_MEMORY;
    on_done(std::move(none));
  }
}

void Dialer::attempt(std::size_t index) {
  const std::weak_ptr<Dialer> weak = weak_from_this();
  if (timer_ != 0) loop_.cancel_timer(timer_);
  timer_ = 0;
  if (index + 1 < endpoints_.size()) {
    timer_ = loop_.add_timer(monotonic_now() + kHeadStart, [weak] {
      if (const auto self = weak.lock()) self->next();
    });
  }
  auto handshake = Handshake::dial(loop_, authenticator_, endpoints_[index], greeting_, context_, deadline_,
                                   [weak](Greeted greeted) {
                                     if (const auto self = weak.lock()) self->on_done(std::move(greeted));
                                   });
  if (over_) {
    handshake->cancel();
  } else {
    attempts_[index] = std::move(handshake);
  }
}

void Dialer::on_done(Greeted greeted) noexcept {
  if (over_) return;
  if (greeted.status.ok()) {
    finish(std::move(greeted));
    return;
  }
  if (weight(greeted.status.code()) > weight(failure_.code())) failure_ = greeted.status;
  all_definite_ = all_definite_ && greeted.definite;
  if (++failed_ == endpoints_.size()) {
    greeted.status = failure_;
    greeted.definite = all_definite_;
    finish(std::move(greeted));
    return;
  }
  next();
}

}  // namespace ripc::internal::remote
