# SPDX-License-Identifier: Apache-2.0
"""Two hosts that prove their identities to each other, encrypt their traffic, and refuse whoever is not a member."""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

from cabled_hosts import Hosts, inside  # noqa: E402
from harness import CliTest  # noqa: E402


class Members(CliTest):
    """The services run on alice's host; the commands run on the other host, as the member that a test names."""

    def setUp(self):
        super().setUp()
        hosts = Hosts([0])
        self.addCleanup(hosts.__exit__)
        try:
            hosts.__enter__()
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"needs root and iproute2: {error}")
        del self.environment["RIPC_MULTICAST"]
        self.environment["RIPC_TRANSPORTS"] = "shm,socket"
        self.trust_file = os.path.join(self.folder, "trust")
        self.keys = {}
        for name, rights in (("alice", ["--holds", "bank,till"]), ("bob", []), ("carol", ["--calls", "till"]), ("mallory", None)):
            path = os.path.join(self.folder, name + ".key")
            key = self.ripc_json("key", "new", "--identity", "-o", path)["public_key"]
            self.keys[name] = path
            if rights is not None:
                self.ripc("trust", "add", name, key, *rights, "-f", self.trust_file)
        self.content = self.write("note", os.urandom(100_000))
        self.at(0, "alice")
        self.services = {name: self.serve(name) for name in ("bank", "till")}
        self.at(1, "bob")

    def at(self, host, member, trusts=True):
        """From here on, commands run on this host, as this member; None: without an identity."""
        self.prefix = inside(host)
        directory = os.path.join(self.folder, f"runtime-{host}")
        os.makedirs(directory, 0o700, exist_ok=True)
        self.environment["RIPC_RUNTIME_DIR"] = directory
        self.environment.pop("RIPC_IDENTITY_FILE", None)
        self.environment.pop("RIPC_TRUST_FILE", None)
        if member:
            self.environment["RIPC_IDENTITY_FILE"] = self.keys[member]
        if trusts:
            self.environment["RIPC_TRUST_FILE"] = self.trust_file

    def refused(self, service="bank"):
        return self.ripc("get", service, "note", "-o", self.fetched, code=5)[1].decode()

    def test_members_talk_and_the_path_says_how_it_is_encrypted(self):
        reason = self.ripc_json("resolve", "bank")["reason"]
        self.assertRegex(reason, "^sockets with (AES-256-GCM|ChaCha20-Poly1305), 10.99.0.2:")
        self.ripc("get", "bank", "note", "-o", self.fetched)
        with open(self.fetched, "rb") as file:
            self.assertEqual(file.read(), self.content)

    def test_a_member_reaches_only_what_it_may_call(self):
        self.at(1, "carol")
        self.ripc("get", "till", "note", "-o", self.fetched)
        self.assertIn("calls=", self.refused())

    def test_who_is_in_no_trust_file_is_refused_and_told_so(self):
        self.at(1, "mallory", trusts=False)
        self.assertIn("its trust file does not list this context's identity", self.refused())

    def test_who_has_the_cluster_key_but_no_identity_is_refused_and_told_so(self):
        self.at(1, None, trusts=False)
        self.assertIn("this context has no identity", self.refused())

    def test_a_peer_that_does_not_encrypt_is_refused_where_encryption_is_required(self):
        self.environment["RIPC_ENCRYPT"] = "off"
        self.assertIn("authentic but not encrypted", self.ripc_json("resolve", "bank")["reason"])
        self.at(0, "alice")
        self.services["bank"].terminate()
        self.services["bank"].wait()
        self.environment["RIPC_ENCRYPT"] = "required"
        self.serve("bank")
        self.at(1, "bob")
        self.environment["RIPC_ENCRYPT"] = "off"
        self.assertIn("it demands encryption", self.refused())

    def test_a_member_that_is_removed_is_cut_off_while_both_run(self):
        member = self.start("watch", "bank", stderr=subprocess.STDOUT)
        self.assertIn(b"bank", member.stdout.readline())
        self.ripc("trust", "remove", "bob", "-f", self.trust_file)
        self.assertIn(b"ended", member.stdout.readline())


if __name__ == "__main__":
    unittest.main()
