# SPDX-License-Identifier: Apache-2.0
"""What the lab needs of the machine: whether a guest can run here, the kernel, a folder that leaves nothing behind."""

import ctypes
import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SKIPPED = 77  # exit code of a test that cannot run on this machine
TIMED_OUT = 124
GUEST_FAILED = 125

LEAST_MEMORY = 512 << 20
PTRACE_TRACEME = 0
FOLDER_PREFIX = "ripc-lab."


class CannotRun(Exception):
    """The lab cannot run on this machine; the text says why and what to do."""


class Ended(Exception):
    """A signal asked this program to end."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


def end_on_signals():
    """SIGINT, SIGTERM and SIGHUP become the exception Ended in the main thread, so that everything is cleaned up."""

    def end(number, _):
        # Nothing may interrupt the cleanup itself.
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def _may_trace():
    """Whether a process of ours may be traced: some containers and hardened kernels forbid it."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def kernel():
    """The path of the lab's kernel; CannotRun if a guest cannot run here."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise CannotRun(f"the lab needs Linux on x86_64; this is {platform.system()} on {platform.machine()}")
    for program, package in (("busybox", "busybox-static"), ("setpriv", "util-linux"), ("taskset", "util-linux"),
                             ("rdma", "iproute2")):
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/bin:/usr/sbin:/sbin"):
            raise CannotRun(f"{program} is not installed (Debian package {package}): run scripts/setup lab")
    if not os.access("/dev/shm", os.W_OK) or os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC:
        raise CannotRun("a guest's memory is a file in /dev/shm: it must be writable and not be mounted noexec")
    status = os.statvfs("/dev/shm")
    if status.f_bavail * status.f_frsize < LEAST_MEMORY:
        raise CannotRun(f"a guest's memory is a file in /dev/shm, which has less than {LEAST_MEMORY >> 20} MB free: "
                        "remove what lies there, or give a container more (docker run --shm-size=2g)")
    if not _may_trace():
        raise CannotRun("user-mode Linux needs ptrace, which this machine does not allow: in a container, add the "
                        "capability SYS_PTRACE or a seccomp profile that lets ptrace through")
    answer = subprocess.run([HERE / "build-kernel", "--path"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise CannotRun(answer.stderr.strip().splitlines()[-1].removeprefix("build-kernel: "))
    return answer.stdout.strip()


class Folder:
    """A temporary folder that is removed at the end. If its owner was killed, the next lab that starts removes it.

    The owner locks the file "lock" in the folder; the machine's kernel releases the lock when the process ends."""

    def __init__(self):
        self._reclaim()
        self.path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self._lock = open(self.path / "lock", "w", encoding="utf-8")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    @staticmethod
    def _reclaim():
        for path in Path(tempfile.gettempdir()).glob(FOLDER_PREFIX + "*"):
            try:
                with open(path / "lock", "r+", encoding="utf-8") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            except FileNotFoundError:
                # The owner is just making the folder, or was killed before it made the lock.
                try:
                    if time.time() - path.stat().st_mtime > 60:
                        shutil.rmtree(path, ignore_errors=True)
                except FileNotFoundError:
                    pass
            except (BlockingIOError, PermissionError):
                pass  # in use, or somebody else's


def main(name, run):
    """Runs run() as a program: exit status, signals, and the reasons why the lab cannot run."""
    end_on_signals()
    try:
        status = run()
    except CannotRun as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        status = SKIPPED
    except Ended as ended:
        print(f"{name}: ended by {ended}", file=sys.stderr)
        status = ended.exit_status
    # Skips the interpreter's shutdown: a thread may still wait for a reader of our output that never reads.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
