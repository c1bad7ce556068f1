// SPDX-License-Identifier: Apache-2.0
#include "command.hpp"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

std::atomic<ripc::Service*> stop_service{nullptr};
std::atomic<bool> stop_requested{false};

extern "C" void on_stop_signal(int) {
  const int saved = errno;
  stop_requested.store(true);
  if (ripc::Service* service = stop_service.load()) (void)service->interrupt();
  errno = saved;
}

// Decimal, or hexadecimal after 0x.
bool parse_number(std::string_view digits, std::uint64_t& number) noexcept {
  const bool is_hex = digits.starts_with("0x");
  if (is_hex) digits.remove_prefix(2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, is_hex ? 16 : 10);
  return error == std::errc() && end == digits.data() + digits.size();
}

constexpr int kPauseMilliseconds = 10;  // between two look-ups; a resolver may answer at once

// Called between look-ups, which may take long. True: another one that takes as long as the last would not end in time.
bool is_over(std::uint64_t started, ripc::Nanoseconds timeout, std::uint64_t last_look) {
  if (timeout == ripc::kForever) return false;
  const std::uint64_t now = monotonic_now();
  return now - started + (now - last_look) >= static_cast<std::uint64_t>(timeout.count());
}

}  // namespace

ripc::Result<Target> Target::parse(const std::string& text) {
  constexpr std::string_view kIdPrefix = "id:";
  constexpr std::string_view kGroupPrefix = "group:";
  Target target;
  target.text = text;
  if (text.starts_with(kIdPrefix)) {
    if (!parse_number(std::string_view(text).substr(kIdPrefix.size()), target.id) || target.id == 0)
      return ripc::Error(RIPC_INVALID_ARGUMENT,
                         "'" + text + "' is not a service ID: write id: and a number from 1, such as id:7 or id:0x7.");
    return target;
  }
  if (text.starts_with(kGroupPrefix)) {
    const std::string name = text.substr(kGroupPrefix.size());
    if (!name.empty() && name.front() >= '0' && name.front() <= '9') {
      if (!parse_number(name, target.id) || target.id > RIPC_GROUP_NUMBER_MAX)
        return ripc::Error(RIPC_INVALID_ARGUMENT,
                           "'" + text + "' is not a group: write group: and a name that starts with a letter, or a " +
                               "number up to 2^61 - 1, such as group:7 or group:0x7.");
      target.id = RIPC_GROUP_ID(target.id);
      return target;
    }
    auto id = ripc::group_id_from_name(name);
    if (!id.ok()) return ripc::Error(id.code(), "'" + text + "' is not a group: " + std::string(id.error().text()));
    target.id = *id;
    return target;
  }
  auto id = ripc::id_from_name(text);
  if (!id.ok()) return id.error();
  target.name = text;
  target.id = *id;
  return target;
}

ripc::Result<Target> Target::parse_service(const std::string& text) {
  auto target = parse(text);
  if (target.ok() && target->is_group())
    return ripc::Error(RIPC_INVALID_ARGUMENT, "'" + text +
                                                  "' is a group; this command takes one service. `ripc resolve " +
                                                  text + "` lists the group's members.");
  return target;
}

std::string Target::hint() const {
  std::uint64_t number = 0;
  const bool is_id = name.starts_with("0x") && parse_number(name, number);
  return is_id ? " For an ID write id:" + name + "." : "";
}

ripc::Result<ripc::ServiceInfo> Target::resolve(ripc::Context& context) const {
  return name.empty() ? context.resolve(id) : context.resolve(name);
}

ripc::Result<ripc::Context> open_context(const std::string& transports, ripc::Nanoseconds timeout) {
  ripc::ContextOptions options;
  options.transports = transports;
  constexpr ripc::Nanoseconds kDefaultResolveTimeout = std::chrono::seconds(1);
  if (timeout < kDefaultResolveTimeout) options.resolve_timeout = timeout;
  auto context = ripc::Context::create(options);
  if (!context.ok()) return of_this_user(context.error());
  return context;
}

ripc::Error of_this_user(const ripc::Error& error) {
  return error.code() == RIPC_REFUSED ? ripc::Error(RIPC_PERMISSION, std::string(error.text())) : error;
}

ripc::Result<Client> Client::open(const std::string& transports, ripc::Nanoseconds timeout) {
  auto context = open_context(transports, timeout);
  if (!context.ok()) return context.error();
  auto service = context->register_service();
  if (!service.ok()) return service.error();
  return Client{*std::move(context), *std::move(service)};
}

ripc::Nanoseconds to_timeout(double seconds) {
  if (seconds > 1e9) return ripc::kForever;
  return ripc::Nanoseconds(seconds <= 0 ? 0 : static_cast<std::int64_t>(seconds * 1e9));
}

ripc::Nanoseconds time_left(std::uint64_t started, ripc::Nanoseconds timeout) {
  if (timeout == ripc::kForever) return timeout;
  const auto passed = ripc::Nanoseconds(static_cast<std::int64_t>(monotonic_now() - started));
  return std::max(timeout - passed, ripc::Nanoseconds(0));
}

ripc::Result<ripc::ServiceInfo> wait_for_service(ripc::Context& context, const Target& target,
                                                 ripc::Nanoseconds timeout) {
  const std::uint64_t started = monotonic_now();
  while (true) {
    const std::uint64_t look = monotonic_now();
    auto info = target.resolve(context);
    if (info.ok() || info.code() != RIPC_NO_SERVICE) return info;
    if (is_over(started, timeout, look)) {
      // Another look-up that takes as long would end too late.
      const ripc::Nanoseconds left = time_left(started, timeout);
      if (left.count() != 0 && context.wait_service(target.id, left).ok()) return target.resolve(context);
      return ripc::Error(RIPC_NO_SERVICE, "There is no living service '" + target.text +
                                              "'; `ripc services` shows what is there." + target.hint() + " " +
                                              std::string(info.error().text()));
    }
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

ripc::Result<std::vector<ripc::ServiceInfo>> wait_for_members(ripc::Context& context, const Target& target,
                                                              ripc::Nanoseconds timeout) {
  const std::uint64_t started = monotonic_now();
  while (true) {
    const std::uint64_t look = monotonic_now();
    auto members = context.members(target.id);
    if (!members.ok() || !members->empty()) return members;
    if (is_over(started, timeout, look))
      return ripc::Error(RIPC_NO_SERVICE, "The group '" + target.text +
                                              "' has no living member. Let services join it, or see `ripc services` "
                                              "for what is there.");
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

std::string process_text(std::uint32_t pid) { return "process " + (pid == 0 ? "unknown" : std::to_string(pid)); }

Json to_json(const ripc::ServiceInfo& info) {
  Json groups = Json::array();
  for (const ripc::ServiceId group : info.groups) groups.push_back(format_id(group));
  return {{"id", format_id(info.id)}, {"name", info.name},           {"incarnation", info.incarnation},
          {"pid", info.pid},          {"transport", info.transport}, {"address", info.address},
          {"reason", info.reason},    {"others", info.others},       {"groups", std::move(groups)}};
}

StopOnSignal::StopOnSignal(ripc::Service& service) {
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
