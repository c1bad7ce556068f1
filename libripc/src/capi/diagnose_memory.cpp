// SPDX-License-Identifier: Apache-2.0
// The part of the self-check for memory outside of the pool: whether one process may read another's.
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/first_line.hpp"
#include "capi/diagnose.hpp"

namespace ripc::internal::capi {

namespace {

constexpr const char* kInstead =
    "; long items outside of the pool go through a bounce buffer, return buffers are pulled";

// The result, 0 or errno, of an attempt to read a byte of this program's memory in that process.
int read_byte_of(pid_t process) {
  static const char from = 'x';
  char to = 0;
  const iovec local{&to, 1};
  const iovec remote{const_cast<char*>(&from), 1};
  return process_vm_readv(process, &local, 1, &remote, 1, 0) == 1 ? 0 : errno;
}

// The same, seen from another process of this user: a child, because a parent is allowed more. The application does not
// notice it: the child ends without a signal. -1: no child could be started.
int read_this_process_from_another() {
  const pid_t self = getpid();
  const long child = syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    syscall(SYS_exit_group, read_byte_of(self));
    __builtin_unreachable();
  }
  if (child < 0) return -1;
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(static_cast<pid_t>(child), &status, static_cast<int>(__WCLONE));
  } while (ended < 0 && errno == EINTR);
  return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

void check_process_memory(Report& report) {
  const std::string subject = "foreign memory";
  if (const int error = read_byte_of(getpid()); error != 0) {
    report.add(Level::limited, subject,
               std::string("process_vm_readv fails (") + (error == ENOSYS ? "not in this kernel" : "forbidden") + ")" +
                   kInstead,
               "send from leased buffers, or allow process_vm_readv and process_vm_writev (a container's seccomp "
               "profile may forbid them)");
    return;
  }
  const int error = read_this_process_from_another();
  if (error == 0) {
    report.add(Level::good, subject,
               "process_vm_readv works between processes of one user and one PID namespace; `ripc resolve` says what "
               "holds for a service");
    return;
  }
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (error < 0) {
    report.add(Level::limited, subject, "no process could be made to try it", "raise `ulimit -u`");
  } else if (prctl(PR_GET_DUMPABLE) != 1) {
    report.add(Level::limited, subject,
               std::string("this process is not dumpable: no other may read its memory") + kInstead,
               "send from leased buffers; it has changed its user, has capabilities of its file, or called "
               "prctl(PR_SET_DUMPABLE, 0)");
  } else if (!scope.empty() && scope != "0") {
    report.add(Level::limited, subject,
               "kernel.yama.ptrace_scope is " + scope + ": processes may not read each other" + kInstead,
               "send from leased buffers, or set sysctl kernel.yama.ptrace_scope=0");
  } else {
    report.add(Level::limited, subject,
               std::string("a security module (AppArmor, SELinux) does not let processes read each other") + kInstead,
               "send from leased buffers, or allow ptrace between these processes in its policy");
  }
}

}  // namespace ripc::internal::capi
