# SPDX-License-Identifier: Apache-2.0
"""Members of a cluster: their identities, the trust file, and two hosts that do not trust each other blindly."""

import os
import random
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from harness import PATIENCE, CliTest  # noqa: E402


class IdentityTest(CliTest):
    def setUp(self):
        super().setUp()
        self.trust_file = os.path.join(self.folder, "trust")

    def identity(self, name):
        """Makes an identity, and returns its file and its public key."""
        path = os.path.join(self.folder, name + ".key")
        made = self.ripc_json("key", "new", "--identity", "-o", path)
        self.assertEqual(made["file"], path)
        return path, made["public_key"]

    def trust(self, *arguments, code=0):
        output, errors = self.ripc("trust", *arguments, "-f", self.trust_file, code=code)[:2]
        return (output if code == 0 else errors).decode()

    def finding(self, subject, code=0):
        findings = self.ripc_json("doctor", code=code)["findings"]
        return [finding for finding in findings if finding["subject"] == subject][0]


class Files(IdentityTest):
    def test_an_identity_is_made_once_and_shown(self):
        path, key = self.identity("alice")
        self.assertRegex(key, "^ed25519:[0-9a-f]{64}$")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(self.ripc("key", "show", "-f", path)[0].decode().strip(), key)
        self.assertIn("ripc key show", self.ripc("key", "new", "--identity", "-o", path, code=1)[1].decode())
        self.ripc("key", "new", "--identity", "--force", "-o", path)
        self.assertNotEqual(self.ripc_json("key", "show", "-f", path)["public_key"], key)

    def test_a_new_identity_says_what_to_do_next(self):
        output = self.ripc("key", "new", "--identity", "-o", os.path.join(self.folder, "new.key"))[0].decode()
        self.assertIn("ripc trust add NAME ed25519:", output)

    def test_members_are_added_listed_replaced_and_removed(self):
        alice, bob = self.identity("alice")[1], self.identity("bob")[1]
        self.assertIn("Copy the file", self.trust("add", "alice", alice, "--holds", "shop.*,bank", "--calls", ""))
        self.trust("add", "bob", bob, "--joins", "prices", "--user", "1000")
        with open(self.trust_file, encoding="ascii") as file:
            self.assertEqual(file.read().splitlines(), [f"alice {alice} holds=shop.*,bank calls=",
                                                        f"bob {bob} joins=prices user=1000"])
        listed = self.trust("list")
        self.assertIn("holds=shop.*,bank", listed)
        self.assertIn(bob, listed)
        self.assertIn("--force", self.trust("add", "bob", bob, code=1))
        self.trust("add", "bob", bob, "--force")
        self.assertIn("2 members", self.trust("check"))
        self.trust("remove", "alice")
        self.assertNotIn("alice", self.trust("list"))
        self.assertIn("no member 'alice'", self.trust("remove", "alice", code=1))

    def test_of_two_that_add_one_name_at_once_one_is_told_that_it_is_there(self):
        keys = [self.identity(name)[1] for name in ("one", "two")]
        for round in range(20):
            name = f"member{round}"
            both = [self.start("trust", "add", name, key, "-f", self.trust_file, stderr=subprocess.PIPE) for key in keys]
            codes = [process.wait(PATIENCE) for process in both]
            errors = [process.stderr.read() for process in both]
            self.assertEqual(sorted(codes), [0, 1], errors)
            self.assertIn(keys[codes.index(0)], self.trust("list"))
            self.assertIn(b"--force", errors[codes.index(1)])
            self.trust("remove", name)

    def test_without_a_key_this_users_identity_is_added_and_made_if_there_is_none(self):
        default = os.path.join(self.folder, "config", "ripc", "identity.key")
        self.trust("add", "alice")
        key = self.ripc("key", "show", "-f", default)[0].decode().strip()
        self.assertIn(key, self.trust("list"))
        self.trust("add", "alice", "--force")
        self.assertEqual(self.ripc("key", "show", "-f", default)[0].decode().strip(), key, "it is there already")
        path, other = self.identity("other")
        self.environment["RIPC_IDENTITY_FILE"] = path
        self.trust("add", "bob")
        self.assertIn(other, self.trust("list"))
        self.environment["RIPC_IDENTITY_FILE"] = path + ".missing"
        self.trust("add", "carol", code=1)
        self.assertFalse(os.path.exists(path + ".missing"))

    def test_check_says_the_line_and_whose_identity_this_is(self):
        path, key = self.identity("alice")
        self.environment["RIPC_IDENTITY_FILE"] = path
        self.trust("add", "bob", self.identity("bob")[1])
        self.assertIn("ripc trust add NAME " + key, self.trust("check"))
        self.trust("add", "alice", key)
        self.assertIn("identity is alice", self.trust("check"))
        with open(self.trust_file, "a", encoding="ascii") as file:
            file.write("carol\n")
        self.assertIn("line 3", self.trust("check", code=1))

    def test_what_could_not_be_read_is_not_written(self):
        errors = self.trust("add", "alice", self.identity("alice")[1], "--holds", "a,,b", code=2)
        self.assertIn("no name", errors)
        self.assertFalse(os.path.exists(self.trust_file))
        self.assertIn("public key", self.trust("add", "alice", "ed25519:12", code=2))

    def test_a_file_of_a_signer_that_is_named_must_be_signed(self):
        admin, admin_key = self.identity("admin")
        self.trust("add", "alice", self.identity("alice")[1])
        with open(self.key, "a", encoding="ascii") as file:
            file.write(f"\nsigner {admin_key}\n")
        self.assertIn("ripc trust sign", self.trust("check", code=1))
        self.assertIn("signer " + admin_key, self.trust("sign", "--signer", admin))
        self.assertIn("1 member.", self.trust("check"))
        self.assertIn("ripc trust sign", self.trust("remove", "alice", code=1), "nothing is written unsigned")
        self.trust("remove", "alice", "--signer", admin)
        self.assertIn("0 members", self.trust("check"))

    def test_doctor_says_who_this_is_and_what_to_do(self):
        path, key = self.identity("alice")
        self.environment["RIPC_TRUST_FILE"] = self.trust_file
        self.trust("add", "bob", self.identity("bob")[1])
        self.assertIn("no identity", self.finding("identity")["text"])
        self.environment["RIPC_IDENTITY_FILE"] = path
        self.assertIn("ripc trust add NAME " + key, self.finding("identity")["advice"])
        self.trust("add", "alice", key)
        finding = self.finding("identity")
        self.assertEqual(finding["level"], "good")
        self.assertIn("this context is alice", finding["text"])


    def test_a_running_service_tells_what_it_refuses_and_that_a_new_trust_file_is_broken(self):
        key = self.identity("alice")[1]
        self.trust("add", "alice", key, "--calls", "", "--user", str(os.getuid()))
        self.environment["RIPC_TRUST_FILE"] = self.trust_file
        service = self.start("serve", self.served, "--service", "bank", stderr=subprocess.PIPE)
        self.assertIn(b"serving", service.stdout.readline())
        del self.environment["RIPC_TRUST_FILE"]
        self.assertIn("calls=", self.ripc("ping", "bank", code=5)[1].decode())
        self.assertRegex(service.stderr.readline().decode(), "[1-9] links .calls= of the trust file.")
        with open(self.trust_file, "w", encoding="ascii") as file:
            file.write("nonsense\n")
        self.assertRegex(service.stderr.readline().decode(), "line 1.* The former one stays in force")
        os.remove(self.trust_file)
        self.trust("add", "alice", key)
        # The service may notice the file while it is missing, and report that first.
        said = service.stderr.readline().decode()
        if "in force again" not in said:
            self.assertIn("The trust file is in force again.", service.stderr.readline().decode())


