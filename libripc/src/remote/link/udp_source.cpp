// SPDX-License-Identifier: Apache-2.0
#include "remote/link/udp_source.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "remote/link/udp_receiver.hpp"

namespace ripc::internal::remote {

namespace {

// How long a datagram may still be on its way when the question whether it has come is here; and the first pause
// between two looks.
constexpr Nanoseconds kProofPatience = 100'000'000;
constexpr Nanoseconds kFirstLook = 500'000;

}  // namespace

void UdpSource::handle(const wire::session_control::Frame& frame) {
  if (std::holds_alternative<wire::session_control::Prove>(frame)) {
    // Shows the sender that datagrams get through to it.
    (void)socket_.send({.kind = wire::datagram::Kind::greeting, .token = parts_.token}, {});
    answer_proof(monotonic_now() + kProofPatience, Backoff(kFirstLook, kProofPatience));
  } else if (const auto* const by_stream = std::get_if<wire::session_control::Streamed>(&frame)) {
    streams_.store(true, std::memory_order_release);
    receiver_.pass(*this, by_stream->datagram);
  }
}

void UdpSource::answer_proof(Nanoseconds until, Backoff pause) {
  const bool arrived = has_arrived();
  const Nanoseconds now = monotonic_now();
  if (arrived || now >= until) {
    parts_.session->stream.tell(wire::session_control::Proved{.link = parts_.link, .arrived = arrived ? 1u : 0u});
    return;
  }
  const Nanoseconds look_at = std::min(now + pause.next(), until);
  loop_.add_timer(look_at, [this, weak = weak_from_this(), until, pause] {
    if (const auto alive = weak.lock()) answer_proof(until, pause);
  });
}

// Whether a datagram has come by UDP since the last call, as far as the system knows. Datagrams that the receiver has
// not read are in the socket. If one is there from before, the receiver is busy, and there is no doubt.
bool UdpSource::has_arrived() noexcept {
  pollfd readable{socket_.fd(), POLLIN, 0};
  return take_arrived() || (poll(&readable, 1, 0) > 0 && (readable.revents & POLLIN) != 0);
}

std::unique_ptr<StreamReceiver> UdpSource::adopt(std::unique_ptr<StreamReceiver> stream) noexcept {
  const std::lock_guard lock(mutex_);
  next_.swap(stream);
  has_next_.store(true, std::memory_order_release);
  return stream;
}

void UdpSource::take_next() noexcept {
  const std::lock_guard lock(mutex_);
  stream_ = std::move(next_);
  has_next_.store(false, std::memory_order_release);
}

}  // namespace ripc::internal::remote
