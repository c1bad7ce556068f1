// SPDX-License-Identifier: Apache-2.0
// Support for the fault tests: processes to kill, items that show whether they are whole, and counts of what a process
// holds. Every program in this folder links it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ripc/ripc.h"
#include "support/handles.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace fault {

using support::Context;
using support::eventually;
using support::kLimit;
using support::kMillisecond;
using support::kSecond;
using support::Message;
using support::now;
using support::Service;
using support::TemporaryDirectory;
using support::Ticket;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;  // allocators of sanitizers keep memory and mappings for themselves
#else
inline constexpr bool kSanitized = false;
#endif

// ---- Chance ---------------------------------------------------------------------------------------------

// splitmix64: the same numbers for the same seed everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

// The value of this environment variable; `otherwise` if it is not set or not a number.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise);

// From RIPC_FAULT_ROUNDS (200 if it is not set) and RIPC_FAULT_SEED.
struct Rounds {
  std::uint64_t count;
  std::uint64_t seed;
};
// Returns one in `share` of the rounds, at least two, and prints them with the seed so that a failure can be repeated.
Rounds rounds_from_environment(std::uint64_t share = 1);

// ---- Items that show whether they are whole ----------------------------------------------------------------------

inline constexpr std::size_t kSmallestItem = 24;  // seed, size, checksum
// Fills memory (at least kSmallestItem bytes) with an item that describes itself.
void fill_item(void* data, std::size_t size, std::uint64_t seed);
std::vector<std::byte> make_item(std::size_t size, std::uint64_t seed);
// True if the bytes are exactly what one fill_item() wrote.
bool is_whole(const void* data, std::size_t size);
// "" if every item that arrived is whole, else what is wrong. Failed items are not a flaw.
std::string flaw_of(const ripc_message* message);

// ---- The library -------------------------------------------------------------------------------------------------

ripc_context_options context_options(const std::string& directory);
// On error, fails the test and returns nullptr.
Context make_context(const ripc_context_options& options);
Context make_context(const std::string& directory, std::uint64_t pool_limit = 0, const char* transports = "shm");
Service make_service(const Context& context, ripc_service_id id,
                     const std::function<void(ripc_service_options&)>& change = nullptr);
ripc_status send_short(const Service& from, ripc_service_id to, std::uint64_t seed, std::size_t size = 64,
                       std::uint32_t tag = 0);
// Waits up to `timeout`; nullptr if nothing came.
Message receive(const Service& service, std::uint64_t timeout = kLimit, std::uint32_t flags = 0);
ripc_service_statistics statistics_of(const Service& service);
ripc_pool_statistics pool_statistics_of(const Context& context);
// Exchanges a checked message each way between services of two contexts. Returns "", or what went wrong.
std::string exchange(const Service& left, const Service& right, std::uint64_t seed);

// ---- What a process holds ----------------------------------------------------------------------------------------

std::size_t descriptor_count();
// Counts only the descriptors whose target, as /proc/self/fd shows it, begins with `target`.
std::size_t descriptor_count(const std::string& target);
std::size_t mapping_count();
std::size_t thread_count();
std::size_t resident_bytes();                                     // private and shared
std::vector<std::string> names_in(const std::string& directory);  // sorted; without those that start with "."
void raise_descriptor_limit(std::size_t wanted);

// ---- Processes ---------------------------------------------------------------------------------------------------

// What this program does when a test starts it again as another process: roles[name](arguments) gives the exit status.
using Role = std::function<int(const std::vector<std::string>& arguments)>;
// main() of a test program with roles: runs the role that the command line asks for, else the tests, under a watchdog.
int run(int argc, char** argv, const std::map<std::string, Role>& roles);

class Process {
 public:
  Process() = default;
  Process(const std::string& role, const std::vector<std::string>& arguments);  // fails the test if it cannot
  // Forks this process, which should have no context, and runs `body` in the child. `body` may use EXPECT; the exit
  // status is 0 if none failed.
  static Process forked(const std::function<void()>& body);
  Process(Process&& other) noexcept : pid_(other.pid_) { other.pid_ = -1; }
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills it

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void kill();  // SIGKILL, and waits for its end
  // Waits up to `limit`. Returns the exit status, 128 + the signal, or -1 if the process does not end.
  int wait(std::uint64_t limit = kLimit);

 private:
  pid_t pid_ = -1;
};

}  // namespace fault
