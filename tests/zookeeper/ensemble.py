# SPDX-License-Identifier: Apache-2.0
"""Three real ZooKeeper servers on the loopback interface, for tests and benchmarks in Python."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

JAR = "/usr/share/java/zookeeper.jar"
CLIENT = "libzookeeper_st.so.2"
PATIENCE = 60  # seconds


def why_not():
    """Why the servers cannot run here; "" if they can."""
    if shutil.which("java") is None:
        return "there is no java: scripts/setup java installs it"
    if not os.path.exists(JAR):
        return "ZooKeeper is not installed: scripts/setup zookeeper installs it"
    # Not loaded here: only the programs under test need it.
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    return "" if CLIENT in listed else "libzookeeper-st2 is not installed: scripts/setup zookeeper installs it"


class Ensemble:
    """Starts the servers and waits until they serve. close() ends them."""

    def __init__(self, servers=3, sync=False):
        self.folder = tempfile.mkdtemp(prefix="ripc-zookeeper-")
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3 * servers)]
        ports = [listener.getsockname()[1] for listener in held]
        for listener in held:
            listener.close()
        self.ports = ports[:servers]
        peers = [f"server.{i + 1}=127.0.0.1:{ports[servers + i]}:{ports[2 * servers + i]}" for i in range(servers)]
        for i, port in enumerate(self.ports):
            data = os.path.join(self.folder, str(i))
            os.mkdir(data)
            with open(os.path.join(data, "myid"), "w", encoding="ascii") as file:
                file.write(f"{i + 1}\n")
            # Without the last, a server that was alone for a while asks so rarely that an election takes half a minute.
            lines = ["tickTime=500", "initLimit=20", "syncLimit=10", f"dataDir={data}", f"clientPort={port}",
                     "clientPortAddress=127.0.0.1", "admin.enableServer=false", "maxClientCnxns=0",
                     "4lw.commands.whitelist=*", f"forceSync={'yes' if sync else 'no'}", *peers,
                     "fastleader.maxNotificationInterval=500"]
            with open(os.path.join(data, "zoo.cfg"), "w", encoding="ascii") as file:
                file.write("\n".join(lines) + "\n")
        self.processes = [None] * servers
        self.heal()

    def text(self, folder):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports) + folder

    def start(self, number):
        config = os.path.join(self.folder, str(number), "zoo.cfg")
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", JAR,
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", config]
        self.processes[number] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                  stderr=subprocess.DEVNULL)

    def kill(self, number):
        process, self.processes[number] = self.processes[number], None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def heal(self):
        """Starts the servers that do not run, and waits until all serve."""
        for number, process in enumerate(self.processes):
            if process is None:
                self.start(number)
        end = time.monotonic() + PATIENCE
        while not all(self.mode(number) for number in range(len(self.processes))):
            if time.monotonic() > end:
                raise RuntimeError("the ZooKeeper servers do not serve")
            time.sleep(0.05)  # between two looks

    def mode(self, number):
        """"leader" or "follower"; "" if the server does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.ports[number]), 1) as connection:
                connection.sendall(b"srvr")
                text = b""
                while part := connection.recv(4096):
                    text += part
        except OSError:
            return ""
        modes = [line.split()[1].decode() for line in text.splitlines() if line.startswith(b"Mode:")]
        return modes[0] if modes else ""

    def close(self):
        for number in range(len(self.processes)):
            self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)
