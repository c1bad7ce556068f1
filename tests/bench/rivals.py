# SPDX-License-Identifier: Apache-2.0
"""What tests/bench/compare runs: libripc and the tools it is compared with, one class each. It also starts and ends
their processes. measure(test, count) returns nanoseconds, messages per second, or 10^9 bytes per second."""
import csv
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
RUN_SECONDS = 90  # the longest that one measurement may take
SIZES = {"rtt_64": 64, "rtt_4K": 4 << 10, "rtt_16K": 16 << 10, "rate_32": 32, "bulk_16K": 16 << 10, "bulk_64K": 64 << 10,
         "bulk_100K": 100 << 10, "bulk_1M": 1 << 20, "bulk_64M": 64 << 20}
TESTS = list(SIZES)


def kind(test):
    """What a test measures: "rtt", "rate" or "bulk"."""
    return test.partition("_")[0]


class CannotRun(Exception):
    pass


def first_line(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


class Machine:
    """Starts processes on the two cores, keeps their command lines, and ends what it started by pid."""

    def __init__(self, cores):
        self.cores = cores
        self.running = []
        self.commands = {}

    def wrap(self, core, command, environment):
        prefix = ["env"] + [f"{key}={value}" for key, value in environment.items()] if environment else []
        return ["taskset", "-c", core] + prefix + command

    def start(self, command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        self.running.append(process)
        return process

    def stop(self, process):
        if process.poll() is None:
            # The process leads its own session: the signal reaches its children and no other process.
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.running.remove(process)

    def finish(self, process):
        try:
            output, _ = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise CannotRun(f"did not end within {RUN_SECONDS} s")
        if process.returncode != 0:
            raise CannotRun(f"exit code {process.returncode}: {first_line(output)}")
        return output

    def run(self, key, command):
        """One program that starts both sides itself."""
        both = ["taskset", "-c", ",".join(self.cores)] + command
        self.commands[key] = shlex.join(both)
        process = self.start(both)
        try:
            return self.finish(process)
        finally:
            self.stop(process)

    def pair(self, key, server, client, environment, ready):
        """A server on the first core, a client on the second; `ready` says when the client may start."""
        server = self.wrap(self.cores[0], server, environment)
        client = self.wrap(self.cores[1], client, environment)
        self.commands[key] = shlex.join(server) + " & " + shlex.join(client)
        serving = self.start(server)
        try:
            deadline = time.monotonic() + 15
            while not ready():
                if serving.poll() is not None:
                    raise CannotRun("server: " + first_line(serving.communicate()[0]))
                if time.monotonic() > deadline:
                    raise CannotRun("the server did not begin to listen within 15 s")
                time.sleep(0.02)
            asking = self.start(client)
            try:
                return self.finish(asking)
            finally:
                self.stop(asking)
        finally:
            self.stop(serving)

    def stop_all(self):
        for process in list(self.running):
            self.stop(process)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens_on(port, protocol="tcp"):
    """Checks without connecting: these tools take the first connection for their client."""
    state = "0A" if protocol == "tcp" else "07"
    for table in (f"/proc/net/{protocol}", f"/proc/net/{protocol}6"):
        with open(table, encoding="ascii") as lines:
            if any(re.search(rf":{port:04X} [0-9A-F]+:0000 {state} ", line) for line in lines):
                return True
    return False


# ---- One class for each tool: measure(test, count) returns the figure in the units above ---------------------------

# The largest short messages of libripc: larger bulk is measured as long messages.
LARGEST_SHORT = {"shm": 4 << 10, "socket": 1 << 20}


class Ripc:
    name = "libripc"
    package = None
    tests = TESTS

    def __init__(self, machine, work, transport):
        self.machine = machine
        self.transport = transport
        self.program = os.environ.get("RIPC_BIN", os.path.join(TOP, "build", "release", "bin", "ripc"))
        self.work = work

    def missing(self):
        if not os.access(self.program, os.X_OK):
            return f"{self.program} is not there: build the preset release, or set RIPC_BIN"
        return None

    def measure(self, test, count):
        size = SIZES[test]
        is_long = size > LARGEST_SHORT[self.transport]
        arguments = {"rtt": ["pingpong", "--kind", "auto"], "rate": ["rate"],
                     "bulk": ["bandwidth", "--kind", "long" if is_long else "auto"]}[kind(test)]
        # The rivals encrypt nothing.
        command = ["env", "RIPC_MULTICAST=off", "RIPC_NETWORK=open", self.program, "bench"] + arguments
        if self.transport == "socket" and is_long:
            command += ["--wait", "block"]  # on two cores, spinning takes them away from the threads that move the bytes
        command += ["--transport", self.transport, "--size", str(size), "--iterations", str(count), "--json"]
        result = json.loads(self.machine.run((self.name, test), command))
        if kind(test) == "rtt":
            return result["rtt_ns"]["p50"]
        return result["messages_per_second"] if kind(test) == "rate" else result["bytes_per_second"] / 1e9


class Ucx:
    package = "ucx-utils"

    def __init__(self, machine, work, name, arguments, environment):
        del work
        self.machine = machine
        self.name = name
        self.arguments = arguments  # for each test
        self.environment = dict(environment, UCX_WARN_UNUSED_ENV_VARS="n") if environment else {}
        self.tests = [test for test in TESTS if test in arguments]

    def missing(self):
        return None if shutil.which("ucx_perftest") else "ucx_perftest is not installed (package ucx-utils)"

    def measure(self, test, count):
        port = free_port()
        options = shlex.split(self.arguments[test])
        options += ["-s", str(SIZES[test]), "-n", str(count), "-w", str(max(2, count // 20)), "-f", "-v"]
        server = ["ucx_perftest", "-p", str(port)]
        client = ["ucx_perftest", "127.0.0.1", "-p", str(port)] + options
        output = self.machine.pair((self.name, test), server, client, self.environment, lambda: listens_on(port))
        lines = output.splitlines()
        # The header names the columns: iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,...
        start = next((i for i, line in enumerate(lines) if line.startswith("iterations,")), None)
        if start is None or start + 1 >= len(lines):
            raise CannotRun("no figures: " + first_line(output))
        row = dict(zip(next(csv.reader([lines[start]])), next(csv.reader([lines[-1]]))))
        if kind(test) == "rtt":
            return float(row["50.0_percentile_lat"]) * 2 * 1000
        return float(row["overall_mr"]) if kind(test) == "rate" else float(row["overall_bw"]) * (1 << 20) / 1e9


class Libfabric:
    package = "libfabric-bin"

    def __init__(self, machine, work, name, provider, endpoint, tests):
        del work
        self.machine = machine
        self.name = name
        self.options = ["-p", provider, "-e", endpoint]
        self.tests = tests

    def missing(self):
        return None if shutil.which("fi_pingpong") else "fi_pingpong is not installed (package libfabric-bin)"

    def measure(self, test, count):
        port = free_port()
        common = ["fi_pingpong"] + self.options + ["-I", str(count), "-S", str(SIZES[test])]
        output = self.machine.pair((self.name, test), common + ["-B", str(port)],
                                   common + ["-P", str(port), "127.0.0.1"], {}, lambda: listens_on(port))
        lines = [line.split() for line in output.splitlines() if line.strip()]
        header = next((line for line in lines if line[0] == "bytes"), None)
        if header is None or len(lines[-1]) != len(header):
            raise CannotRun("no figures: " + first_line(output))
        row = dict(zip(header, lines[-1]))
        return float(row["usec/xfer"]) * 2 * 1000 if kind(test) == "rtt" else float(row["MB/sec"]) / 1000


class Iperf:
    name = "iperf3 (TCP stream)"
    package = "iperf3"
    tests = ["bulk_1M"]

    def __init__(self, machine, work):
        del work
        self.machine = machine

    def missing(self):
        return None if shutil.which("iperf3") else "iperf3 is not installed (package iperf3)"

    def measure(self, test, count):
        port = free_port()
        size = SIZES[test]
        output = self.machine.pair(
            (self.name, test), ["iperf3", "-s", "-1", "-p", str(port)],
            ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-l", str(size), "-n", str(size * count), "-J"], {},
            lambda: listens_on(port))
        return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8e9


class Sockperf:
    name = "sockperf (UDP, spinning)"
    package = "sockperf"
    tests = ["rtt_64"]

    def __init__(self, machine, work):
        del work
        self.machine = machine

    def missing(self):
        return None if shutil.which("sockperf") else "sockperf is not installed (package sockperf)"

    def measure(self, test, count):
        del count  # it runs for a fixed time
        port = free_port()
        common = ["-i", "127.0.0.1", "-p", str(port), "--nonblocked"]
        output = self.machine.pair(
            (self.name, test), ["sockperf", "server"] + common,
            ["sockperf", "ping-pong"] + common + ["-m", str(SIZES[test]), "-t", "2", "--full-rtt"], {},
            lambda: listens_on(port, "udp"))
        found = re.search(r"percentile 50\.0+ *= *([0-9.]+)", output)
        if not found:
            raise CannotRun("no figures: " + first_line(output))
        return float(found.group(1)) * 1000


class SocketProgram:
    """zmq_pair.cpp and unix_pair.cpp."""

    tests = TESTS
    KINDS = {"rtt": "latency", "rate": "rate", "bulk": "bandwidth"}

    def __init__(self, machine, work, name, source, package, library, header, over="ipc"):
        self.machine = machine
        self.over = over
        self.work = work
        self.name = name
        self.source = source
        self.package = package
        self.library = library
        self.header = header
        self.program = os.path.join(work, source)

    def missing(self):
        if self.header and not os.path.exists(self.header):
            return f"{self.header} is not there (package {self.package})"
        compiler = shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            return "no C++ compiler (package g++)"
        if not os.path.exists(self.program):
            built = subprocess.run([compiler, "-std=c++20", "-O2", os.path.join(HERE, self.source + ".cpp"), "-o",
                                    self.program] + self.library, capture_output=True, text=True, check=False)
            if built.returncode != 0:
                return "does not compile: " + first_line(built.stderr)
        return None

    def measure(self, test, count):
        port = free_port()
        path = os.path.join(self.work, f"socket-{port}")
        address = f"tcp://127.0.0.1:{port}" if self.over == "tcp" else "ipc://" + path if self.library else path
        common = [address, self.KINDS[kind(test)], str(SIZES[test]), str(count)]
        output = self.machine.pair((self.name, test), [self.program, "serve"] + common, [self.program, "run"] + common,
                                   {}, lambda: listens_on(port) if self.over == "tcp" else os.path.exists(path))
        result = json.loads(output)
        if kind(test) == "rtt":
            return result["p50_ns"]
        return count / result["seconds"] * (1 if kind(test) == "rate" else SIZES[test] / 1e9)


UCX_TAG = {test: "-t tag_lat" if kind(test) == "rtt" else "-t tag_bw" for test in TESTS}
MIDDLE = ["rtt_4K", "rtt_16K", "bulk_16K", "bulk_64K", "bulk_100K"]


def rivals_over_memory(machine, work):
    posix = {"UCX_TLS": "posix,self"}
    cma = {"UCX_TLS": "posix,cma,self"}
    uct = "-x posix -d memory -D"
    return [
        Ucx(machine, work, "UCX posix am short (uct)",
            {"rtt_64": f"-t am_lat {uct} short", "rate_32": f"-t am_bw {uct} short"}, {}),
        Ucx(machine, work, "UCX posix am bcopy (uct)",
            {"rtt_64": f"-t am_lat {uct} bcopy", "rate_32": f"-t am_bw {uct} bcopy"}, {}),
        Ucx(machine, work, "UCX posix am (ucp)", {"rtt_64": "-t ucp_am_lat", "rate_32": "-t ucp_am_bw"}, posix),
        Ucx(machine, work, "UCX posix tag (ucp)", UCX_TAG, posix),
        Ucx(machine, work, "UCX posix+cma tag (ucp)", {"bulk_1M": "-t tag_bw", "bulk_64M": "-t tag_bw"}, cma),
        Ucx(machine, work, "UCX posix put (ucp)", {"bulk_1M": "-t ucp_put_bw", "bulk_64M": "-t ucp_put_bw"}, posix),
        Libfabric(machine, work, "libfabric shm (fi_pingpong)", "shm", "rdm", ["rtt_64", *MIDDLE, "bulk_1M", "bulk_64M"]),
        SocketProgram(machine, work, "ZeroMQ PAIR ipc", "zmq_pair", "libzmq3-dev", ["-lzmq"], "/usr/include/zmq.h"),
        SocketProgram(machine, work, "Unix stream socket", "unix_pair", None, [], None),
    ]


def rivals_over_sockets(machine, work):
    tcp = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
    return [
        Ucx(machine, work, "UCX tcp am (ucp)", {"rtt_64": "-t ucp_am_lat", "rate_32": "-t ucp_am_bw"}, tcp),
        Ucx(machine, work, "UCX tcp tag (ucp)", UCX_TAG, tcp),
        Libfabric(machine, work, "libfabric udp (fi_pingpong)", "udp", "dgram", ["rtt_64"]),
        Libfabric(machine, work, "libfabric tcp (fi_pingpong)", "tcp", "msg", ["rtt_64", *MIDDLE, "bulk_1M", "bulk_64M"]),
        SocketProgram(machine, work, "ZeroMQ PAIR tcp", "zmq_pair", "libzmq3-dev", ["-lzmq"], "/usr/include/zmq.h", "tcp"),
        Sockperf(machine, work),
        Iperf(machine, work),
    ]


RIVALS = {"shm": rivals_over_memory, "socket": rivals_over_sockets}
