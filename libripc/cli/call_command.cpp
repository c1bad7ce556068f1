// SPDX-License-Identifier: Apache-2.0
// ripc call: calls a method of a service and prints the answer.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "command.hpp"
#include "exit_code.hpp"
#include "file/descriptor.hpp"
#include "ripc/rpc.hpp"

namespace cli {
namespace {

struct CallCommandOptions {
  std::string service;
  std::uint32_t method = 0;
  std::string data;
  std::string file;
  std::string transport;
  double timeout = 5;
  bool json = false;
};

// Milliseconds for poll(), rounded up.
int poll_time(ripc::Nanoseconds left) {
  if (left == ripc::kForever) return -1;
  return static_cast<int>(std::min<std::int64_t>((left.count() + 999'999) / 1'000'000, INT_MAX));
}

// Reads standard input for "-", without a time limit, because a user may be typing. Any other file may be a pipe that
// nobody writes to.
ripc::Result<std::vector<std::byte>> read_file(const std::string& path, ripc::Nanoseconds timeout) {
  const auto failed = [&] {
    return ripc::Error(RIPC_SYSTEM, path + ": " + std::strerror(errno) +
                                        ". Name a file that this user may read, or - for standard input.");
  };
  const std::uint64_t started = monotonic_now();
  const bool is_input = path == "-";
  const Descriptor opened(is_input ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!is_input && !opened) return failed();
  const int fd = is_input ? STDIN_FILENO : opened.get();
  std::vector<std::byte> bytes;
  std::array<std::byte, std::size_t{1} << 16> part{};
  while (true) {
    pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
    // Standard input too, because it may be set not to block.
    if (poll(&wait, 1, is_input ? -1 : poll_time(time_left(started, timeout))) == 0)
      return ripc::Error(RIPC_TIMEOUT,
                         path + ": its content has not come within --timeout: write to it, or allow more time.");
    const ssize_t count = read(fd, part.data(), part.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return failed();
    if (count == 0) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.begin() + count);
  }
}

const char* outcome_name(ripc_call_outcome outcome) {
  switch (outcome) {
    case RIPC_CALL_ANSWERED:
      return "answered";
    case RIPC_CALL_DID_NOT_RUN:
      return "did not run";
    default:
      return "may have run";
  }
}

// The status of the first item that is missing in an answer.
ripc_status status_of(const ripc::CallResult& result) {
  for (std::size_t index = 0; index < result.item_count(); ++index)
    if (const ripc::ItemView view = result.item(index); !view.ok()) return view.status();
  return result.status();
}

// Whether the service ended the call with this status. libripc itself gives the others, here or on the way.
bool is_from_service(const ripc::CallResult& result) {
  if (result.answered()) return false;
  switch (result.status()) {
    case RIPC_NO_SERVICE:
    case RIPC_TIMEOUT:
    case RIPC_REFUSED:
    case RIPC_PEER_DEAD:
    case RIPC_CLOSED:
    case RIPC_FENCED:
    case RIPC_TOO_LARGE:
    case RIPC_NO_MEMORY:
    case RIPC_NO_DESCRIPTORS:
    case RIPC_CORRUPT:
    case RIPC_SYSTEM:
      return false;
    default:
      return true;
  }
}

// Why, if libripc in the service can give this status too.
std::string explained(const ripc::CallResult& result) {
  switch (result.status()) {
    case RIPC_AGAIN:
    case RIPC_LIMIT:
    case RIPC_VERSION_MISMATCH:
      return std::string(result.error().text());
    default:
      break;
  }
  const bool did_not_run = result.outcome() == RIPC_CALL_DID_NOT_RUN;
  return std::string(did_not_run ? "The call did not run, so it is safe to repeat it."
                                 : "The call may have run, so repeat it only if running twice does no harm.") +
         " Ask who wrote the service what this status means.";
}

int exit_code_of(const ripc::CallResult& result) {
  if (is_from_service(result) || (result.answered() && result.code() != 0)) return kRefused;
  return exit_code_for(status_of(result));
}

std::string what_happened(const CallCommandOptions& options, const ripc::CallResult& result) {
  const std::string who = "'" + options.service + "' ";
  if (result.answered() && status_of(result) != RIPC_OK)
    return who + "answered, but not all of the answer arrived: " + ripc_status_text(status_of(result));
  if (result.answered()) return who + "answered with code " + std::to_string(result.code()) + ".";
  if (result.status() == RIPC_UNSUPPORTED)
    return who + "has no method " + std::to_string(options.method) + ". The call did not run.";
  if (!is_from_service(result)) return std::string(result.error().text());
  const bool did_not_run = result.outcome() == RIPC_CALL_DID_NOT_RUN;
  return who + (did_not_run ? "refused" : "ended") + " method " + std::to_string(options.method) +
         (did_not_run ? " with " : " without an answer, with ") + ripc_status_name(result.status()) + ". " +
         explained(result);
}

Json result_json(const CallCommandOptions& options, const ripc::ServiceInfo& info, const ripc::CallResult& result,
                 std::uint64_t nanoseconds) {
  Json items = Json::array();
  for (std::size_t index = 0; index < result.item_count(); ++index) {
    const ripc::ItemView view = result.item(index);
    Json item = {{"size", view.size()}, {"status", ripc_status_name(view.status())}};
    if (is_utf8(view.text()))
      item["text"] = view.text();
    else
      item["base64"] = to_base64(view.text());
    items.push_back(std::move(item));
  }
  return {{"service", options.service},
          {"id", format_id(info.id)},
          {"method", options.method},
          {"outcome", outcome_name(result.outcome())},
          {"status", ripc_status_name(result.status())},
          {"code", result.code()},
          {"nanoseconds", nanoseconds},
          {"items", std::move(items)}};
}

int run_call(const CallCommandOptions& options) {
  auto target = Target::parse_service(options.service);
  if (!target.ok()) return fail(kUsage, target.error().text());
  const ripc::Nanoseconds timeout = to_timeout(options.timeout);
  std::uint64_t started = monotonic_now();
  std::vector<std::byte> content;
  if (!options.file.empty()) {
    auto read = read_file(options.file, timeout);
    if (!read.ok()) return fail(read.error());
    content = *std::move(read);
    if (options.file == "-") started = monotonic_now();
  }
  const ripc::Bytes argument = options.file.empty() ? ripc::bytes_of(options.data) : ripc::Bytes(content);

  auto client = Client::open(options.transport, timeout);
  if (!client.ok()) return fail(client.error());
  auto rpc = ripc::Rpc::create(client->service);
  if (!rpc.ok()) return fail(rpc.error());
  auto info = wait_for_service(client->context, *target, time_left(started, timeout));
  if (!info.ok()) return fail(info.error());

  const std::uint64_t called = monotonic_now();
  const ripc::CallResult result =
      rpc->call_wait(info->id, options.method, argument, {.timeout = time_left(started, timeout)});
  const std::uint64_t nanoseconds = monotonic_now() - called;
  if (result.status() == RIPC_REFUSED && result.outcome() == RIPC_CALL_DID_NOT_RUN) {
    // The path's error says who refuses, and why.
    if (const auto path = client->context.find_path(info->id); path.code() == RIPC_REFUSED) return fail(path.error());
  }
  const int exit_code = exit_code_of(result);
  const std::string failure = exit_code == kOk ? std::string() : what_happened(options, result);
  if (options.json) return print_outcome(result_json(options, *info, result, nanoseconds), exit_code, failure);
  for (std::size_t index = 0; index < result.item_count(); ++index) {
    const std::string_view text = result.item(index).text();
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (result.item_count() > 0 && isatty(STDOUT_FILENO) == 1) (void)std::fputc('\n', stdout);
  return exit_code == kOk ? exit_code : fail(exit_code, failure);
}

}  // namespace

void add_call_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CallCommandOptions>();
  CLI::App* command = app.add_subcommand("call", "Call a method of a service and print its answer");
  command->add_option("NAME", options->service, "The service: a name, or id:NUMBER")->required();
  command->add_option("METHOD", options->method, "The number of the method")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& text) {
            std::uint32_t number = 0;
            const bool good = CLI::detail::lexical_cast(text, number);
            return good ? std::string() : "'" + text + "' is not a method: give its number, from 0 to 4294967295.";
          },
          ""));
  CLI::Option* data = command->add_option("--data", options->data, "The argument: this text");
  command
      ->add_option("--file", options->file,
                   "The argument: what is in this file; - is standard input, which may take longer")
      ->excludes(data);
  add_timeout(*command, options->timeout,
              "Seconds for the whole call, with the reading of the file, also for a service that is not there yet");
  add_transport(*command, options->transport);
  command->add_flag("--json", options->json, "Print one JSON object instead of the answer itself");
  command->footer(std::string("Example: ripc call demo 0 --data hello    with    ripc serve-calls demo\n") +
                  kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_call(*options); });
}

}  // namespace cli
