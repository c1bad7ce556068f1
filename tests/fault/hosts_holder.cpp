// SPDX-License-Identifier: Apache-2.0
#include "hosts_holder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace fault {

namespace {

// Tags of messages.
constexpr std::uint32_t kTell = 1;
constexpr std::uint32_t kTake = 2;
constexpr std::uint32_t kFetch = 3;

struct Wanted {
  std::uint64_t size;
  std::uint64_t seed;
};

template <typename Value>
ripc_status send_value(const Service& from, ripc_service_id to, std::uint32_t tag, const Value& value) {
  const ripc_item item{&value, sizeof value, RIPC_ITEM_SHORT, 0};
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.tag = tag;
  return ripc_send(from.get(), to, &item, 1, &options, nullptr);
}

template <typename Value>
bool read_value(const Message& message, Value& value) {
  ripc_item_view view{};
  if (ripc_message_get_item(message.get(), 0, &view) != RIPC_OK || view.size != sizeof value) return false;
  std::memcpy(&value, view.data, sizeof value);
  return true;
}

void tell_statistics(const Service& service, Told& told) {
  const ripc_service_statistics statistics = statistics_of(service);
  told.taken = statistics.messages_received;
  told.lost = statistics.packets_lost;
  told.late = statistics.packets_late;
  told.duplicates = statistics.packets_duplicate;
}

ripc_status send_item(const Context& context, const Service& from, ripc_service_id to, const Wanted& wanted,
                      Ticket& ticket) {
  void* lease = nullptr;
  ripc_status status = ripc_buffer_lease(context.get(), wanted.size, &lease);
  if (status != RIPC_OK) return status;
  fill_item(lease, wanted.size, wanted.seed);
  const ripc_item item{lease, wanted.size, RIPC_ITEM_LONG, 0};
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.tag = kTake;
  options.timeout = RIPC_FOREVER;
  ripc_ticket* made = nullptr;
  status = ripc_send(from.get(), to, &item, 1, &options, &made);
  ticket.reset(made);
  (void)ripc_buffer_release(context.get(), lease);
  return status;
}

}  // namespace

Context make_far_context(const std::string& directory, const char* transports) {
  return make_context(directory, 0, transports);
}

int holder(const std::vector<std::string>& arguments) {
  const Context context = make_far_context(arguments.at(0), arguments.size() > 1 ? arguments[1].c_str() : "socket");
  const Service service = make_service(context, kHolder, [](ripc_service_options& options) { options.takeover = 1; });
  if (!service) return 1;
  std::vector<std::byte> window(kLong);
  const auto post = [&] { return ripc_window_post(service.get(), window.data(), window.size(), 1); };
  if (post() != RIPC_OK) return 1;
  Told told{};
  std::map<std::uint64_t, std::uint64_t> copies;
  Ticket ticket;
  for (;;) {
    ripc_message* received = nullptr;
    const ripc_status status = ripc_receive(service.get(), 0, RIPC_FOREVER, &received);
    // Stopping and continuing a process interrupts its wait.
    if (status == RIPC_INTERRUPTED) continue;
    if (status != RIPC_OK) return 1;
    const Message message(received);
    const ripc_service_id source = ripc_message_get_source(message.get());
    Wanted wanted{};
    switch (ripc_message_get_tag(message.get())) {
      case kTell:
        if (!read_value(message, told.question)) return 1;
        told.descriptors = descriptor_count() - descriptor_count("/memfd:ripc-pool");
        tell_statistics(service, told);
        // If the answer gets lost, the asker asks again.
        (void)send_value(service, source, kTell, told);
        break;
      case kFetch:
        if (!read_value(message, wanted)) return 1;
        (void)send_item(context, service, source, wanted, ticket);
        break;
      case kIgnored:
        break;
      default: {
        ripc_item_view view{};
        if (ripc_message_get_item(message.get(), 0, &view) != RIPC_OK) return 1;
        if (view.kind == RIPC_VIEW_FAILED) break;
        std::uint64_t seed = 0;
        std::memcpy(&seed, view.data, sizeof seed);
        is_whole(view.data, view.size) ? ++told.whole : ++told.torn;
        told.most_copies = std::max(told.most_copies, ++copies[seed]);
        if (view.kind == RIPC_VIEW_WINDOW && post() != RIPC_OK) return 1;
      }
    }
  }
}

Asker::Asker(const std::string& directory, const char* transports)
    : context_(make_far_context(directory, transports)), service_(make_service(context_, kAsker)), window_(kLong) {
  post();
}

void Asker::post() { EXPECT_EQ(ripc_window_post(service_.get(), window_.data(), window_.size(), 1), RIPC_OK); }

std::optional<Told> Asker::ask_once() {
  if (send_value(service_, kHolder, kTell, ++question_) != RIPC_OK) return std::nullopt;
  for (const std::uint64_t until = now() + kSecond; now() < until;) {
    const Message message = receive(service_, until - now());
    Told told{};
    if (!message || ripc_message_get_tag(message.get()) != kTell || !read_value(message, told)) continue;
    if (told.question == question_) return told;
  }
  return std::nullopt;
}

std::optional<Told> Asker::ask(std::uint64_t limit) {
  std::optional<Told> told;
  eventually(
      [&] {
        told = ask_once();
        return told.has_value();
      },
      limit);
  return told;
}

ripc_status Asker::send_long(std::size_t size, std::uint64_t seed, Ticket& ticket) {
  return send_item(context_, service_, kHolder, {size, seed}, ticket);
}

ripc_status Asker::request_long(std::size_t size, std::uint64_t seed) {
  return send_value(service_, kHolder, kFetch, Wanted{size, seed});
}

ripc_status Asker::receive_long(std::uint64_t limit) {
  for (const std::uint64_t until = now() + limit; now() < until;) {
    const Message message = receive(service_, until - now());
    ripc_item_view view{};
    if (!message || ripc_message_get_tag(message.get()) != kTake) continue;
    if (ripc_message_get_item(message.get(), 0, &view) != RIPC_OK) return RIPC_CORRUPT;
    if (view.kind == RIPC_VIEW_FAILED) return static_cast<ripc_status>(view.status);
    const bool whole = is_whole(view.data, view.size);
    post();
    return whole ? RIPC_OK : RIPC_CORRUPT;
  }
  return RIPC_TIMEOUT;
}

bool Asker::window_is_free() {
  std::size_t count = 0;
  if (ripc_window_withdraw(service_.get(), 1, &count) != RIPC_OK || count != 1) return false;
  post();
  return true;
}

}  // namespace fault
