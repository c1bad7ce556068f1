#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libripc over RDMA between two machines whose network or power fails in the midst of a transfer: `ripc serve` on
node 1, `ripc get` on node 2.

Exit code 77 and the reason where the lab cannot run on this machine."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLUSTER = HERE / "cluster"
NODE = HERE / "node"
RIPC = Path(os.environ.get("RIPC_TEST_PROGRAM_DIR", HERE / "../../build/release/tests"), "../bin/ripc").resolve()
PATIENCE = 240  # seconds, for any run

# In both guests. The file is fetched in small pieces where something is to happen meanwhile: what was asked for the
# devices move faster than a shell looks.
COMMON = f"""
export RIPC_TRANSPORTS=${{transports:-verbs}} RIPC_MULTICAST= RIPC_RUNTIME_DIR=/tmp/run
mkdir -p /tmp/run /tmp/files
received() {{ cat /sys/class/net/vec0/statistics/rx_bytes; }}
ripc() {{ {RIPC} "$@"; }}
# await_bytes N: until so many have come since `before`.
await_bytes() {{ until (($(received) - before >= $1)); do :; done; }}
path() {{ ripc resolve files | awk '$1 == "path" {{ print $2 }}'; }}
reach() {{ busybox ping -c 1 -W 1 10.77.0.1 >/dev/null; }}
"""
SERVER = f"""
seq 5000000 >/tmp/files/big
seq 300000 >/tmp/files/small
{RIPC} serve /tmp/files --service files &
busybox nc -l -p 7000 >/dev/null
kill $!
wait $!
"""
CLIENT = """
until ripc ping files >/dev/null 2>&1; do :; done
before=$(received)
"""
END = """
until busybox nc 10.77.0.1 7000 </dev/null; do :; done
"""
# Both ends on one node, while the port of its device goes down and comes back.
PORT = """
export RIPC_TRANSPORTS=verbs,socket RIPC_MULTICAST=off
seq 3000000 >/tmp/files/big
ripc serve /tmp/files --service files &
server=$!
until ripc ping files >/dev/null 2>&1; do :; done
interface=$(rdma link | awk '{ print $NF }')
echo "before: $(path)"
ripc get files big --chunk 256K --verify --json -o - 2>/tmp/report |
  { head -c 8000000 >/dev/null; ip link set dev "$interface" down; cat >/dev/null; }
cat /tmp/report
echo "down: $(path)"
ip link set dev "$interface" up
until [[ $(path) == verbs ]]; do :; done
echo "up: $(path)"
kill "$server"
wait "$server"
true
"""


class FaultTest(unittest.TestCase):
    def run_pair(self, client, *options, device="rxe", end=END, transports="verbs"):
        """What node 2 prints, after the server and its client have ended well."""
        script = (f"set -u; transports={transports}; {COMMON}\n"
                  f"if ((LAB_NODE == 1)); then {SERVER} else {CLIENT}{client}{end} fi")
        return self.run_lab(CLUSTER, script, "--nodes", "2", "--devices", device, *options)

    def run_lab(self, program, script, *options):
        done = subprocess.run([program, "--timeout", str(PATIENCE), *options, "--", "bash", "-c", script],
                              capture_output=True, text=True, timeout=PATIENCE + 60, check=False)
        if done.returncode == 77:
            print(done.stderr)
            sys.exit(77)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def fetched(self, output, travelled):
        """One file has come by this way, whole."""
        results = re.findall(rf'"ok":true.*"travelled":"{travelled}","transport":"verbs".*"verified":true', output)
        self.assertEqual(len(results), 1, output)

    def test_a_transfer_goes_on_after_a_cut(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair("""
                    ripc get files big --chunk 1M --verify --json --timeout 60 &
                    await_bytes 8000000
                    echo cut
                    while reach; do :; done
                    # Until the connections were given up, too.
                    for second in 1 2 3 4 5 6; do reach; done
                    echo heal
                    wait $!
                    echo "ended with $?"
                    """, "--on", "cut", "cut 1 2", "--on", "heal", "heal", device=device)
                self.fetched(output, "long")
                self.assertIn("ended with 0", output)

    def test_with_5_percent_loss_what_arrives_is_whole(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair("""
                    echo lossy
                    ripc get files small --chunk 256K --verify --json --timeout 60
                    echo "ended with $?"
                    echo heal
                    """, "--on", "lossy", "loss 1 2 5", "--on", "heal", "heal", device=device)
                self.fetched(output, "long")
                self.assertIn("ended with 0", output)

    def test_return_buffers_are_written_between_machines(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                self.fetched(self.run_pair("ripc get files big --return-buffer --verify --json\n", device=device),
                             "return")

    def test_a_port_that_goes_down_is_replaced_by_sockets_in_the_midst_of_a_transfer(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_lab(NODE, f"set -u; {COMMON}\n{PORT}", "--devices", device)
                self.assertRegex(output, r'(?s)before: verbs.*"ok":true.*"transport":"socket".*"verified":true.*'
                                         r"down: socket.*up: verbs")

    def test_where_only_roce_is_blocked_sockets_are_used_from_the_first_message_on(self):
        output = self.run_pair("""
            echo "before: $(path)"
            echo block
            until [[ $(path) != verbs ]]; do :; done
            ripc resolve files
            ripc get files small --verify --json --timeout 60
            echo "ended with $?"
            """, "--on", "block", "block 4791", transports="verbs,socket")
        self.assertRegex(output, r'(?s)before: verbs.*UDP port 4791.*"ok":true.*"transport":"socket".*"verified":true.*'
                                 r"ended with 0")

    def test_a_transfer_goes_on_over_sockets_when_roce_is_blocked(self):
        output = self.run_pair("""
            ripc get files big --chunk 1M --verify --json --timeout 60 &
            await_bytes 8000000
            echo block
            wait $!
            echo "ended with $?"
            """, "--on", "block", "block 4791", transports="verbs,socket")
        self.assertRegex(output, r'(?s)"ok":true.*"transport":"socket".*"verified":true.*ended with 0')

    def test_a_power_failure_of_the_peer_is_noticed(self):
        output = self.run_pair("""
            ripc get files big --chunk 1M --verify --json --timeout 5 &
            await_bytes 8000000
            echo kill
            wait $!
            echo "ended with $?"
            """, "--on", "kill", "kill 1", end="")
        self.assertRegex(output, "ended with [34]", "no such service, or timed out")


if __name__ == "__main__":
    if not os.access(RIPC, os.X_OK):
        print(f"{RIPC} is not built: cmake --build --preset release --target ripc_cli")
        sys.exit(77)
    unittest.main()
