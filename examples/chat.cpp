// SPDX-License-Identifier: Apache-2.0
// Chat: everybody joins a group, and every member receives what any member says.
//
//   chat server             joins, prints what is said until somebody says "bye"
//   chat client WORD...     joins, waits until somebody else is there, says each word and receives it, too
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kRoom = "example-chat";

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "chat: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

// Receives one message and prints it. Returns false at the end of the chat.
bool hear(ripc::Service& service) {
  auto message = service.receive(std::chrono::seconds(30));
  // An empty message comes from a member that checks who is there.
  while (message && message->item(0).size() == 0) message = service.receive(std::chrono::seconds(30));
  if (!message) {
    fail("receive", message.error());
    return false;
  }
  const std::string text(message->item(0).text());
  std::printf("chat: %s%s\n", text.c_str(), message->source() == service.id() ? " (I said so)" : "");
  return text != "bye";
}

int run(int count, char** words) {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto room = ripc::group_id_from_name(kRoom);
  if (!room) return fail("no ID", room.error());
  if (auto error = service->join(*room); !error.ok()) return fail("join", error);
  if (count == 0) {
    std::puts("chat: listening");
    std::fflush(stdout);
    while (hear(*service)) {
    }
    return 0;
  }
  // A member receives its own messages, too, and counts itself. So it waits for a second member.
  ripc::GroupOutcome outcome;
  bool waits = false;
  while (outcome.taken < 2) {
    if (auto sent = service->send(*room, "", {.outcome = &outcome}); !sent)
      return fail("looking who is there", sent.error());
    if (outcome.taken < 2 && !std::exchange(waits, true)) std::fputs("chat: waiting for another member\n", stderr);
    (void)service->receive(std::chrono::milliseconds(10));
  }
  for (int index = 0; index < count; ++index) {
    if (auto sent = service->send(*room, words[index], {.outcome = &outcome}); !sent) return fail("send", sent.error());
    if (!hear(*service)) break;
  }
  std::printf("chat: %u of %u members were told\n", outcome.taken, outcome.members);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return run(0, nullptr);
  if (argc > 2 && std::strcmp(argv[1], "client") == 0) return run(argc - 2, argv + 2);
  std::fputs("usage: chat server | chat client WORD...\n", stderr);
  return 2;
}
