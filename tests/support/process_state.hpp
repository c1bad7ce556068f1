// SPDX-License-Identifier: Apache-2.0
// What the kernel says that a process or a thread does.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace support {

// The letter of proc(5): S sleeps, T is stopped. `folder`: in /proc. 0: there is none.
inline char state_in(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  std::getline(file, line);
  // The name of the program may have anything in it.
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string::npos ? '\0' : line[name_end + 2];
}

inline char state_of_process(pid_t process) { return state_in("/proc/" + std::to_string(process)); }
// Of this process.
inline char state_of_thread(pid_t thread) { return state_in("/proc/self/task/" + std::to_string(thread)); }

}  // namespace support
