// SPDX-License-Identifier: Apache-2.0
// A file service in a hundred lines. Small files come back in the message itself. For a large file, the client gets a
// view of the server's memory, lent until it releases the message. This needs no window and no copy, at any size.
//
//   file_service server DIRECTORY     serves until it is asked for the file "."
//   file_service client FILE OUTPUT   fetches one file; with "." it ends the server
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-files";
enum Tag : std::uint32_t { kContents = 1, kMissing = 2, kGoodbye = 3 };

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "file_service: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

ripc::Error answer(ripc::Context& context, ripc::Service& service, const ripc::Message& request,
                   const std::filesystem::path& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  std::ifstream file(path, std::ios::binary);
  if (missing || !file) return service.reply(request, ripc::Bytes(), {.tag = kMissing}).error();
  // If pool memory is lent, the client can read it where it is.
  auto buffer = context.lease(size == 0 ? 1 : size);
  if (!buffer) return buffer.error();
  file.read(reinterpret_cast<char*>(buffer->data()), static_cast<std::streamsize>(size));
  const auto contents = ripc::Bytes(buffer->bytes()).first(static_cast<std::size_t>(file.gcount()));
  const auto limit = service.short_limit(request.source());
  const bool is_short = limit.ok() && contents.size() <= *limit;
  // The lease ends with this function, but nobody has to wait for the ticket: the library keeps the memory until the
  // client has read it.
  return service.reply(request, {is_short ? ripc::item(contents) : ripc::borrow(contents)}, {.tag = kContents}).error();
}

int serve(const std::filesystem::path& directory) {
  std::error_code missing;
  if (!std::filesystem::is_directory(directory, missing))
    return std::fprintf(stderr, "file_service: %s is no directory: name one that is there\n", directory.c_str()), 2;
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  std::puts("file_service: serving");
  std::fflush(stdout);
  for (;;) {
    auto request = service->receive();
    if (!request) return fail("receive", request.error());
    // Accepts only plain names: a client must not be able to leave the directory.
    const std::string name(request->item(0).text());
    if (name == ".") return service->reply(*request, ripc::Bytes(), {.tag = kGoodbye}).ok() ? 0 : 1;
    const bool plain = !name.empty() && name != ".." && name.find('/') == std::string::npos;
    const auto error = answer(*context, *service, *request, plain ? directory / name : std::filesystem::path());
    // A client that has gone is no reason to stop.
    if (!error.ok()) fail("reply", error);
  }
}

int fetch(const char* name, const char* output) {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto server = ripc::id_from_name(kName);
  if (!server) return fail("no ID", server.error());
  if (auto sent = service->send(*server, name); !sent) return fail("send", sent.error());
  auto reply = service->receive(std::chrono::seconds(5), RIPC_RECEIVE_LEND);
  if (!reply) return fail("no reply", reply.error());
  if (reply->tag() == kGoodbye) return std::puts("file_service: the server has ended") < 0;
  if (reply->tag() == kMissing) return std::printf("file_service: %s: no such file\n", name), 1;
  const auto contents = reply->item(0);
  if (!contents.ok()) return fail("the contents did not arrive", contents.status());
  std::ofstream(output, std::ios::binary).write(contents.text().data(), static_cast<std::streamsize>(contents.size()));
  std::printf("file_service: %s: %zu bytes, %s\n", name, contents.size(),
              contents.kind() == RIPC_VIEW_LENT ? "lent" : "in the message");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "server") == 0) return serve(argv[2]);
  if (argc == 4 && std::strcmp(argv[1], "client") == 0) return fetch(argv[2], argv[3]);
  std::fputs("usage: file_service server DIRECTORY | file_service client FILE OUTPUT\n", stderr);
  return 2;
}
