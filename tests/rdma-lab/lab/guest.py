# SPDX-License-Identifier: Apache-2.0
"""One guest: a user-mode Linux kernel as a process of this machine, and the command that runs in it."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading

from lab import machine

# The guest gets the caller's environment, except for these variables, of which it has its own.
OWN_ENVIRONMENT = {"PATH", "HOME", "PWD", "OLDPWD", "TERM", "SHLVL", "TMPDIR", "_"}
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BOOT_SECONDS = 60  # it takes one; a machine may be busy
DEVICES = ("rxe", "siw")


def device_names(text):
    """For argparse: some of DEVICES, with commas between them."""
    names = text.split(",")
    if not set(names) <= set(DEVICES):
        raise ValueError(text)
    return names


class Guest:
    """Boots at once; the command runs when release() is called. One thread must make all calls.

    folder    an empty folder for this guest alone; the caller removes it after close()
    output    called with each piece of the command's standard output, from a thread of the guest's own
    error     the same for standard error
    ports     a descriptor of each of the lab's switches, or none: a node by itself; the caller may close them afterwards
    devices   as of device_names()
    """

    def __init__(self, *, kernel, folder, command, output, error, node=1, ports=(), memory=1024, writable=(),
                 environment=None, processor=0, devices=DEVICES):
        self.node = node
        self.folder = folder
        self.exit_status = None  # of the command
        self.ready = threading.Event()  # the devices are there
        self.ended = threading.Event()  # the kernel is gone, and all its output was handed on
        self.failure = None  # why the devices are not there
        self._write_orders(command, writable, environment or {}, len(ports), devices)

        self._control, far_control = socket.socketpair()
        read_output, write_output = os.pipe()
        read_error, write_error = os.pipe()
        theirs = [write_output, write_error, far_control.fileno(), *ports]
        arguments = [
            # The guest dies with this process; on one processor it is fast, because its processes never run at once.
            "setpriv", "--pdeathsig", "KILL", "taskset", "--cpu-list", str(processor),
            kernel, f"mem={memory}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet",
            f"umid=node{node}", f"uml_dir={folder}", f"init={folder}/guest/init", f"lab_folder={folder}",
            "con=null", "con0=null,fd:1", f"con1=null,fd:{write_output}", f"con2=null,fd:{write_error}",
            f"con3=fd:{far_control.fileno()},fd:{far_control.fileno()}"]
        arguments += [f"vec{link}:transport=fd,fd={port},mtu=4200" for link, port in enumerate(ports)]
        with open(folder / "console", "wb") as console:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=console, stderr=console, pass_fds=theirs,
                env={"PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin", "TMPDIR": "/dev/shm"},
                start_new_session=True)
        for descriptor in (write_output, write_error):
            os.close(descriptor)
        far_control.close()
        self._relays = [threading.Thread(target=self._relay, args=pair, daemon=True)
                        for pair in ((read_output, output), (read_error, error))]
        self._relays.append(threading.Thread(target=self._listen, daemon=True))
        for thread in self._relays:
            thread.start()
        threading.Thread(target=self._await_end, daemon=True).start()

    def _write_orders(self, command, writable, environment, links, devices):
        """Writes what guest/init and guest/session read."""
        shutil.copytree(machine.HERE / "guest", self.folder / "guest")
        folders = [self.folder, *writable]
        (self.folder / "writable").write_text("".join(f"{path}\n" for path in folders), encoding="utf-8")
        passed = {name: value for name, value in {**os.environ, **environment}.items()
                  if IDENTIFIER.fullmatch(name) and name not in OWN_ENVIRONMENT}
        passed.setdefault("RIPC_TEST_PROGRAM_DIR", str((machine.HERE / "../../build/release/tests").resolve()))
        (self.folder / "settings").write_text("\n".join([
            f"node={self.node}", f"links={links}", f"devices={','.join(devices)}",
            f"directory={shlex.quote(os.getcwd())}",
            f"environment=({shlex.join(f'{name}={value}' for name, value in passed.items())})",
            f"command=({shlex.join(command)})", ""]), encoding="utf-8", errors="surrogateescape")
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = file.read().split("\n\n")[0]
        if "cpu MHz" not in processor:
            processor += "\ncpu MHz\t\t: 1000.000"
        (self.folder / "cpuinfo").write_text(processor + "\n\n", encoding="utf-8")

    @staticmethod
    def _relay(descriptor, sink):
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            while piece := stream.read(1 << 16):
                sink(piece)

    def _listen(self):
        """Reads what guest/session says on the control line."""
        with self._control.makefile("r", encoding="utf-8", errors="replace") as lines:
            try:
                for line in lines:
                    word, _, rest = line.strip().partition(" ")
                    if word == "ready":
                        self.ready.set()
                    elif word == "failed":
                        self.failure = rest
                        self.ready.set()
                    elif word == "exit":
                        self.exit_status = int(rest)
            except ConnectionResetError:
                pass  # the guest was killed

    def _await_end(self):
        self._process.wait()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # as it should be: its processes went with it
        for thread in self._relays:
            thread.join()
        self.ready.set()
        self.ended.set()

    def await_ready(self):
        """Waits for the guest, and returns whether it has come up with its devices."""
        if not self.ready.wait(BOOT_SECONDS):
            self.failure = self.failure or f"it has not come up within {BOOT_SECONDS} seconds"
        return not self.ended.is_set() and self.failure is None

    def release(self):
        """Lets the command start."""
        try:
            self._control.sendall(b"go\n")
        except OSError:
            pass  # the guest is gone; `ended` tells

    def pause(self):
        """Stops the guest at once. Its processes do all through its kernel, so stopping that is enough."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def kill(self):
        """A power failure."""
        # The guest's processes are the kernel's children in its session, and die with it; this reaches all at once.
        try:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _signal(self, number):
        if self._process.poll() is None:
            self._process.send_signal(number)

    def close(self):
        """Ends the guest if it has not ended by itself. Afterwards the folder may go."""
        self.kill()
        self.ended.wait()
        self._control.close()

    def last_words(self):
        """The end of the kernel's console, for when a guest has failed."""
        text = (self.folder / "console").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-15:])
