// SPDX-License-Identifier: Apache-2.0
#include "fault_support.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/cluster_key.hpp"

namespace fault {

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 0);
  return *end == '\0' ? value : otherwise;
}

Rounds rounds_from_environment(std::uint64_t share) {
  const Rounds rounds{.count = std::max<std::uint64_t>(number_from_environment("RIPC_FAULT_ROUNDS", 200) / share, 2),
                      .seed = number_from_environment("RIPC_FAULT_SEED", 20240229)};
  std::printf("%llu rounds, RIPC_FAULT_SEED=%llu\n", static_cast<unsigned long long>(rounds.count),
              static_cast<unsigned long long>(rounds.seed));
  return rounds;
}

// ---- Items -------------------------------------------------------------------------------------------------------

namespace {

struct ItemHeader {
  std::uint64_t seed, size, check;
};
static_assert(sizeof(ItemHeader) == kSmallestItem);

constexpr std::uint64_t kMark = 0x66617561746c7421u;

std::uint64_t word_at(std::uint64_t seed, std::size_t index) { return (seed + index + 1) * 0x9e3779b97f4a7c15u; }

}  // namespace

void fill_item(void* data, std::size_t size, std::uint64_t seed) {
  const ItemHeader header{seed, size, seed ^ size ^ kMark};
  auto* bytes = static_cast<std::byte*>(data);
  std::memcpy(bytes, &header, sizeof header);
  for (std::size_t at = sizeof header; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(seed, at);
    std::memcpy(bytes + at, &word, std::min(sizeof word, size - at));
  }
}

std::vector<std::byte> make_item(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> item(std::max(size, kSmallestItem));
  fill_item(item.data(), item.size(), seed);
  return item;
}

bool is_whole(const void* data, std::size_t size) {
  if (data == nullptr || size < sizeof(ItemHeader)) return false;
  const auto* bytes = static_cast<const std::byte*>(data);
  ItemHeader header{};
  std::memcpy(&header, bytes, sizeof header);
  if (header.size != size || header.check != (header.seed ^ header.size ^ kMark)) return false;
  for (std::size_t at = sizeof header; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(header.seed, at);
    if (std::memcmp(bytes + at, &word, std::min(sizeof word, size - at)) != 0) return false;
  }
  return true;
}

std::string flaw_of(const ripc_message* message) {
  for (std::size_t index = 0; index < ripc_message_get_item_count(message); ++index) {
    ripc_item_view view{};
    if (ripc_message_get_item(message, index, &view) != RIPC_OK) return "item " + std::to_string(index) + " is missing";
    if (view.kind == RIPC_VIEW_FAILED) continue;
    if (!is_whole(view.data, view.size))
      return "item " + std::to_string(index) + " of " + std::to_string(view.size) + " bytes, view kind " +
             std::to_string(view.kind) + ", tag " + std::to_string(ripc_message_get_tag(message)) + " is not whole";
  }
  return {};
}

// ---- The library -------------------------------------------------------------------------------------------------

ripc_context_options context_options(const std::string& directory) {
  ripc_context_options options;
  ripc_context_options_init(&options);
  options.runtime_directory = directory.c_str();
  options.transports = "shm";
  return options;
}

Context make_context(const ripc_context_options& options) {
  ripc_context* context = nullptr;
  EXPECT_EQ(ripc_context_create(&options, &context), RIPC_OK) << ripc_last_error();
  return Context(context);
}

Context make_context(const std::string& directory, std::uint64_t pool_limit, const char* transports) {
  ripc_context_options options = context_options(directory);
  options.transports = transports;
  options.pool_limit = pool_limit;
  return make_context(options);
}

Service make_service(const Context& context, ripc_service_id id,
                     const std::function<void(ripc_service_options&)>& change) {
  ripc_service_options options;
  ripc_service_options_init(&options);
  options.id = id;
  if (change) change(options);
  ripc_service* service = nullptr;
  EXPECT_EQ(ripc_service_register(context.get(), &options, &service), RIPC_OK) << ripc_last_error();
  return Service(service);
}

ripc_status send_short(const Service& from, ripc_service_id to, std::uint64_t seed, std::size_t size,
                       std::uint32_t tag) {
  const std::vector<std::byte> bytes = make_item(size, seed);
  const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0};
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.tag = tag;
  return ripc_send(from.get(), to, &item, 1, &options, nullptr);
}

