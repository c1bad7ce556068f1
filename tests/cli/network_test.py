# SPDX-License-Identifier: Apache-2.0
"""Who is let in from other hosts: nobody without a cluster key, unless the user says so."""

import os
import random
import shutil
import stat
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from harness import CliTest  # noqa: E402


class NetworkTest(CliTest):
    def finding(self, subject, code=0):
        findings = self.ripc_json("doctor", code=code)["findings"]
        return [finding for finding in findings if finding["subject"] == subject][0]

    def errors(self, *arguments, code=1):
        return self.ripc(*arguments, code=code)[1].decode()


class WithoutKey(NetworkTest):
    def setUp(self):
        super().setUp()
        os.remove(self.key)
        del self.environment["RIPC_MULTICAST"]
        self.environment.pop("RIPC_TRANSPORTS", None)

    def test_services_of_this_host_are_served_by_shared_memory_alone(self):
        self.serve("files")
        found = self.ripc_json("resolve", "files")
        self.assertEqual(found["transport"], "shm")
        self.assertEqual(found["rails"], [])
        self.assertIn("no cluster key", found["others"])
        self.assertIn("ripc key new", found["others"])

    def test_who_finds_nothing_is_told_that_no_other_host_was_asked(self):
        for command in (["resolve", "far"], ["ping", "far", "--timeout", "0"], ["get", "far", "file", "-o", self.fetched]):
            errors = self.errors(*command, code=3)
            self.assertIn("No other host was asked, because there is no cluster key", errors)
            self.assertIn(self.key, errors)

    def test_services_says_in_a_line_that_only_this_host_was_looked_at_if_there_is_none(self):
        lines = self.ripc("services")[0].decode().splitlines()
        self.assertEqual(len(lines), 2, lines)
        for words in ("services of this host only", "over shared memory", "no cluster key", "ripc key new", self.key):
            self.assertIn(words, lines[1])
        self.assertEqual(self.ripc_json("services"), {"services": []})
        self.serve("files")
        self.assertNotIn("ripc key new", self.ripc("services")[0].decode())

    def test_a_transport_that_leaves_the_host_is_refused_if_it_was_named(self):
        for transports in ("socket", "shm,socket"):
            errors = self.errors("serve", self.served, "--service", "files", "--transport", transports)
            self.assertIn("ripc key new", errors)
            self.assertIn("RIPC_NETWORK=open", errors)
        self.environment["RIPC_TRANSPORTS"] = "socket"
        self.assertIn("ripc key new", self.errors("services"))

    def test_multicast_is_refused_if_it_was_asked_for(self):
        self.environment["RIPC_MULTICAST"] = "interface=lo,ttl=0"
        self.assertIn("RIPC_MULTICAST", self.errors("services"))

    def test_doctor_says_how_to_join_other_hosts(self):
        finding = self.finding("network")
        self.assertEqual(finding["level"], "good")
        self.assertIn("this host only", finding["text"])
        self.assertIn("ripc key new", finding["advice"])

    def test_a_benchmark_between_sockets_brings_a_key_of_its_own(self):
        self.environment["TMPDIR"] = self.folder
        before = os.listdir(self.folder)
        result = self.ripc_json("bench", "pingpong", "--transport", "socket", "--iterations", "100", "--wait", "block")
        self.assertEqual(result["transport"], "socket")
        self.assertEqual(os.listdir(self.folder), before, "and takes it away again")

    def test_open_is_the_word_for_a_trusted_network_and_doctor_calls_it_limited(self):
        self.environment["RIPC_NETWORK"] = "open"
        self.environment["RIPC_MULTICAST"] = "off"
        finding = self.finding("network")
        self.assertEqual(finding["level"], "limited")
        self.assertIn("everybody who reaches this host", finding["text"])
        self.assertIn("ripc key new", finding["advice"])
        self.serve("files", "--transport", "socket")
        self.assertEqual(self.ripc_json("resolve", "files")["transport"], "socket")


