#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills clients of the object store in examples/kv in mid-transaction. No lock and no half of a transaction stays.

RIPC_FAULT_KILLS sets how many are killed at random moments, RIPC_FAULT_SEED chooses the moments."""
import json
import os
import pathlib
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(os.environ["RIPC_BUILD_DIR"]) / "examples" / "transactions"
KILLS = int(os.environ.get("RIPC_FAULT_KILLS", "15"))
SEED = int(os.environ.get("RIPC_FAULT_SEED", "1"))
PATIENCE = 60  # seconds, for any single step
SERVERS = 3

if not os.access(PROGRAM, os.X_OK):
    print(f"skipped: {PROGRAM} is not built (scripts/setup test installs what it needs)")
    sys.exit(77)


class KilledClients:
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ripc-transactions-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        key = pathlib.Path(self.folder, "cluster.key")
        key.touch(0o600)
        key.write_text(secrets.token_hex(32))
        os.mkdir(f"{self.folder}/run", 0o700)
        self.environment = {**os.environ, "RIPC_RUNTIME_DIR": f"{self.folder}/run", "RIPC_TRANSPORTS": self.transport,
                            "RIPC_CLUSTER_KEY_FILE": str(key)}
        for index in range(SERVERS):
            server = self.start("server", "--index", str(index))
            self.assertIn(b"serving", server.stdout.readline())

    def start(self, *arguments):
        command = [PROGRAM, *arguments, "--objects", "100"]
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        process.stdout.close()

    def wait(self, process):
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, json.loads(output) if output else None

    def audit(self, dead):
        """What the servers see once each of them knows that `dead` clients have died."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            code, seen = self.wait(self.start("audit"))
            if seen["dead"] >= SERVERS * dead and (code == 0 or seen["locked"] == 0):
                self.assertEqual((code, seen["missing"], seen["damaged"]), (0, 0, 0), seen)
                return seen
        self.fail(f"locks stay: {seen}")

    def kill_in(self, phase, after):
        code, _ = self.wait(self.start("client", "--die-in", phase, "--die-after", str(after)))
        self.assertEqual(code, -signal.SIGKILL)

    def test_half_locked_and_half_logged_transactions_are_given_up(self):
        for dead, phase in enumerate(["execute", "validate", "log"], 1):
            before = self.audit(dead - 1)
            self.kill_in(phase, 100)
            seen = self.audit(dead)
            self.assertGreater(seen["given_up"], before["given_up"], phase)
            self.assertEqual(seen["brought_home"], before["brought_home"], phase)

    def test_a_half_committed_transaction_is_brought_home(self):
        for dead in range(1, 4):
            before = self.audit(dead - 1)
            self.kill_in("commit", 100)
            self.assertGreater(self.audit(dead)["brought_home"], before["brought_home"])

    def test_clients_killed_at_any_moment_leave_nothing_behind(self):
        chance = random.Random(SEED)
        other = self.start("client", "--batch", "3", "--count", "1000000000", "--say-every", "100")
        for _ in range(KILLS):
            client = self.start("client", "--batch", "11", "--count", "1000000000", "--say-every", "50",
                                "--seed", str(chance.randrange(1 << 30)))
            for _ in range(chance.randrange(1, 20)):
                self.assertIn(b"committed", client.stdout.readline())
            client.kill()
            client.wait(PATIENCE)
            # The other client goes on.
            self.assertIn(b"committed", other.stdout.readline())
        other.kill()
        other.wait(PATIENCE)
        seen = self.audit(KILLS + 1)
        self.assertGreater(seen["given_up"], 0)
        code, result = self.wait(self.start("client", "--count", "1000"))
        self.assertEqual((code, result["failed"], result["wrong"]), (0, 0, 0))


class KilledClientsOverSharedMemory(KilledClients, unittest.TestCase):
    transport = "shm"


class KilledClientsOverSockets(KilledClients, unittest.TestCase):
    transport = "socket"


if __name__ == "__main__":
    unittest.main()