class Hosts(IdentityTest):
    """The hosts are two runtime directories, the network is the loopback interface."""

    def setUp(self):
        super().setUp()
        self.environment["RIPC_TRANSPORTS"] = "shm"
        self.environment["RIPC_MULTICAST"] = f"239.255.82.73:{random.randrange(20000, 32000)}%lo,ttl=0"
        if self.finding("multicast")["level"] != "good":
            self.skipTest("multicast does not work over loopback here")
        self.keys = {}
        for name, rights in (("alice", ["--holds", "bank"]), ("mallory", ["--holds", "*"]), ("carol", [])):
            self.keys[name], key = self.identity(name)
            self.trust("add", name, key, *rights)
        # The trust file that mallory would like.
        self.false_trust = os.path.join(self.folder, "false-trust")
        key = self.ripc_json("key", "show", "-f", self.keys["mallory"])["public_key"]
        self.ripc("trust", "add", "mallory", key, "--holds", "bank", "-f", self.false_trust)

    def as_member(self, name, trust_file=None):
        """From here on commands run on this member's host."""
        folder = os.path.join(self.folder, "of-" + name)
        os.makedirs(folder, 0o700, exist_ok=True)
        self.environment["RIPC_RUNTIME_DIR"] = folder
        self.environment["RIPC_IDENTITY_FILE"] = self.keys[name]
        self.environment["RIPC_TRUST_FILE"] = trust_file or self.trust_file

    def test_a_service_of_who_may_hold_its_name_is_found(self):
        self.as_member("alice")
        process = self.serve("bank")
        self.as_member("carol")
        self.assertEqual(self.ripc_json("resolve", "bank")["pid"], process.pid)

    def test_who_may_not_hold_a_name_is_told_so(self):
        self.as_member("mallory")
        errors = self.ripc("serve", self.served, "--service", "bank", code=1)[1].decode()
        self.assertIn("does not let mallory hold the name 'bank'", errors)

    def test_who_claims_a_name_all_the_same_is_not_believed(self):
        self.as_member("mallory", self.false_trust)
        self.serve("bank")
        self.as_member("carol")
        self.ripc("resolve", "bank", code=3)
        self.as_member("alice")
        process = self.serve("bank")
        self.as_member("carol")
        self.assertEqual(self.ripc_json("resolve", "bank")["pid"], process.pid)

    def test_a_member_that_is_removed_is_not_found_any_more(self):
        self.as_member("alice")
        self.serve("bank")
        self.as_member("carol")
        self.ripc("resolve", "bank")
        self.trust("remove", "alice")
        self.ripc("resolve", "bank", code=3)


if __name__ == "__main__":
    unittest.main()
