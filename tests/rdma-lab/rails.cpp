// SPDX-License-Identifier: Apache-2.0
// Runs on two nodes of the lab that several links join. Short messages flow steadily, a long one is always on its way,
// and the links fail meanwhile.
//
//   lab_rails receive           until a goodbye comes; prints {"short": N, "missing": M, "disordered": D, "lost": L,
//                               "long": K}: how many short messages came, how many numbers are missing, how many were
//                               smaller than an earlier one, how many the library counts as lost, and how many long
//                               messages came
//   lab_rails send [LINE [+]ADDRESS]...
//                               prints each LINE and then sends until answers come while the path of short messages
//                               leaves from this address, or with + until long messages have a connection from there.
//                               At the end it says goodbye and prints "goodbye". If anything but a short message on its
//                               way fails, it says so and exits with 1. ADDRESS none: prints how the long message
//                               fails, and ends
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ripc/ripc.hpp"

namespace {

using ripc::Nanoseconds;

constexpr const char* kName = "lab-rails";
constexpr Nanoseconds kMoment{10'000'000};  // for an answer
constexpr Nanoseconds kPatience{60'000'000'000};
constexpr Nanoseconds kEcho{2'000'000'000};  // for another goodbye, if the answer was lost
constexpr std::size_t kLong = std::size_t{16} << 20;
constexpr std::uint64_t kSample = 16;  // one in this many short messages is answered
constexpr std::uint64_t kSteady = 50;  // answers
enum Tag : std::uint32_t { kShort, kQuestion, kLongItem, kGoodbye };

[[noreturn]] void fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::printf("lab_rails: %s: %s: %s\n", what, error.name(), text.c_str());
  std::exit(1);
}

template <typename T>
T expect(const char* what, ripc::Result<T> result) {
  if (!result.ok()) fail(what, result.error());
  return std::move(*result);
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

int receive(ripc::Context& context) {
  auto service = expect("no service", context.register_service({.name = kName}));
  std::vector<std::byte> windows(4 * kLong);
  for (std::size_t index = 0; index < 4; ++index) {
    const auto window = std::span(windows).subspan(index * kLong, kLong);
    if (const auto posted = service.post_window(window, index); !posted.ok()) fail("no window", posted);
  }
  std::uint64_t highest = 0, count = 0, disordered = 0, longs = 0;
  for (bool more = true;;) {
    auto message = service.receive(more ? kPatience : kEcho);
    if (!message.ok() && !more) return 0;
    if (!message.ok()) continue;
    const ripc::Bytes bytes = message->item(0).bytes();
    switch (static_cast<Tag>(message->tag())) {
      case kQuestion:
        (void)service.reply(*message, bytes);
        [[fallthrough]];
      case kShort: {
        std::uint64_t number = 0;
        std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
        ++count;
        if (number <= highest) ++disordered;
        highest = std::max(highest, number);
        break;
      }
      case kLongItem: {
        const std::byte fill = bytes.empty() ? std::byte{} : bytes.front();
        if (bytes.size() != kLong || !std::ranges::all_of(bytes, [&](std::byte one) { return one == fill; }))
          fail("a long item is not what was sent", {});
        ++longs;
        const auto window = std::span(windows).subspan(message->item(0).cookie() * kLong, kLong);
        if (const auto posted = service.post_window(window, message->item(0).cookie()); !posted.ok())
          fail("no window", posted);
        break;
      }
      case kGoodbye:
        if (std::exchange(more, false)) {
          const auto seen = expect("no statistics", service.statistics());
          say("{\"short\": " + std::to_string(count) + ", \"missing\": " + std::to_string(highest - count) +
              ", \"disordered\": " + std::to_string(disordered) + ", \"lost\": " +
              std::to_string(seen.packets_lost + seen.packets_late) + ", \"long\": " + std::to_string(longs) + "}");
        }
        // The link of the answer may be about to move as well.
        (void)service.reply(*message, bytes, {.tag = kGoodbye});
        break;
    }
  }
}

class Sender {
 public:
  explicit Sender(ripc::Context& context)
      : context_(context),
        service_(expect("no service", context.register_service())),
        to_(expect("nobody listens", context.wait_service(kName, kPatience)).id) {}

  void go_on(const std::string& text) {
    const bool is_long = text.starts_with('+');
    const std::string address = is_long ? text.substr(1) : text;
    answers_ = 0;
    for (std::uint64_t turn = 1;; ++turn) {
      keep_a_long_one();
      send_short();
      if (turn % kSample != 0) continue;
      if (is_long) {
        if (has_rail(address)) return;
      } else if (!leaves_from(address)) {
        answers_ = 0;
      } else if (answers_ >= kSteady) {
        return;
      }
    }
  }
  // Goes on until the long message on its way has failed.
  std::string fail_at_last() {
    for (;;) {
      const ripc::Error status = long_.poll();
      if (status.code() != RIPC_OK && status.code() != RIPC_PENDING) return status.name();
      if (status.ok()) keep_a_long_one();
      (void)service_.receive(kMoment);
    }
  }
  void say_goodbye() {
    if (const auto status = long_.wait(); !status.ok()) fail("the last long message", status);
    for (int count = 0; count < 100; ++count) {
      (void)service_.send(to_, {}, {.tag = kGoodbye});
      for (auto said = service_.receive(50 * kMoment); said.ok(); said = service_.receive(50 * kMoment)) {
        if (said->tag() == kGoodbye) return;
      }
    }
    fail("no goodbye", {});
  }

 private:
  void keep_a_long_one() {
    const ripc::Error status = long_.poll();
    if (status.code() == RIPC_PENDING) return;
    if (!status.ok()) fail("a long message", status);
    std::ranges::fill(bytes_, static_cast<std::byte>(++longs_));
    // Later messages need not wait for this one.
    auto sent = service_.send(to_, ripc::borrow(bytes_), {.tag = kLongItem, .timeout = kPatience, .unordered = true});
    if (sent.ok()) {
      long_ = std::move(*sent);
    } else if (sent.code() != RIPC_AGAIN) {
      fail("a long message", sent.error());
    }
  }
  void send_short() {
    const std::uint64_t number = number_ + 1;
    const bool asks = number % kSample == 0;
    const auto sent =
        service_.send(to_, ripc::short_item(std::as_bytes(std::span(&number, 1))), {.tag = asks ? kQuestion : kShort});
    if (sent.ok()) ++number_;
    if (!sent.ok() && sent.code() != RIPC_AGAIN) fail("a short message", sent.error());
    if (!sent.ok() || asks) {
      if (auto answer = service_.receive(kMoment); answer.ok()) ++answers_;
    }
  }
  bool leaves_from(const std::string& address) {
    const auto path = context_.find_path(to_);
    return path.ok() && path->reason.find(address) != std::string::npos;
  }
  bool has_rail(const std::string& address) {
    const auto rails = context_.rails(to_);
    return rails.ok() && std::ranges::any_of(*rails, [&](const ripc::RailInfo& rail) {
             return rail.local == address && rail.connections != 0;
           });
  }

  ripc::Context& context_;
  ripc::Service service_;
  const ripc::ServiceId to_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kLong);
  ripc::Ticket long_;
  std::uint64_t longs_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t answers_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view role = argc > 1 ? argv[1] : "";
  if (!(role == "receive" && argc == 2) && !(role == "send" && argc % 2 == 0)) {
    std::fputs("usage: lab_rails receive | lab_rails send [LINE [+]ADDRESS]...\n", stderr);
    return 2;
  }
  auto context = expect("no context", ripc::Context::create());
  if (role == "receive") return receive(context);
  Sender sender(context);
  for (int index = 2; index < argc; index += 2) {
    const std::string address = argv[index + 1];
    say(argv[index]);
    if (address == "none") {
      say(sender.fail_at_last());
      return 0;
    }
    sender.go_on(address);
  }
  sender.say_goodbye();
  say("goodbye");
  return 0;
}
