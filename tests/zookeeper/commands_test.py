# SPDX-License-Identifier: Apache-2.0
"""The command line with services in a ZooKeeper ensemble. The hosts are runtime directories; the servers are real."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]

import tls  # noqa: E402
from ensemble import JAR, Ensemble, why_not  # noqa: E402
from harness import PATIENCE, SOURCE, CliTest  # noqa: E402

if why_not():
    print("skipped: " + why_not())
    sys.exit(77)


def shell(server, *words):
    """Runs a command of ZooKeeper's own shell, and returns what it prints."""
    done = subprocess.run(["java", "-cp", JAR, "org.apache.zookeeper.ZooKeeperMain", "-server", server, *words],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.stdout + done.stderr


class Commands(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.ensemble = Ensemble()

    @classmethod
    def tearDownClass(cls):
        cls.ensemble.close()

    def setUp(self):
        super().setUp()
        self.addCleanup(self.ensemble.heal)
        self.environment["RIPC_ZOOKEEPER"] = self.ensemble.text("/" + self._testMethodName)
        self.environment["RIPC_ZOOKEEPER_SESSION_MS"] = "1000"
        self.environment["RIPC_TRANSPORTS"] = "socket"
        self.environment["RIPC_SOCKET_ADDRESS"] = "127.0.0.1"

    def other_host(self, name="other"):
        """From here on commands run on another host."""
        self.environment["RIPC_RUNTIME_DIR"] = os.path.join(self.folder, name)
        os.mkdir(self.environment["RIPC_RUNTIME_DIR"], 0o700)

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not happen in time")

    def findings(self, code=0):
        findings = self.ripc_json("doctor", code=code)["findings"]
        return [finding for finding in findings if finding["subject"].startswith("zookeeper")]

    def test_a_service_of_another_host_is_found_by_zookeeper_and_reached(self):
        self.serve("files")
        self.other_host()
        out, _ = self.ripc("resolve", "files")
        self.assertIn(b"found by the zookeeper resolver", out)
        self.ripc("ping", "files", "--count", "10")
        services = self.ripc_json("services")["services"]
        self.assertEqual([service["name"] for service in services], ["files"])

    def test_services_of_this_host_are_listed_where_no_server_answers(self):
        self.serve("files")
        self.environment["RIPC_ZOOKEEPER"] = "127.0.0.1:1"
        services = self.ripc_json("services", code=4)
        self.assertEqual([service["name"] for service in services["services"]], ["files"])
        self.assertIn("127.0.0.1:1", services["error"])
        out, error = self.ripc("services", code=4)
        self.assertIn(b" files ", out)
        self.assertIn(b"ripc doctor", error)

    def test_a_move_fences_the_former_and_is_followed(self):
        former = self.serve("files")
        self.other_host("second")
        self.serve("files", "--takeover")
        former.wait(PATIENCE)
        self.other_host("third")
        self.ripc("ping", "files", "--count", "10")

    def member(self, name):
        """Makes an identity; returns its file and its public key."""
        path = os.path.join(self.folder, name + ".key")
        return path, self.ripc_json("key", "new", "--identity", "-o", path)["public_key"]

    def test_signed_records_move_and_no_send_fails_meanwhile(self):
        trust = os.path.join(self.folder, "trust")
        identities = {}
        for name, rights in (("alice", ["--holds", "files"]), ("bob", []), ("carol", ["--holds", "other"])):
            identities[name], key = self.member(name)
            self.ripc("trust", "add", name, key, *rights, "-f", trust)
        self.environment["RIPC_TRUST_FILE"] = trust
        self.environment["RIPC_IDENTITY_FILE"] = identities["alice"]
        former = self.serve("files")
        self.other_host("client")
        self.environment["RIPC_IDENTITY_FILE"] = identities["bob"]
        ping = self.start("ping", "files", "--count", "100000000", "--timeout", "8", "--json", stderr=subprocess.DEVNULL)
        self.until(lambda: self.ticks(ping) > 10)  # only pinging takes it that long
        self.other_host("thief")
        self.environment["RIPC_IDENTITY_FILE"] = identities["carol"]
        _, error = self.ripc("serve", self.served, "--service", "files", "--takeover", code=1)
        self.assertIn(b"does not let carol hold the name 'files'", error)
        self.other_host("second")
        self.environment["RIPC_IDENTITY_FILE"] = identities["alice"]
        self.serve("files", "--takeover")
        former.wait(PATIENCE)
        self.assertIsNone(ping.poll(), "it was sending when the service moved")
        output, _ = ping.communicate(timeout=PATIENCE)
        result = json.loads(output)
        self.assertEqual(result["failed"], 0, result)
        # One ping may be lost with the former holder, and one may be under way when the time is over.
        self.assertLessEqual(result["sent"], result["answered"] + 2, result)

    @staticmethod
    def ticks(process):
        """Processor time that a process has used, in hundredths of a second."""
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def test_the_servers_refuse_whom_an_access_list_leaves_out(self):
        server = f"127.0.0.1:{self.ensemble.ports[0]}"
        folder = "/" + self._testMethodName
        shell(server, "create", folder, "", "world:anyone:r")
        last = self.findings(code=1)[-1]
        self.assertEqual(last["level"], "broken")
        self.assertIn("publishing and reading is refused", last["text"])
        _, error = self.ripc("serve", self.served, "--service", "files", code=1)
        self.assertIn(b"does not let this process publish", error)

    def test_the_access_list_of_the_documentation_keeps_others_from_the_folder(self):
        with open(os.path.join(SOURCE, "docs", "zookeeper.md"), encoding="utf-8") as file:
            example = re.search(r"`setAcl /ripc (ip:10\.0\.0\.0/16:\w+)`", file.read())[1]
        server = f"127.0.0.1:{self.ensemble.ports[0]}"
        folder = "/" + self._testMethodName
        self.serve("files")
        shell(server, "setAcl", folder, example.replace("10.0.0.0/16", "127.0.0.0/8"))
        self.assertIn("[s]", shell(server, "ls", folder))
        self.assertEqual({finding["level"] for finding in self.findings()}, {"good"})
        shell(server, "setAcl", folder, example)
        self.assertIn("Insufficient permission", shell(server, "ls", folder))

    def test_a_program_that_is_stopped_loses_its_names_and_has_them_again_afterwards(self):
        process = self.serve("files")
        self.other_host()
        self.ripc("resolve", "files")
        process.send_signal(signal.SIGSTOP)
        self.until(lambda: not self.ripc_json("services")["services"])
        process.send_signal(signal.SIGCONT)
        self.until(lambda: self.ripc_json("services")["services"])
        self.ripc("ping", "files", "--count", "3")

    def test_another_key_finds_nothing_and_the_doctor_says_why(self):
        self.serve("files")
        self.other_host()
        with open(self.key, "w", encoding="ascii") as file:
            file.write("0123456789abcdef" * 4 + "\n")
        self.ripc("resolve", "files", code=3)
        texts = [finding["text"] for finding in self.findings()]
        self.assertTrue(any("1 records are not authentic" in text for text in texts), texts)

    def test_the_doctor_tells_each_server_and_whether_the_ensemble_serves(self):
        findings = self.findings()
        self.assertEqual({finding["level"] for finding in findings}, {"good"}, findings)
        self.assertEqual(len(findings), 4)
        self.ensemble.kill(0)
        self.assertEqual(sorted(finding["level"] for finding in self.findings()), ["good", "good", "good", "limited"])
        self.ensemble.kill(1)
        self.assertEqual(self.findings(code=1)[-1]["level"], "broken")
        _, error = self.ripc("resolve", "nobody", code=4)
        self.assertIn(b"see whether most of its servers run", error)

    def test_without_a_majority_messages_go_on_by_what_is_known(self):
        self.serve("files")
        self.other_host()
        ping = self.start("ping", "files", "--count", "100000000", "--timeout", "8", "--json", stderr=subprocess.DEVNULL)
        self.until(lambda: self.ticks(ping) > 10)  # only pinging takes it that long
        self.ensemble.kill(0)
        self.ensemble.kill(1)
        self.ripc("resolve", "nobody", code=4)
        before = self.ticks(ping)
        self.until(lambda: self.ticks(ping) > before + 10)
        self.assertIsNone(ping.poll(), "it was sending all the time")
        self.serve("own")
        self.ripc("ping", "own", "--count", "10")
        output, _ = ping.communicate(timeout=PATIENCE)
        result = json.loads(output)
        self.assertEqual(result["failed"], 0, result)
        # One ping may be under way when the time is over.
        self.assertLessEqual(result["sent"], result["answered"] + 1, result)

    def test_without_a_key_nothing_is_asked(self):
        os.remove(self.key)
        del self.environment["RIPC_TRANSPORTS"]
        _, error = self.ripc("resolve", "files", code=1)
        self.assertIn(b"RIPC_ZOOKEEPER asks other hosts", error)

    @unittest.skipIf(tls.why_not(), tls.why_not())
    def test_names_go_through_tls_with_a_certificate_and_not_without(self):
        tunnels = tls.Tunnels(self.folder, self.ensemble.ports)
        self.addCleanup(tunnels.close)
        self.environment["RIPC_ZOOKEEPER"] = f"127.0.0.1:{tunnels.client('host')}/tls"
        self.serve("files")
        self.other_host()
        self.assertIn(b"found by the zookeeper resolver", self.ripc("resolve", "files")[0])
        self.ensemble.kill(0)
        self.until(lambda: self.ripc_json("services")["services"])
        self.environment["RIPC_ZOOKEEPER"] = f"127.0.0.1:{tunnels.client('stranger')}/tls"
        self.ripc("resolve", "files", code=4)

    def test_resolvers_are_asked_in_the_order_that_is_set(self):
        self.environment["RIPC_RESOLVERS"] = "zookeeper,local"
        self.serve("files")
        self.assertIn(b"found by the zookeeper resolver", self.ripc("resolve", "files")[0])
        self.environment["RIPC_RESOLVERS"] = "local,zookeeper"
        self.assertIn(b"found by the local resolver", self.ripc("resolve", "files")[0])
        self.environment["RIPC_RESOLVERS"] = "local"
        self.other_host()
        self.ripc("resolve", "files", code=3)


if __name__ == "__main__":
    unittest.main()
