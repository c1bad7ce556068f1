// SPDX-License-Identifier: Apache-2.0
#include "command.hpp"

#include <poll.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

std::atomic<libripc::Service*> stop_service{nullptr};
std::atomic<bool> stop_requested{false};

extern "C" void on_stop_signal(int) {
  const int saved = errno;
  stop_requested.store(true);
  if (libripc::Service* service = stop_service.load()) (void)service->interrupt();
  errno = saved;
}

}  // namespace

libripc::Result<Target> Target::parse(const std::string& text) {
  constexpr std::string_view kPrefix = "id:";
  Target target;
  target.text = text;
  if (text.starts_with(kPrefix)) {
    std::string_view digits = std::string_view(text).substr(kPrefix.size());
    const bool is_hex = digits.starts_with("0x");
    if (is_hex) digits.remove_prefix(2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), target.id, is_hex ? 16 : 10);
    if (error != std::errc() || end != digits.data() + digits.size() || target.id == 0)
      return libripc::Error(
          RIPC_INVALID_ARGUMENT,
          "'" + text + "' is not a service ID: write id: and a number from 1, such as id:7 or id:0x7.");
    return target;
  }
  auto id = libripc::id_from_name(text);
  if (!id.ok()) return id.error();
  target.name = text;
  target.id = *id;
  return target;
}

libripc::Result<libripc::ServiceInfo> Target::resolve(libripc::Context& context) const {
  return name.empty() ? context.resolve(id) : context.resolve(name);
}

libripc::Nanoseconds to_timeout(double seconds) {
  if (seconds > 1e9) return libripc::kForever;
  return libripc::Nanoseconds(seconds <= 0 ? 0 : static_cast<std::int64_t>(seconds * 1e9));
}

libripc::Result<libripc::ServiceInfo> wait_for_service(libripc::Context& context, const Target& target,
                                                       libripc::Nanoseconds timeout) {
  constexpr int kPauseMilliseconds = 10;  // between two questions; a resolver may well answer at once
  const std::uint64_t started = monotonic_now();
  while (true) {
    auto info = target.resolve(context);
    if (info.ok() || info.code() != RIPC_NO_SERVICE) return info;
    if (timeout != libripc::kForever && monotonic_now() - started >= static_cast<std::uint64_t>(timeout.count()))
      return libripc::Error(RIPC_NO_SERVICE, "No living service is called '" + target.text +
                                                 "'. Start it, or see `ripc services` for what is there.");
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

Json to_json(const libripc::ServiceInfo& info) {
  return {{"id", format_id(info.id)}, {"name", info.name},           {"incarnation", info.incarnation},
          {"pid", info.pid},          {"transport", info.transport}, {"address", info.address},
          {"reason", info.reason},    {"others", info.others}};
}

StopOnSignal::StopOnSignal(libripc::Service& service) {
  stop_requested.store(false);
  stop_service.store(&service);
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopOnSignal::~StopOnSignal() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  stop_service.store(nullptr);
}

bool StopOnSignal::requested() const noexcept { return stop_requested.load(); }

}  // namespace cli
