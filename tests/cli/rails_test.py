# SPDX-License-Identifier: Apache-2.0
"""What the command line shows about the rails between two hosts that two cables join."""

import os
import random
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from harness import SOURCE, CliTest  # noqa: E402

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
from cabled_hosts import NAMES, Hosts, inside  # noqa: E402

RATES = [80, 40]  # Mb/s
ENDS = [("rail0", "10.99.0.1", "10.99.0.2"), ("rail1", "10.99.1.1", "10.99.1.2")]


class Rails(CliTest):
    """The command runs on host 0, the service on host 1."""

    def setUp(self):
        super().setUp()
        hosts = Hosts(RATES)
        self.addCleanup(hosts.__exit__)
        try:
            hosts.__enter__()
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no hosts with cables can be made here: {getattr(error, 'stderr', '') or error}")
        self.environment.update(RIPC_MULTICAST="on", RIPC_TRANSPORTS="socket")
        self.content = self.write("large", random.randbytes(16 << 20))
        here = self.environment["RIPC_RUNTIME_DIR"]
        self.environment["RIPC_RUNTIME_DIR"] = os.path.join(self.folder, "there")
        os.mkdir(self.environment["RIPC_RUNTIME_DIR"], 0o700)
        self.prefix = inside(1)
        self.serve("files")
        self.environment["RIPC_RUNTIME_DIR"] = here
        self.prefix = inside(0)

    def get(self, *options):
        return self.ripc_json("get", "files", "large", "-o", self.fetched, "--chunk", "4M", *options)

    def get_over_both(self):
        """The report of a fetch over both cables. On a busy machine a file may arrive before the second connection."""
        for _ in range(20):
            report = self.get()
            self.assert_fetched(self.content)
            self.assertEqual(len(report["rails"]), 2, report)
            if min(rail["bytes_received"] for rail in report["rails"]) > len(self.content) / 10:
                return report
        self.fail("one of the cables carries nothing")

    def test_resolve_shows_the_rails_before_anything_long_has_travelled(self):
        output = self.ripc("resolve", "files", "--timeout", "10")[0].decode()
        self.assertRegex(output, r"(?m)^reason .*TCP for long items; 2 rails; found by")
        for device, local, peer in ENDS:
            self.assertRegex(output, rf"(?m)^rail +{device}, {local} to {peer}: not measured yet$")
        rails = self.ripc_json("resolve", "files")["rails"]
        self.assertEqual([(rail["device"], rail["local"], rail["peer"]) for rail in rails], ENDS)
        for rail in rails:
            self.assertEqual((rail["connections"], rail["share_percent"], rail["bytes_per_second"]), (0, None, None))

    def test_resolve_shows_those_rails_that_would_be_used(self):
        self.environment["RIPC_RAILS"] = "rail1"
        rails = self.ripc_json("resolve", "files", "--timeout", "10")["rails"]
        self.assertEqual([rail["device"] for rail in rails], ["rail1"])
        del self.environment["RIPC_RAILS"]
        subprocess.run(["ip", "-n", NAMES[0], "link", "set", "rail0", "down"], check=True)
        rails = self.ripc_json("resolve", "files")["rails"]
        self.assertEqual([rail["device"] for rail in rails], ["rail1"])

    def test_get_shows_what_each_rail_has_carried(self):
        report = self.get_over_both()
        self.assertAlmostEqual(sum(rail["share_percent"] for rail in report["rails"]), 100)
        for rail, megabits in zip(report["rails"], RATES):
            self.assertGreater(rail["bytes_per_second"], 0)
            # The rate that the kernel measures for the few bytes sent is far higher.
            self.assertLess(rail["bytes_per_second"], 2 * megabits * 1_000_000 / 8)
            self.assertFalse(rail["spare"])
        received = sum(rail["bytes_received"] for rail in report["rails"])
        self.assertGreaterEqual(received, len(self.content))
        output = self.ripc("get", "files", "large", "-o", self.fetched, "--chunk", "4M")[0].decode()
        for device, local, peer in ENDS:
            self.assertRegex(output, rf"(?m)^  {device}, {local} to {peer}: [0-9.]+ [KM]?i?B, [0-9]+ %, ")

    def test_files_of_a_batch_show_what_has_travelled_for_each(self):
        lines = 4 * f"large\t{self.fetched}\n"
        output, _ = self.ripc("get", "files", "--batch", "--chunk", "4M", "--timeout", "10", input=lines.encode())
        shares = [line.split(": ")[1] for line in output.decode().splitlines() if line.startswith("  rail")]
        self.assertEqual(len(shares), 8, output)
        for share in shares:
            self.assertNotRegex(share, r"^[0-9.]+ GiB|^(1[7-9]|[2-9][0-9])[0-9.]* MiB", output)

    def test_a_short_file_and_a_single_rail_need_no_more_lines(self):
        self.write("small", b"small")
        output = self.ripc("get", "files", "small", "-o", self.fetched, "--timeout", "10")[0].decode()
        self.assertEqual(len(output.splitlines()), 1, output)
        self.environment["RIPC_RAILS"] = "1"
        output = self.ripc("get", "files", "large", "-o", self.fetched)[0].decode()
        self.assertEqual(len(output.splitlines()), 1, output)
        self.assertNotIn("rails", self.get())


if __name__ == "__main__":
    unittest.main()
