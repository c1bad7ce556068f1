# SPDX-License-Identifier: Apache-2.0
"""Support for the tests of the command line: a runtime directory of their own, the command, and a file service.

The command is $RIPC_BUILD_DIR/bin/ripc, or that of the release build."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.environ.get("RIPC_BUILD_DIR", os.path.join(SOURCE, "build", "release"))
RIPC = os.path.join(BUILD, "bin", "ripc")
PATIENCE = 60  # seconds, for any single step

if not os.access(RIPC, os.X_OK):
    print(f"skipped: {RIPC} is not built (RIPC_BUILD_CLI)")
    sys.exit(77)


class CliTest(unittest.TestCase):
    """A test with its own runtime directory and temporary folder; ends the processes it started."""

    prefix = []  # a command that runs ripc elsewhere

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ripc-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("RIPC_")}
        if "RIPC_TEST_TRANSPORTS" in os.environ:
            self.environment["RIPC_TRANSPORTS"] = os.environ["RIPC_TEST_TRANSPORTS"]
        # Nothing is sent to the network.
        self.environment["RIPC_MULTICAST"] = "off"
        self.environment["RIPC_RUNTIME_DIR"] = os.path.join(self.folder, "runtime")
        os.mkdir(self.environment["RIPC_RUNTIME_DIR"], 0o700)
        self.environment["XDG_CONFIG_HOME"] = os.path.join(self.folder, "config")
        os.makedirs(os.path.join(self.folder, "config", "ripc"), 0o700)
        self.key = os.path.join(self.folder, "config", "ripc", "cluster.key")
        with os.fdopen(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        self.served = os.path.join(self.folder, "served")
        os.mkdir(self.served)
        self.fetched = os.path.join(self.folder, "fetched")

    def ripc(self, *arguments, code=0, input=None):
        """Runs the command; its exit code must be `code`. Returns (stdout, stderr) as bytes."""
        done = subprocess.run([*self.prefix, RIPC, *arguments], env=self.environment, input=input, capture_output=True, timeout=PATIENCE)
        self.assertEqual(
            done.returncode, code, f"ripc {' '.join(arguments)}\n{done.stdout[-2000:]!r}\n{done.stderr.decode()[-2000:]}")
        return done.stdout, done.stderr

    def require_strace(self):
        """Skips the test where strace is missing or may not trace."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed (`scripts/setup test`)")
        tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"strace cannot trace here: {tried.stderr.decode().strip()}")

    def ripc_json(self, *arguments, code=0):
        """The one JSON object that the command prints with --json."""
        out, _ = self.ripc(*arguments, "--json", code=code)
        return json.loads(out)

    def start(self, *arguments, **options):
        """Starts the command in the background."""
        options.setdefault("stdout", subprocess.PIPE)
        process = subprocess.Popen([*self.prefix, RIPC, *arguments], env=self.environment, **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def serve(self, name="files", *arguments):
        """A file service over self.served, ready to answer."""
        process = self.start("serve", self.served, "--service", name, *arguments)
        self.assertIn(b"serving", process.stdout.readline())
        return process

    def write(self, path, content):
        full = os.path.join(self.served, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content)
        return content

    def assert_fetched(self, content, path=None):
        with open(path or self.fetched, "rb") as file:
            self.assertTrue(file.read() == content, "the fetched file differs from the served one")
