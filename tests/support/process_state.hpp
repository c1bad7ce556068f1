// SPDX-License-Identifier: Apache-2.0
// What a process or a thread is doing, as the kernel reports it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

namespace support {

// Returns the state letter of proc(5), such as S (sleeps) or T (stopped). `folder` is in /proc. 0: there is none.
inline char state_in(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  std::getline(file, line);
  // The name of the program may contain any character.
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string::npos ? '\0' : line[name_end + 2];
}

inline char state_of_process(pid_t process) { return state_in("/proc/" + std::to_string(process)); }
// The thread belongs to this process.
inline char state_of_thread(pid_t thread) { return state_in("/proc/self/task/" + std::to_string(thread)); }

// How often the threads of this process have slept, not counting `others`.
inline std::uint64_t sleeps_of_threads_but(const std::set<pid_t>& others) {
  std::uint64_t sleeps = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (others.contains(static_cast<pid_t>(std::stol(thread.path().filename())))) continue;
    std::ifstream file(thread.path() / "status");
    constexpr std::string_view kField = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(kField)) sleeps += std::stoull(line.substr(kField.size()));
    }
  }
  return sleeps;
}

// The bytes that one line of this process's smaps_rollup (proc(5)) states, such as "Private_Dirty:". 0: there is none.
inline std::uint64_t memory_of(const std::string& field) {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace support
