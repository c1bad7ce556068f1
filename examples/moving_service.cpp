// SPDX-License-Identifier: Apache-2.0
// A service that moves: a second server, on this host or on another, takes over the ID. The first server learns of it.
// The client notices only that the answer changes.
//
//   moving_service server           answers until another server takes over the ID, or somebody says "bye"
//   moving_service client COUNT     asks until COUNT servers, one after the other, have answered
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-moving-service";
constexpr auto kPatience = std::chrono::seconds(1);

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "moving_service: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

int serve() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName, .takeover = true});
  if (!service) return fail("no service", service.error());
  std::puts("moving_service: serving");
  std::fflush(stdout);
  const std::string me = "process " + std::to_string(getpid()) + " on host " + std::to_string(gethostid());
  for (;;) {
    auto message = service->receive();
    if (message.code() == RIPC_FENCED) return std::puts("moving_service: another server has the ID now"), 0;
    if (!message) return fail("receive", message.error());
    if (message->item(0).text() == "bye") return std::puts("moving_service: goodbye"), 0;
    // An error does not matter: a client that is gone, or has no room, asks again if it wants to know.
    (void)service->reply(*message, me);
  }
}

int ask(int count) {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto server = ripc::id_from_name(kName);
  if (!server) return fail("no ID", server.error());
  std::string last;
  bool waits = false;
  for (int servers = 0; servers < count;) {
    // There may be a moment without any server between the two. The client repeats what it asked then.
    auto sent = service->send(*server, "who are you?");
    if (!sent && sent.code() != RIPC_NO_SERVICE) return fail("send", sent.error());
    if (!sent && !std::exchange(waits, true)) std::fputs("moving_service: waiting for a server\n", stderr);
    auto reply = service->receive(kPatience);
    if (!reply && reply.code() != RIPC_TIMEOUT) return fail("receive", reply.error());
    if (!reply || reply->item(0).text() == last) continue;
    last = reply->item(0).text();
    ++servers;
    std::printf("moving_service: answer of server %d\n", servers);
    std::fflush(stdout);
    std::fprintf(stderr, "moving_service: it is %s\n", last.c_str());
  }
  auto sent = service->send(*server, "bye");
  return sent ? 0 : fail("send", sent.error());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string role = count > 1 ? arguments[1] : "";
  if (role == "server" && count == 2) return serve();
  if (role == "client" && count == 3) return ask(static_cast<int>(std::strtol(arguments[2], nullptr, 10)));
  std::fputs("usage: moving_service server | moving_service client COUNT\n", stderr);
  return 2;
}
