// SPDX-License-Identifier: Apache-2.0
// What a sender of datagrams receives: credit for its links, answers to its greetings, and greetings of peers.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <new>

#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/datagram/grh.hpp"
#include "transport/verbs/device/post_receives.hpp"

namespace ripc::internal::verbs {

using wire::datagram::Header;
using wire::datagram::Kind;

namespace {

// Batches that are read at a time: a peer that floods this side must not hold up other peers.
constexpr int kMaxCreditRounds = 16;

}  // namespace

// A datagram longer than its buffer would stop the queue pair, so any peer could stop it.
void DatagramSender::post_receive(std::uint32_t slot) noexcept {
  const std::uint32_t key = credits_region_->local_key();
  std::array<ibv_sge, 2> ranges{range_of(credits_.get() + slot * kCreditSlot, kCreditSlot, key),
                                range_of(credits_.get() + kReceives * kCreditSlot, port_.mtu, key)};
  ibv_recv_wr request{
      .wr_id = slot, .next = nullptr, .sg_list = ranges.data(), .num_sge = static_cast<int>(ranges.size())};
  ibv_recv_wr* bad = nullptr;
  (void)ibv_post_recv(queue_->pair(), &request, &bad);
}

void DatagramSender::listen(std::uint32_t link, std::uint64_t token, std::shared_ptr<DatagramVerifier> verifier,
                            Listener listener) {
  const std::lock_guard lock(credits_mutex_);
  listeners_[link] = {token, std::move(verifier), std::move(listener)};
}

void DatagramSender::unlisten(std::uint32_t link) noexcept {
  const std::lock_guard lock(credits_mutex_);
  listeners_.erase(link);
}

void DatagramSender::answer(std::uint64_t token, std::uint32_t link, const DatagramRoute& back,
                            std::shared_ptr<DatagramVerifier> verifier) {
  const std::lock_guard lock(credits_mutex_);
  answers_.try_emplace({token, back.queue_pair},
                       Answer{.token = token, .link = link, .back = back, .verifier = std::move(verifier)});
}

void DatagramSender::answer_no_more(std::uint64_t token, const DatagramRoute& back) noexcept {
  const std::lock_guard lock(credits_mutex_);
  answers_.erase({token, back.queue_pair});
}

bool DatagramSender::read_credits() noexcept {
  bool failed = false;
  bool is_behind = false;
  std::vector<Answer> answers;
  std::uint64_t restarts = 0;
  {
    const std::lock_guard lock(credits_mutex_);
    restarts = counters_.restarts;
    std::array<ibv_wc, 16> completions;
    int count = 0;
    int rounds = 0;
    do {
      count = ibv_poll_cq(queue_->receives(), static_cast<int>(completions.size()), completions.data());
      for (int index = 0; index < count; ++index) {
        const ibv_wc& completion = completions[static_cast<std::size_t>(index)];
        if (completion.status == IBV_WC_SUCCESS) {
          on_datagram(completion, answers);
        } else {
          failed = true;
        }
      }
      is_behind = count == static_cast<int>(completions.size());
    } while (is_behind && ++rounds < kMaxCreditRounds);
  }
  for (const Answer& answer : answers)
    (void)send(answer.back, {.kind = Kind::greeting, .token = answer.token, .credit_link = answer.link}, {});
  if (!failed) return is_behind;
  const std::lock_guard lock(mutex_);
  // A sender may have restarted it meanwhile: another restart would lose what was posted since.
  if (counters_.restarts == restarts) restart_locked();
  return is_behind;
}

void DatagramSender::on_datagram(const ibv_wc& completion, std::vector<Answer>& answers) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id);
  const std::size_t length = std::min<std::size_t>(completion.byte_len, kCreditSlot);
  const std::size_t size = length > kGrhSize ? length - kGrhSize : 0;
  if (!deliver_credit({credits_.get() + slot * kCreditSlot + kGrhSize, size}, completion.src_qp, answers))
    rejected_.fetch_add(1, std::memory_order_relaxed);
  post_receive(slot);
}

// With the lock held. The datagram's own header says to whom it belongs; it counts if the signature is right for that
// one.
bool DatagramSender::deliver_credit(std::span<std::byte> datagram, std::uint32_t queue_pair,
                                    std::vector<Answer>& answers) noexcept {
  constexpr auto kFresh = DatagramVerifier::Verdict::fresh;
  Header header;
  if (wire::datagram::decode(unverified(datagram), header) != RIPC_OK ||
      (header.kind != Kind::credit && header.kind != Kind::greeting))
    return false;
  if (header.credit_link != 0) {
    const auto found = listeners_.find(header.credit_link);
    if (found == listeners_.end() || found->second.token != header.token ||
        check(found->second.verifier.get(), datagram) != kFresh)
      return false;
    found->second.listener(header);
    return true;
  }
  const auto found = answers_.find({header.token, queue_pair});
  if (found == answers_.end() || check(found->second.verifier.get(), datagram) != kFresh) return false;
  if (answers.size() < kMostAnswers) answers.push_back(found->second);
  return true;
}

Status DatagramSender::watch(std::uint32_t link, std::function<void()> look) {
  {
    const std::lock_guard lock(watchers_mutex_);
    watchers_[link] = std::move(look);
  }
  if (Status status = watch_queue(); !status.ok()) return status;
  queue_->arm();
  return {};
}

// Responder.
Status DatagramSender::watch_queue() {
  if (watching_) return {};
  Status status = loop_.add(queue_->fd(), EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
    // Its last user may be another thread, and may let go of it meanwhile.
    if (const auto self = weak.lock()) self->on_event();
  });
  watching_ = status.ok();
  return status;
}

void DatagramSender::unwatch(std::uint32_t link) noexcept {
  const std::lock_guard lock(watchers_mutex_);
  watchers_.erase(link);
}

// Credit wakes nobody while nobody waits for it.
void DatagramSender::on_event() noexcept {
  std::unordered_map<std::uint32_t, std::function<void()>> watchers;
  {
    const std::lock_guard lock(watchers_mutex_);
    watchers = watchers_;
  }
  queue_->arm(watchers.empty());
  const bool is_behind = read_credits();
  for (const auto& [link, look] : watchers) look();
  if (!is_behind) return;
  // No event tells of what is left. Without memory, whoever waits asks the receiver again, and the answer is an event.
  try {
    loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->on_event();
    });
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace ripc::internal::verbs
