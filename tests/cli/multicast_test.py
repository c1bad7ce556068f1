# SPDX-License-Identifier: Apache-2.0
"""Services of other hosts on the command line; the hosts are two runtime directories, the network is the loopback
interface."""

import os
import random
import secrets
import sys
import unittest

sys.dont_write_bytecode = True

from harness import CliTest  # noqa: E402


class Multicast(CliTest):
    def setUp(self):
        super().setUp()
        self.environment["RIPC_TRANSPORTS"] = "shm"
        self.environment["RIPC_MULTICAST"] = f"239.255.82.73:{random.randrange(20000, 32000)}%lo,ttl=0"
        findings = self.ripc_json("doctor")["findings"]
        multicast = [finding for finding in findings if finding["subject"] == "multicast"]
        if multicast[0]["level"] != "good":
            self.skipTest("multicast does not work over loopback here: " + multicast[0]["text"])

    def other_host(self, name="other"):
        """From here on commands run on another host."""
        self.environment["RIPC_RUNTIME_DIR"] = os.path.join(self.folder, name)
        os.mkdir(self.environment["RIPC_RUNTIME_DIR"], 0o700)

    def key_file(self, name, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        os.chmod(path, mode)
        return path

    def test_a_service_of_another_host_is_resolved_and_listed(self):
        process = self.serve("files")
        self.other_host()
        found = self.ripc_json("resolve", "files")
        self.assertEqual(found["pid"], process.pid)
        self.assertIn("multicast", found["reason"])
        self.assertEqual([service["name"] for service in self.ripc_json("services")["services"]], ["files"])

    def test_services_shows_an_address_that_leads_there_from_here(self):
        self.environment["RIPC_TRANSPORTS"] = "shm,socket"
        self.serve("files")

        def address():
            (service,) = self.ripc_json("services")["services"]
            self.assertEqual(service["address"].split(":")[0], service["transport"])
            return service["address"]

        here = address()
        self.assertTrue(here.startswith("shm:#"), here)
        self.other_host()
        there = address()
        self.assertTrue(there.startswith("socket:"), there)
        self.assertIn(there, self.ripc("services")[0].decode())
        # Also for a command that does not use the network.
        self.environment["RIPC_TRANSPORTS"] = "shm"
        self.assertEqual(address(), there)

    def test_a_name_that_lives_on_another_host_is_refused(self):
        self.serve("files")
        self.other_host()
        errors = self.ripc("serve", self.served, "--service", "files", code=1)[1].decode()
        self.assertIn("is held by the service 'files'", errors)

    def test_doctor_tells_group_interface_and_who_answered(self):
        self.serve("files")
        self.other_host()
        findings = self.ripc_json("doctor")["findings"]
        text = [finding["text"] for finding in findings if finding["subject"] == "multicast"][0]
        for words in ("239.255.82.73", " on lo", "ttl 0", "1 services of 1 other"):
            self.assertIn(words, text)

    def test_without_the_cluster_key_nothing_is_found(self):
        self.environment["RIPC_CLUSTER_KEY_FILE"] = self.key_file("key")
        self.serve("files")
        self.other_host()
        self.assertEqual(self.ripc_json("resolve", "files")["name"], "files")
        self.environment["RIPC_CLUSTER_KEY_FILE"] = self.key_file("other-key")
        for command in (["resolve", "files"], ["wait", "files", "--timeout", "2"]):
            self.assertIn("another cluster key", self.ripc(*command, code=3)[1].decode())

    def test_a_key_file_that_others_may_read_is_refused_with_a_remedy(self):
        self.environment["RIPC_CLUSTER_KEY_FILE"] = self.key_file("key", 0o644)
        errors = self.ripc("services", code=1)[1].decode()
        self.assertIn("chmod 600", errors)

    def test_switched_off_nothing_is_found(self):
        self.serve("files")
        self.other_host()
        self.environment["RIPC_MULTICAST"] = "off"
        self.ripc("resolve", "files", code=3)
        findings = self.ripc_json("doctor")["findings"]
        self.assertIn("off", [finding["text"] for finding in findings if finding["subject"] == "multicast"][0])

    def test_a_mistake_in_the_setting_is_named(self):
        self.environment["RIPC_MULTICAST"] = "10.0.0.1"
        errors = self.ripc("services", code=1)[1].decode()
        self.assertIn("10.0.0.1", errors)
        self.assertIn("239.255.82.73", errors)


if __name__ == "__main__":
    unittest.main()
