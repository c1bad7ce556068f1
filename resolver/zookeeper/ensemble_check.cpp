// SPDX-License-Identifier: Apache-2.0
#include "resolver/zookeeper/ensemble_check.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/plain_text.hpp"
#include "base/unique_fd.hpp"
#include "resolver/zookeeper/zookeeper_directory.hpp"

namespace ripc::internal::resolver {
namespace {

// A user is waiting for `ripc doctor`, so a server that takes longer is reported as silent.
constexpr Nanoseconds kServerTime = 1'000'000'000;
constexpr Nanoseconds kSessionTime = 3'000'000'000;
constexpr std::size_t kMostAnswer = 4096;

bool wait_for(int fd, short events, Deadline deadline) {
  pollfd descriptor{fd, events, 0};
  return ::poll(&descriptor, 1, deadline.remaining_milliseconds()) > 0;
}

// The text between `name: ` and one of these characters. It comes from anyone, and is shown on terminals.
std::string value_of(std::string_view text, std::string_view name, std::string_view ends) {
  const std::size_t start = text.find(name);
  if (start == std::string_view::npos) return {};
  text.remove_prefix(start + name.size());
  text = text.substr(0, text.find_first_of(ends));
  return is_plain_text(text) ? std::string(text) : std::string();
}

UniqueFd connect_to(const ZooKeeperServer& server, Deadline deadline, std::string& failure) {
  const Result<AddressList> found = server.look_up();
  if (!found.ok()) {
    failure = found.status().text();
    return {};
  }
  Nanoseconds left = 0;
  for (const addrinfo* address = found->get(); address != nullptr; address = address->ai_next) ++left;
  for (const addrinfo* address = found->get(); address != nullptr; address = address->ai_next) {
    const Deadline turn = Deadline::after(deadline.remaining() / left--);
    UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      const char* const advice = errno == EMFILE ? "; raise ulimit -n" : "";
      if (failure.empty())
        failure = std::string("no connection to it can be made (") + std::strerror(errno) + advice + ")";
      continue;
    }
    if (::connect(fd.get(), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
      failure = std::string("it cannot be reached (") + std::strerror(errno) + ")";
      continue;
    }
    int code = ETIMEDOUT;
    socklen_t size = sizeof code;
    if (wait_for(fd.get(), POLLOUT, turn)) ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code == 0) return fd;
    failure = std::string("it cannot be reached (") + std::strerror(code) + ")";
  }
  return {};
}

ServerAnswer ask_server(const ZooKeeperServer& server) {
  ServerAnswer answer;
  answer.server = server.text();
  const Deadline deadline = Deadline::after(kServerTime);
  const UniqueFd fd = connect_to(server, deadline, answer.failure);
  if (!fd) return answer;
  answer.failure.clear();
  std::string text;
  if (::send(fd.get(), "srvr", 4, MSG_NOSIGNAL) == 4) {
    while (text.size() < kMostAnswer && wait_for(fd.get(), POLLIN, deadline)) {
      char buffer[1024];
      const ssize_t count = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (count <= 0) break;
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }
  if (text.empty()) answer.failure = "it accepts connections, but does not answer: it may be stopped";
  read_answer(text, answer);
  return answer;
}

// A listener that is notified when it can ask, and that waits for its answers.
class Checker final : public Directory::Listener {
 public:
  explicit Checker(Directory& directory) : directory_(directory) {}

  void link_up(std::uint64_t session, bool) override {
    const std::lock_guard lock(mutex_);
    session_ = session;
    changed_.notify_all();
  }
  void link_down() override {}
  void changed(std::string_view) override {}

  bool wait_for_link() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kSessionTime), [this] { return session_ != 0; });
  }
  // If no answer comes in time, it is `unknown`.
  template <typename Ask>
  Directory::Answer answer_to(const Ask& ask) {
    const auto place = std::make_shared<std::optional<Directory::Answer>>();
    ask([this, place](const Directory::Answer& answer) {
      const std::lock_guard lock(mutex_);
      *place = answer;
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(kSessionTime), [&] { return place->has_value(); });
    return place->value_or(Directory::Answer{});
  }
  Directory::Answer get(const std::string& path, Directory::Read how) {
    return answer_to([&](Directory::Done done) { directory_.get(path, how, std::move(done)); });
  }
  Directory::Answer commit(const Directory::Write& write) {
    return answer_to([&](Directory::Done done) { directory_.commit(session_, {write}, std::move(done)); });
  }

 private:
  Directory& directory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> session_{0};  // 0: none yet
};

void write_and_read(Checker& checker, std::uint64_t context, EnsembleCheck& check) {
  using Outcome = Directory::Outcome;
  // In a folder of services, so that the result holds for services too.
  const std::string path = service_folder(0) + "/check-" + std::to_string(context);
  check.is_first = checker.get("/s", Directory::Read::plain).outcome == Outcome::absent;
  // The first attempt may have to make folders.
  const Directory::Answer made = checker.commit({Directory::Write::Kind::create, path, "", {}});
  const std::int64_t now = static_cast<std::int64_t>(realtime_now() / 1'000'000);
  const Directory::Answer seen = checker.get(path, Directory::Read::exact);
  for (const Directory::Answer* answer : {&made, &seen}) {
    if (answer->outcome == Outcome::refused) check.refusal = answer->reason;
  }
  if (made.outcome != Outcome::done || seen.outcome != Outcome::done) return;
  check.clock_difference = seen.node.born - now;
  const Nanoseconds began = monotonic_now();
  check.is_written = checker.commit({Directory::Write::Kind::remove, path, "", seen.node}).outcome == Outcome::done;
  check.round_trip = monotonic_now() - began;
}

}  // namespace

void read_answer(std::string_view text, ServerAnswer& answer) {
  answer.mode = value_of(text, "Mode: ", ",\r\n");
  answer.version = value_of(text, "Zookeeper version: ", "-,\r\n");
  answer.is_without_quorum = text.find("not currently serving") != std::string_view::npos;
}

std::vector<ServerAnswer> ask_servers(const ZooKeeperOptions& options) {
  std::vector<ServerAnswer> answers;
  answers.reserve(options.servers.size());
  for (const ZooKeeperServer& server : options.servers) answers.push_back(ask_server(server));
  return answers;
}

EnsembleCheck check_ensemble(const ZooKeeperOptions& options, const DirectoryOptions& rules, std::uint64_t context) {
  EnsembleCheck check;
  {
    Result<std::unique_ptr<ZooKeeperDirectory>> directory = ZooKeeperDirectory::create(options);
    if (!directory.ok()) {
      check.failure = directory.status();
      return check;
    }
    Checker checker(**directory);
    check.failure = (*directory)->start(checker);
    if (!check.failure.ok()) return check;
    const Nanoseconds began = monotonic_now();
    check.is_linked = checker.wait_for_link();
    check.waited = monotonic_now() - began;
    check.trouble = (*directory)->trouble();
    if (check.is_linked) write_and_read(checker, context, check);
    (*directory)->stop();
  }
  if (!check.is_written) return check;
  Result<std::unique_ptr<ZooKeeperDirectory>> directory = ZooKeeperDirectory::create(options);
  if (!directory.ok()) return check;
  Result<std::unique_ptr<DirectoryResolver>> resolver =
      DirectoryResolver::create(std::move(*directory), rules, context);
  if (!resolver.ok()) return check;
  (void)(*resolver)->list([&](const spi::ServiceRecord&) { ++check.services; });
  check.ignored = (*resolver)->state().counters.ignored();
  return check;
}

}  // namespace ripc::internal::resolver