Message receive(const Service& service, std::uint64_t timeout, std::uint32_t flags) {
  ripc_message* message = nullptr;
  if (ripc_receive(service.get(), flags, timeout, &message) != RIPC_OK) return nullptr;
  return Message(message);
}

ripc_service_statistics statistics_of(const Service& service) {
  ripc_service_statistics statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(ripc_service_get_statistics(service.get(), &statistics), RIPC_OK) << ripc_last_error();
  return statistics;
}

ripc_pool_statistics pool_statistics_of(const Context& context) {
  ripc_pool_statistics statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(ripc_pool_get_statistics(context.get(), &statistics), RIPC_OK) << ripc_last_error();
  return statistics;
}

std::string exchange(const Service& left, const Service& right, std::uint64_t seed) {
  for (const auto& [from, to] : {std::pair{&left, &right}, std::pair{&right, &left}}) {
    const ripc_service_id id = ripc_service_get_id(to->get());
    if (const ripc_status status = send_short(*from, id, seed); status != RIPC_OK)
      return std::string("send: ") + ripc_status_name(status) + ": " + ripc_last_error();
    const Message message = receive(*to);
    if (!message) return "a message did not arrive";
    if (std::string flaw = flaw_of(message.get()); !flaw.empty()) return flaw;
    if (ripc_message_get_source(message.get()) != ripc_service_get_id(from->get())) return "a message of somebody else";
  }
  return {};
}

// ---- What a process holds ----------------------------------------------------------------------------------------

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::size_t descriptor_count() { return names_in("/proc/self/fd").size(); }

std::size_t descriptor_count(const std::string& target) {
  const std::vector<std::string> names = names_in("/proc/self/fd");
  return static_cast<std::size_t>(std::count_if(names.begin(), names.end(), [&](const std::string& name) {
    std::error_code gone;  // the descriptor that listed the names is closed by now
    return std::filesystem::read_symlink("/proc/self/fd/" + name, gone).string().starts_with(target);
  }));
}

std::size_t mapping_count() {
  std::ifstream file("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

std::size_t thread_count() { return names_in("/proc/self/task").size(); }

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void raise_descriptor_limit(std::size_t wanted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// ---- Processes ---------------------------------------------------------------------------------------------------

Process::Process(const std::string& role, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"/proc/self/exe", "--role=" + role};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int error = posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ);
  if (error != 0) {
    pid_ = -1;
    ADD_FAILURE() << "posix_spawn: " << std::strerror(error);
  }
}

Process Process::forked(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  Process process;
  process.pid_ = fork();
  if (process.pid_ != 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(3);
  alarm(120);
  body();
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

Process::~Process() { kill(); }

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void Process::kill() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

int Process::wait(std::uint64_t limit) {
  if (pid_ <= 0) return -1;
  int status = 0;
  if (!eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, limit)) return -1;
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

namespace {

// Longer than any test with the default numbers of rounds; long runs set RIPC_FAULT_WATCHDOG.
constexpr std::uint64_t kSecondsPerTest = 180;

void give_up(int) {
  static const char text[] = "\nwatchdog: this test does not end\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, sizeof text - 1);
  std::abort();
}

class Watchdog : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    alarm(static_cast<unsigned>(number_from_environment("RIPC_FAULT_WATCHDOG", kSecondsPerTest)));
  }
  void OnTestEnd(const testing::TestInfo&) override { alarm(0); }
};

}  // namespace

int run(int argc, char** argv, const std::map<std::string, Role>& roles) {
  for (const char* name : {"RIPC_RUNTIME_DIR", "RIPC_TRANSPORTS", "RIPC_RESOLVER_FILE", "RIPC_SPIN_US", "RIPC_PEERS"})
    unsetenv(name);
  support::use_cluster_key();
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first.starts_with("--role=")) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto role = roles.find(std::string(first.substr(7)));
    return role == roles.end() ? 2 : role->second({argv + 2, argv + argc});
  }
  testing::InitGoogleTest(&argc, argv);
  ::signal(SIGALRM, give_up);
  testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
  return RUN_ALL_TESTS();
}

}  // namespace fault
