// SPDX-License-Identifier: Apache-2.0
// An HTTP client without sockets: fetches from a Jetty server that is a libripc service (docs/jetty.md), over one
// connection. The client reads the answer in the server's memory and copies it once, to where it wants it.
//
//   http_get SERVICE PATH OUTPUT [COUNT]   fetches a path COUNT times, writes it, and prints how long one fetch took
//
// The format of the messages is in docs/wire.md, "Stream connections".
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ripc/ripc.hpp"

namespace {

enum Type : std::uint8_t { kOpen = 1, kAccept, kData, kCredit, kClose, kReset };
constexpr std::uint8_t kEnd = 1, kFiller = 2, kAwaited = 4;
constexpr std::size_t kHeader = 20, kCost = 256;  // kCost: how much of the window a message takes besides its bytes
constexpr std::uint32_t kWindow = 1 << 20, kConnection = 1;
constexpr auto kPatience = std::chrono::seconds(20);

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "http_get: %s\n", what.c_str());
  std::exit(1);
}

template <typename Value>
Value need(ripc::Result<Value> result, const char* what) {
  if (!result) die(std::string(what) + ": " + std::string(result.error().text()));
  return std::move(*result);
}

template <typename Value>
Value load(const std::byte* at) {
  Value value;
  std::memcpy(&value, at, sizeof value);  // x86-64 and AArch64 are little-endian, like the format
  return value;
}

class Connection {
 public:
  Connection(ripc::Context& context, ripc::ServiceId server)
      : context_(context), server_(server), filler_(need(context.lease(64), "no memory")) {
    service_ = need(context.register_service({.queue_bytes = 64 << 10}), "no service");
    lossless_ = need(context.find_path(server), "no path").transport == "shm";
    send(kOpen, kFiller, {});
    while (life_.empty()) take(need(service_.receive(kPatience, RIPC_RECEIVE_LEND), "the server does not answer"));
  }
  ~Connection() { send(kClose, kEnd | kFiller, {}); }

  void request(const std::string& text) { send(kData, 0, text); }

  // Copies what has arrived of the answer, at most `room` bytes, to `to`. Waits if nothing has arrived yet.
  std::size_t read(char* to, std::size_t room) {
    // The server may be waiting until it knows that the client has read its last message.
    if (awaited_ && ready_.find(next_) == ready_.end() && consumed_ != told_) send(kCredit, kFiller, {});
    while (ready_.find(next_) == ready_.end())
      take(need(service_.receive(kPatience, RIPC_RECEIVE_LEND), "the answer does not come"));
    ripc::Message& message = ready_.at(next_);
    awaited_ = (load<std::uint8_t>(message.item(0).bytes().data() + 2) & kAwaited) != 0;
    const ripc::ItemView item = item_ < message.item_count() ? message.item(item_) : ripc::ItemView();
    if (item_ < message.item_count() && !item.ok()) die("a part of the answer was lost");
    const std::size_t count = std::min(room, item.size() - offset_);
    if (count != 0) std::memcpy(to, item.bytes().data() + offset_, count);
    consumed_ += count;
    offset_ += count;
    if (offset_ == item.size()) {
      offset_ = 0;
      if (++item_ >= message.item_count()) {
        consumed_ += kCost;
        item_ = 1;
        ready_.erase(next_++);  // gives the memory back to the server
      }
    }
    if (consumed_ - told_ >= window_ / 2 && ready_.empty() && !awaited_) send(kCredit, kFiller, {});
    return count;
  }

 private:
  void take(ripc::Message message) {
    if (message.tag() != kConnection || message.item_count() == 0 || message.item(0).size() != kHeader) return;
    const std::byte* header = message.item(0).bytes().data();
    switch (load<std::uint8_t>(header + 1)) {
      case kAccept:
        window_ = std::min(kWindow, load<std::uint32_t>(header + 16));
        life_ = std::move(message);
        break;  // held, so that the server notices when this process dies
      case kData:
        if ((load<std::uint8_t>(header + 2) & kFiller) == 0)
          ready_.emplace(load<std::uint32_t>(header + 4), std::move(message));
        break;
      case kClose:
      case kReset:
        die("the server has closed the connection, reason " + std::to_string(load<std::uint8_t>(header + 3)));
      default:
        break;
    }
  }

