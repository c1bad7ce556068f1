// SPDX-License-Identifier: Apache-2.0
// For tests about processes and directories: temporary directories, child processes that always end, and environment
// variables that are restored.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "support/temporary_directory.hpp"

namespace ripc::internal::test {

inline bool mentions(const Status& status, std::string_view text) {
  return status.text().find(text) != std::string::npos;
}

inline constexpr uid_t kNobody = 65534;
inline constexpr unsigned kChildSeconds = 60;  // then SIGALRM ends a child that hangs

using support::TemporaryDirectory;

// The names in a directory, sorted; without "." and "..".
inline std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(path.c_str());
  EXPECT_NE(directory, nullptr) << path;
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

inline mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// A forked child that runs `body` and exits with its result (0: success). If the child still runs, the destructor kills
// and reaps it.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(kChildSeconds);
    ::_exit(body());
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ > 0) {
      kill(SIGKILL);
      wait();
    }
  }

  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  // The exit code; 1000 + signal if a signal ended it.
  int wait() {
    int status = 0;
    pid_t result;
    do {
      result = ::waitpid(pid_, &status, 0);
    } while (result < 0 && errno == EINTR);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

template <typename Body>
int run_in_child(Body&& body) {
  return Child(std::forward<Body>(body)).wait();
}

// In a child: ends it with the line number, so that the parent's failure says where.
#define CHILD_CHECK(condition)                                                      \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition); \
      ::_exit(1 + __LINE__ % 200);                                                  \
    }                                                                               \
  } while (false)

// Passes single bytes between processes.
class Pipe {
 public:
  Pipe() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    read_.reset(fds[0]);
    write_.reset(fds[1]);
  }
  void put() const { static_cast<void>(!::write(write_.get(), "x", 1)); }
  // False if every writer has gone, or after a minute.
  bool get() const {
    pollfd waited{read_.get(), POLLIN, 0};
    int ready;
    do {
      ready = ::poll(&waited, 1, static_cast<int>(kChildSeconds) * 1000);
    } while (ready < 0 && errno == EINTR);
    if (ready != 1) return false;
    char byte = 0;
    ssize_t count;
    do {
      count = ::read(read_.get(), &byte, 1);
    } while (count < 0 && errno == EINTR);
    return count == 1;
  }
  void close_read() { read_.reset(); }
  void close_write() { write_.reset(); }

 private:
  UniqueFd read_, write_;
};

// Sets an environment variable, or removes it (nullptr); the destructor restores it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~Environment() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// In a child: uses up all descriptors, so that no more can be opened.
inline void fill_descriptor_table() {
  const rlimit limit{64, 64};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  while (::open("/", O_PATH | O_CLOEXEC) >= 0) {
  }
}

// In a child of root: becomes a user with no rights.
inline bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

#define SKIP_UNLESS_ROOT(why)                                      \
  do {                                                             \
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: " << (why); \
  } while (false)

}  // namespace ripc::internal::test