class Settings(NetworkTest):
    def test_services_says_nothing_of_a_key_that_is_there(self):
        lines = self.ripc("services")[0].decode().splitlines()
        self.assertEqual(len(lines), 1, lines)

    def test_a_value_that_is_none_is_an_error_that_names_the_values(self):
        self.environment["RIPC_NETWORK"] = "yes"
        errors = self.errors("services")
        for value in ("'yes'", "key", "open", "off"):
            self.assertIn(value, errors)

    def test_off_keeps_everything_on_this_host_also_with_a_key(self):
        self.environment["RIPC_NETWORK"] = "off"
        self.environment.pop("RIPC_TRANSPORTS", None)
        self.serve("files")
        self.assertEqual(self.ripc_json("resolve", "files")["transport"], "shm")
        self.assertIn("network is off", self.finding("network")["text"])
        self.environment["RIPC_TRANSPORTS"] = "socket"
        self.assertIn("RIPC_NETWORK", self.errors("services"))

    def test_open_and_a_key_at_once_is_a_contradiction(self):
        self.environment["RIPC_NETWORK"] = "open"
        self.environment["RIPC_CLUSTER_KEY_FILE"] = self.key
        self.assertIn("unset one of the two", self.errors("services"))

    def test_a_setting_that_is_empty_is_an_error_and_never_the_default(self):
        for name in ("RIPC_CLUSTER_KEY_FILE", "RIPC_NETWORK", "RIPC_TRANSPORTS", "RIPC_SOCKET_ADDRESS",
                     "RIPC_SOCKET_INTERFACE", "RIPC_PEERS", "RIPC_MULTICAST", "RIPC_RESOLVER_FILE"):
            with self.subTest(name=name):
                before = dict(self.environment)
                self.environment[name] = ""
                errors = self.errors("services")
                self.assertIn(name, errors)
                self.assertIn("empty", errors)
                self.environment = before

    def test_a_key_file_that_cannot_be_used_is_an_error_wherever_it_lies(self):
        def write(text, mode=0o600):
            shutil.rmtree(self.key, ignore_errors=True)
            if os.path.lexists(self.key):
                os.remove(self.key)
            with os.fdopen(os.open(self.key, os.O_WRONLY | os.O_CREAT, mode), "w") as file:
                os.fchmod(file.fileno(), mode)
                file.write(text)

        def make_folder():
            os.remove(self.key)
            os.mkdir(self.key)

        key = "0123456789abcdef" * 4
        cases = {
            "empty": (lambda: write(""), "no key in it"),
            "too long": (lambda: write("#" * 5000), "larger than"),
            "for others": (lambda: write(key, 0o640), "chmod 600"),
            "a folder": (make_folder, "not a plain file"),
        }
        for named in (False, True):
            for name, (spoil, words) in cases.items():
                with self.subTest(named=named, case=name):
                    write(key)
                    spoil()
                    if named:
                        self.environment["RIPC_CLUSTER_KEY_FILE"] = self.key
                    self.assertIn(words, self.errors("services"))
        self.environment["RIPC_CLUSTER_KEY_FILE"] = os.path.join(self.folder, "missing")
        self.assertIn("ripc key new", self.errors("services"))


