// SPDX-License-Identifier: Apache-2.0
// Commands that set up what a test needs.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

namespace support {

enum class Output { shown, dropped };

// Runs a program, found in PATH, with the arguments that follow it, separated by blanks. Returns whether its exit
// status was 0.
inline bool run_command(const std::string& line, Output output = Output::shown) {
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; text >> word;) words.push_back(word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  if (output == Output::dropped) {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
      (void)posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = -1;
  int status = -1;
  const bool started = posix_spawnp(&pid, pointers.front(), &actions, nullptr, pointers.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  return started && waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace support
