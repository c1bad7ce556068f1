# SPDX-License-Identifier: Apache-2.0
"""TLS by stunnel in front of ZooKeeper servers and clients, as docs/zookeeper.md describes it."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

from ensemble import PATIENCE


def why_not():
    """Why stunnel cannot run here; "" if it can."""
    missing = [name for name in ("stunnel4", "openssl") if shutil.which(name) is None]
    return f"there is no {missing[0]}: scripts/setup zookeeper installs it" if missing else ""


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


class Tunnels:
    """All certificates come from one authority, except the self-signed one of `stranger`. close() ends all tunnels."""

    def __init__(self, folder, servers):
        self.folder = folder
        self.processes = []
        self._certificate("ca", "-x509")
        for host in ("server", "host"):
            self._certificate(host)
            self._openssl("x509", "-req", "-in", "{host}.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                          "-out", "{host}.pem", host=host)
        self._certificate("stranger", "-x509")
        self.ports = free_ports(len(servers))
        for own, server in zip(self.ports, servers):
            self._start(f"accept = 127.0.0.1:{own}\nconnect = 127.0.0.1:{server}\n", "server")

    def client(self, certificate):
        """Starts the tunnel of a host with this certificate, and returns its port."""
        port, = free_ports(1)
        connect = "".join(f"connect = 127.0.0.1:{server}\n" for server in self.ports)
        self._start(f"client = yes\naccept = 127.0.0.1:{port}\n{connect}failover = rr\n", certificate)
        return port

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def _openssl(self, *arguments, **names):
        subprocess.run(["openssl", *(argument.format(**names) for argument in arguments)], cwd=self.folder, check=True,
                       capture_output=True)

    def _certificate(self, name, *options):
        self._openssl("req", *options, "-newkey", "ed25519", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                      "-out", f"{name}.pem")

    def _start(self, lines, certificate):
        path = os.path.join(self.folder, f"{len(self.processes)}.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"foreground = yes\npid =\n[zookeeper]\n{lines}verifyChain = yes\nCAfile = {self.folder}/ca.pem\n"
                       f"cert = {self.folder}/{certificate}.pem\nkey = {self.folder}/{certificate}.key\n")
        with open(path + ".log", "wb") as log:
            self.processes.append(subprocess.Popen(["stunnel4", path], stdin=subprocess.DEVNULL, stderr=log))
        end = time.monotonic() + PATIENCE
        while b"Configuration successful" not in pathlib.Path(path + ".log").read_bytes():
            if self.processes[-1].poll() is not None or time.monotonic() > end:
                raise RuntimeError(pathlib.Path(path + ".log").read_text(encoding="utf-8"))
            time.sleep(0.01)
