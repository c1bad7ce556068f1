// SPDX-License-Identifier: Apache-2.0
// ripc watch: waits until a file service says that it ends.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/connection.hpp"

namespace cli {
namespace {

struct WatchOptions {
  std::string service;
  std::string transport;
  double timeout = 30;
  bool timeout_given = false;
  bool json = false;
};

using Outcome = file::Connection::Outcome;

// Data for the main thread from the notification's callback, which runs in the library's responder thread.
struct Notice {
  std::mutex mutex;
  std::string text;
  std::atomic<bool> arrived{false};
};

// Data for the main thread from the watch of the ID: which registration it sees, which one ended last, and why.
struct Life {
  std::atomic<bool> is_seen{false};
  std::atomic<std::uint64_t> seen{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<ripc_status> why{RIPC_OK};
};

const char* reason_of(ripc_status status) {
  if (status == RIPC_CLOSED) return "it was unregistered";
  return status == RIPC_FENCED ? "a newer registration has its ID" : "its process ended, or cannot be reached any more";
}

void print_event(const WatchOptions& options, const file::Connection& connection, const char* event,
                 const std::string& text) {
  if (options.json) {
    print_json({{"event", event},
                {"service", options.service},
                {"pid", connection.info().pid},
                {"incarnation", connection.info().incarnation},
                {"text", text}});
    return;
  }
  std::printf("%s %s (%s)%s%s\n", event, options.service.c_str(), process_text(connection.info().pid).c_str(),
              text.empty() ? "" : ": ", printable(text).c_str());
  flush_output();
}

// Asks the service to run the notification, again until it has answered. RIPC_OK.
ripc::Error subscribe(file::Connection& connection, const ripc_notification& name) {
  while (true) {
    if (const ripc::Error error = connection.find(); !error.ok()) return error;
    file::RequestHeader request;
    request.request = connection.next_request();
    Outcome outcome = connection.send(file::Operation::subscribe, request, file::encode(name));
    ripc::Message message;
    file::ReplyHeader header;
    while (outcome == Outcome::done) {
      outcome = connection.receive(message, header);
      if (outcome == Outcome::done && header.request == request.request) break;
    }
    if (outcome == Outcome::failed) return connection.error();
    if (outcome != Outcome::done) continue;
    connection.progress();
    if (message.tag() == static_cast<std::uint32_t>(file::FileStatus::ok)) return {};
    return {RIPC_REFUSED, std::string(file::to_text(static_cast<file::FileStatus>(message.tag())))};
  }
}

int watch(const WatchOptions& options, file::Connection& connection, Notice& notice, const Life& life,
          const ripc_notification& name) {
  constexpr std::uint64_t kLastWord = 250'000'000;
  const char* event = "watching";
  while (true) {
    connection.progress();
    const std::uint64_t ended_before = life.ended.load();
    const ripc::Error error = subscribe(connection, name);
    if (!error.ok()) return fail(error);
    const std::uint64_t known = connection.info().incarnation;  // 0: the static resolver knows none
    const auto is_over = [&] { return notice.arrived.load(); };
    const auto has_ended = [&] {
      const std::uint64_t ended = life.ended.load();
      return known != 0 ? ended == known : ended != ended_before;
    };
    // The watch reports only the end of a registration that it has seen, and it may look later than this thread. If a
    // service ends before that, asking again shows it.
    const auto is_watched = [&] { return life.is_seen.load() && (known == 0 || life.seen.load() == known); };
    if (!is_over() && !has_ended() && !is_watched()) {
      (void)connection.service().receive(std::chrono::nanoseconds(kLastWord));
      continue;
    }
    print_event(options, connection, event, "");
    event = "watching again";
    while (!is_over() && !has_ended()) {
      const auto message = connection.service().receive();
      if (!message.ok() && message.code() != RIPC_INTERRUPTED) return fail(message.error());
    }
    // The service's last message may still be on its way.
    const std::uint64_t until = monotonic_now() + kLastWord;
    while (!is_over() && monotonic_now() < until)
      (void)connection.service().receive(std::chrono::nanoseconds(kLastWord));
    if (!is_over()) print_event(options, connection, "ended", reason_of(life.why.load()));
    if (is_over()) {
      const std::lock_guard lock(notice.mutex);
      print_event(options, connection, "notified by", notice.text);
      return kOk;
    }
  }
}

int run_watch(const WatchOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  auto client = Client::open(options.transport, to_timeout(options.timeout));
  if (!client.ok()) return fail(client.error());
  file::Connection connection(client->context, std::move(client->service), *std::move(target),
                              to_timeout(options.timeout), options.timeout_given);
  Notice notice;
  Life life;
  auto watched = client->context.watch(connection.target().id, [&](ripc_status status, const ripc::ServiceInfo& info) {
    if (status == RIPC_OK) {
      life.seen.store(info.incarnation);
    } else {
      life.why.store(status);
      life.ended.store(info.incarnation);
    }
    life.is_seen.store(status == RIPC_OK);
    (void)connection.service().interrupt();
  });
  if (!watched.ok()) return fail(watched.error());
  auto notification = connection.service().on_notification([&](ripc::ServiceId, std::span<const ripc_item_view> items) {
    {
      const std::lock_guard lock(notice.mutex);
      notice.text = items.empty() ? "" : std::string(ripc::ItemView(items[0]).text());
    }
    notice.arrived.store(true);
    (void)connection.service().interrupt();
  });
  if (!notification.ok()) return fail(notification.error());
  return watch(options, connection, notice, life, notification->name());
}

}  // namespace

void add_watch_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<WatchOptions>();
  CLI::App* command = app.add_subcommand("watch", "Wait for the notification that a file service sends when it ends");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  add_transport(*command, options->transport);
  CLI::Option* timeout = add_timeout(*command, options->timeout,
                                     "Seconds the service may be gone, for instance while it restarts. If given, "
                                     "also wait so long for a service that is not there yet");
  command->add_flag("--json", options->json, "Print one JSON object for each event");
  command->footer(std::string("Example: ripc watch files && echo files has ended\n"
                              "When the service is killed the watch says so, and goes on with its next process.\n") +
                  kExitCodeHelp);
  command->callback([options, timeout, &exit_code] {
    options->timeout_given = timeout->count() > 0;
    exit_code = run_watch(*options);
  });
}

}  // namespace cli
