// SPDX-License-Identifier: Apache-2.0
// Echo: a service that sends every message back, and a client that talks to it by name.
//
//   echo server             serves until somebody says "bye"
//   echo client WORD...     sends each word and prints what comes back
#include <cstdio>
#include <cstring>
#include <string>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-echo";

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "echo: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

int serve() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  std::puts("echo: serving");
  std::fflush(stdout);
  for (;;) {
    auto message = service->receive();
    if (!message) return fail("receive", message.error());
    const auto word = message->item(0);
    // The bytes go straight from the received message into the reply, with no buffer of ours in between.
    if (auto sent = service->reply(*message, word.bytes()); !sent) return fail("reply", sent.error());
    if (word.text() == "bye") break;
  }
  const auto statistics = service->statistics();
  if (statistics)
    std::printf("echo: sent back %llu words\n", static_cast<unsigned long long>(statistics->messages_sent));
  return 0;
}

int talk(int count, char** words) {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();  // receives the replies
  if (!service) return fail("no service", service.error());
  auto server = ripc::id_from_name(kName);
  if (!server) return fail("no ID", server.error());
  for (int index = 0; index < count; ++index) {
    if (auto sent = service->send(*server, words[index]); !sent) return fail("send", sent.error());
    auto reply = service->receive(std::chrono::seconds(5));
    if (!reply) return fail("no reply", reply.error());
    const std::string text(reply->item(0).text());
    std::printf("echo: %s -> %s\n", words[index], text.c_str());
    if (text != words[index]) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc > 2 && std::strcmp(argv[1], "client") == 0) return talk(argc - 2, argv + 2);
  std::fputs("usage: echo server | echo client WORD...\n", stderr);
  return 2;
}