class NewKey(NetworkTest):
    def setUp(self):
        super().setUp()
        shutil.rmtree(os.path.join(self.folder, "config"))

    def text(self, path=None):
        with open(path or self.key, encoding="ascii") as file:
            return file.read()

    def test_is_made_where_every_program_of_the_user_finds_it(self):
        self.assertIn(self.key, self.ripc("key", "new")[0].decode())
        self.assertRegex(self.text(), r"^[0-9a-f]{64}\n$")
        self.assertEqual(stat.S_IMODE(os.stat(self.key).st_mode), 0o600)
        for folder in ("config", "config/ripc"):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder, folder)).st_mode), 0o700)
        self.assertEqual(os.listdir(os.path.dirname(self.key)), ["cluster.key"])
        self.assertIn(self.key, self.finding("network")["text"])

    def test_without_xdg_it_is_below_the_home(self):
        del self.environment["XDG_CONFIG_HOME"]
        self.environment["HOME"] = self.folder
        path = self.ripc_json("key", "new")["file"]
        self.assertEqual(path, os.path.join(self.folder, ".config", "ripc", "cluster.key"))
        self.assertIn(path, self.finding("network")["text"])

    def test_is_another_one_each_time_and_replaces_none_unless_it_is_forced(self):
        self.ripc("key", "new")
        first = self.text()
        errors = self.errors("key", "new")
        self.assertIn("--force", errors)
        self.assertIn("copy it to the other hosts", errors)
        self.assertEqual(self.text(), first)
        self.ripc("key", "new", "--force")
        self.assertNotEqual(self.text(), first)
        self.assertEqual(stat.S_IMODE(os.stat(self.key).st_mode), 0o600)

    def test_can_lie_elsewhere(self):
        path = os.path.join(self.folder, "other.key")
        self.assertIn("RIPC_CLUSTER_KEY_FILE=" + path, self.ripc("key", "new", "-o", path)[0].decode())
        self.environment["RIPC_CLUSTER_KEY_FILE"] = path
        self.assertIn(path, self.finding("network")["text"])
        self.assertIn("nowhere", self.errors("key", "new", "-o", os.path.join(self.folder, "nowhere", "key")))

    def test_a_copy_joins_another_host_and_a_key_of_its_own_does_not(self):
        self.environment.pop("RIPC_TRANSPORTS", None)
        self.environment["RIPC_MULTICAST"] = f"239.255.82.73:{random.randrange(20000, 32000)}%lo,ttl=0"
        self.ripc("key", "new")
        if self.finding("multicast")["level"] != "good":
            self.skipTest("multicast does not work over loopback here")
        self.serve("files")
        # Another host: a home and a runtime directory of its own.
        there = os.path.join(self.folder, "there")
        os.mkdir(there, 0o700)
        key = os.path.join(there, "ripc", "cluster.key")
        self.environment.update(XDG_CONFIG_HOME=there, RIPC_RUNTIME_DIR=os.path.join(there, "runtime"))
        self.ripc("key", "new")
        self.assertIn("another cluster key", self.errors("resolve", "files", code=3))
        shutil.copy2(self.key, key)
        self.assertEqual(self.ripc_json("resolve", "files")["transport"], "socket")


class SlowNetwork(CliTest):
    """Commands run in a namespace whose loopback interface is limited to RATE."""

    RATE = 24_000_000  # bits per second

    def setUp(self):
        super().setUp()
        name = f"ripc-slow-{os.getpid()}"
        commands = [["ip", "netns", "add", name], ["ip", "-n", name, "link", "set", "lo", "mtu", "1500", "up"],
                    ["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "tbf", "rate", f"{self.RATE}bit", "burst",
                     "64kb", "latency", "50ms"]]
        self.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True) if shutil.which(command[0]) else None
            if done is None or done.returncode != 0:
                self.skipTest(f"{' '.join(command)}: {done.stderr if done else 'not installed'}")
        self.prefix = ["ip", "netns", "exec", name]
        self.environment["RIPC_TRANSPORTS"] = "socket"

    def test_pieces_become_smaller_where_one_takes_too_long(self):
        # The file takes 8 seconds as one piece, but a request counts as lost after 5 seconds.
        content = self.write("large", random.randbytes(24 << 20))
        self.serve("files")
        report = self.ripc_json("get", "files", "large", "-o", self.fetched, "--verify")
        self.assert_fetched(content)
        self.assertEqual((report["retries"], report["chunks"]), (1, 3))


if __name__ == "__main__":
    unittest.main()