  void send(std::uint8_t type, std::uint8_t flags, const std::string& text) {
    std::array<std::byte, kHeader> header{std::byte{1}, std::byte{type}, std::byte{flags}};
    const std::uint32_t window = type == kOpen ? kWindow : 0;
    std::memcpy(&header[4], &sequence_, 4);
    std::memcpy(&header[8], &consumed_, 8);
    std::memcpy(&header[16], &window, 4);
    if (type == kData || type == kClose) ++sequence_;
    told_ = consumed_;
    std::array<ripc::Item, 2> items{ripc::short_item(header)};
    std::size_t count = 1;
    ripc::Buffer copy;
    if (!text.empty() && lossless_) {
      items[count++] = ripc::short_item(text);
    } else if (!text.empty()) {
      // Short messages may get lost on this path, but a message with a long item does not. The library keeps the copy.
      copy = need(context_.lease(text.size()), "no memory");
      std::memcpy(copy.data(), text.data(), text.size());
      items[count++] = ripc::borrow(ripc::Bytes(copy.bytes()).first(text.size()));
    } else if (type == kOpen || !lossless_) {
      items[count++] = ripc::borrow(filler_.bytes());
    }
    auto sent = service_.send(server_, std::span(items).first(count), {.tag = kConnection});
    if (!sent && type != kClose) die("not sent: " + std::string(sent.error().text()));
  }

  ripc::Context& context_;
  ripc::ServiceId server_;
  ripc::Buffer filler_;
  ripc::Service service_;
  ripc::Message life_;
  std::map<std::uint32_t, ripc::Message> ready_;  // by sequence number: messages may arrive out of order
  bool lossless_ = false;
  bool awaited_ = false;            // a flag of the message read last
  std::uint32_t window_ = kWindow;  // the smaller one of the two: the server keeps to it
  std::uint32_t sequence_ = 0, next_ = 0;
  std::size_t item_ = 1, offset_ = 0;
  std::uint64_t consumed_ = 0, told_ = 0;
};

// Sends one request and puts the body of its answer into `body`. Returns the status.
int fetch(Connection& connection, const std::string& path, std::vector<char>& body) {
  connection.request("GET " + path + " HTTP/1.1\r\nHost: ripc\r\n\r\n");
  std::string head;
  std::array<char, 4096> some;
  std::size_t end = std::string::npos;
  while (end == std::string::npos) {
    head.append(some.data(), connection.read(some.data(), some.size()));
    end = head.find("\r\n\r\n");
  }
  const std::size_t length = head.find("Content-Length: ");
  if (length == std::string::npos || length > end) die("the answer has no Content-Length");
  body.resize(std::strtoull(head.c_str() + length + 16, nullptr, 10));
  std::size_t have = std::min(head.size() - end - 4, body.size());
  std::memcpy(body.data(), head.data() + end + 4, have);
  while (have < body.size()) have += connection.read(body.data() + have, body.size() - have);
  return static_cast<int>(std::strtol(head.c_str() + 9, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("usage: http_get SERVICE PATH OUTPUT [COUNT]\n", stderr), 2;
  auto context = need(ripc::Context::create({.resolve_timeout = kPatience}), "no context");
  std::vector<char> body;
  std::vector<double> times(argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 1);
  int status = 0;
  {
    Connection connection(context, need(ripc::id_from_name(argv[1]), "no ID"));
    for (double& time : times) {
      const auto began = std::chrono::steady_clock::now();
      status = fetch(connection, argv[2], body);
      time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
    }
  }
  std::ofstream(argv[3], std::ios::binary).write(body.data(), static_cast<std::streamsize>(body.size()));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  std::printf("http_get: %s: %d, %zu bytes, median %.1f us\n", argv[2], status, body.size(), times[times.size() / 2]);
  return status == 200 ? 0 : 1;
}
