// SPDX-License-Identifier: Apache-2.0
// Mixed traffic between one service here and one in another process. It consists of random messages of every kind,
// notifications, and an ID that each side takes from the other. Neither side waits for the other, so either may be
// killed at any instruction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "fault_support.hpp"

namespace fault {

inline constexpr ripc_service_id kContested = 1999;

// One end. Not thread-safe.
class Traffic {
 public:
  Traffic(ripc_context* context, ripc_service* service, ripc_service_id peer, std::uint64_t seed);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  // Sends something, receives what is there, answers requests. False when the peer is gone.
  bool step();
  // Only receives, checks and answers.
  void receive_all();
  // Gives back everything that can be given back: messages, tickets, requests, windows. False if a ticket never ends.
  bool settle();

  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t rung() const { return bell_.runs; }  // notifications that ran here
  std::uint64_t fenced() const { return fenced_; }   // how often the contested ID was taken from here
  const std::string& flaw() const { return flaw_; }  // "" while every item was whole and every status allowed

 private:
  struct Foreign {
    Ticket ticket;
    std::vector<std::byte> memory;  // in use until the ticket is complete
  };
  struct Pending {
    std::uint64_t request;
    std::vector<std::byte> memory;  // the return buffer
  };
  bool note(ripc_status status, const char* what);
  bool send_some();
  bool send_pooled(std::size_t size);
  bool send_foreign(std::size_t size, bool registered);
  bool send_request();
  void handle(Message message);
  void reap();
  bool ring_or_move_bell();
  void register_bell();
  void unregister_bell();
  bool contest();
  void take_over();
  void use_contested();

  ripc_context* context_;
  ripc_service* service_;
  ripc_service_id peer_;
  Random random_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::string flaw_;
  std::deque<Foreign> foreign_;
  std::deque<Ticket> tickets_;
  std::deque<Pending> requests_;
  std::deque<Message> kept_;  // lent views that stay for a while
  std::array<std::vector<std::byte>, 8> windows_;

  // The callback that the peer runs, in this context's responder.
  struct Bell {
    static void ring(void* user, ripc_service_id source, const ripc_item_view* items, std::size_t count);
    ripc_service* service = nullptr;
    ripc_notification handle{};
    std::atomic<bool> registered{false};
    std::atomic<std::uint64_t> runs{0};
    std::atomic<const char*> flaw{nullptr};
  } bell_;
  std::optional<ripc_notification> peer_bell_;
  Service contested_;
  std::uint64_t fenced_ = 0;
};

}  // namespace fault
