// SPDX-License-Identifier: Apache-2.0
// Return buffers: the client's request says where to put the answer, and the server writes it there.
//
//   return_buffer server            answers two requests for squares, then ends
//   return_buffer client            asks twice: with enough room, and with too little
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-squares";
constexpr std::uint32_t kCount = 100'000;

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "return_buffer: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

int serve() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  std::puts("return_buffer: serving");
  std::fflush(stdout);
  for (int requests = 0; requests < 2; ++requests) {
    auto request = service->receive(std::chrono::seconds(30));
    if (!request) return fail("receive", request.error());
    std::vector<std::uint64_t> squares(request->tag());
    for (std::uint64_t number = 0; number < squares.size(); ++number) squares[number] = number * number;
    // The server writes the reply into return buffer 0 if it fits; otherwise the client pulls it into a window.
    auto ticket = service->reply(*request, ripc::return_item(ripc::bytes_of(squares), 0));
    if (!ticket) return fail("reply", ticket.error());
    // The ticket must complete before the context ends.
    if (auto error = ticket->wait(std::chrono::seconds(30)); !error.ok()) return fail("not taken", error);
  }
  return 0;
}

int ask(ripc::Service& service, ripc::ServiceId server, std::vector<std::uint64_t>& room) {
  const ripc::ReturnBuffer buffer = ripc::return_buffer(std::as_writable_bytes(std::span(room)));
  std::uint64_t request = 0;
  ripc::SendOptions options;
  options.tag = kCount;
  options.returns = std::span(&buffer, 1);
  options.request_id = &request;
  if (auto sent = service.send(server, {}, options); !sent) return fail("send", sent.error());
  // The room belongs to the library from here until the reply is released.
  auto reply = service.receive(std::chrono::seconds(5));
  if (!reply) {
    (void)service.cancel_request(request);  // the room is ours again, whatever the server does
    return fail("no reply", reply.error());
  }
  const auto squares = reply->item(0);
  if (!squares.ok()) return fail("the squares did not arrive", squares.status());
  std::uint64_t last = 0;
  std::memcpy(&last, squares.bytes().last(sizeof last).data(), sizeof last);
  std::printf("return_buffer: %zu bytes in the %s, the last square is %llu\n", squares.size(),
              squares.kind() == RIPC_VIEW_RETURNED ? "return buffer" : "window", static_cast<unsigned long long>(last));
  return reply->in_reply_to() == request && last == std::uint64_t{kCount - 1} * (kCount - 1) ? 0 : 1;
}

int run_client() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  std::vector<std::uint64_t> window(kCount);
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto server = ripc::id_from_name(kName);
  if (!server) return fail("no ID", server.error());
  std::vector<std::uint64_t> enough(kCount);
  std::vector<std::uint64_t> too_little(10);
  if (int status = ask(*service, *server, enough); status != 0) return status;
  if (auto error = service->post_window(std::as_writable_bytes(std::span(window))); !error.ok())
    return fail("no window", error);
  return ask(*service, *server, too_little);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc == 2 && std::strcmp(argv[1], "client") == 0) return run_client();
  std::fputs("usage: return_buffer server | return_buffer client\n", stderr);
  return 2;
}
