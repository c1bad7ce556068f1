#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes find services of other machines over the datagrams of RDMA devices alone, without UDP multicast, and send
messages to groups to many members in one datagram.

Exit code 77 and the reason where the lab cannot run on this machine."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
RIPC = Path(os.environ.get("RIPC_TEST_PROGRAM_DIR", HERE / "../../build/release/tests"), "../bin/ripc").resolve()
GROUP = RIPC.parent / "../tests/lab_group"
PATIENCE = 240  # seconds, for any run

COMMON = f"""
set -u
export RIPC_TRANSPORTS=verbs RIPC_MULTICAST=fabric RIPC_RUNTIME_DIR=/tmp/run
mkdir -p /tmp/run /tmp/files
ripc() {{ {RIPC} "$@"; }}
received() {{ cat /sys/class/net/vec0/statistics/rx_bytes; }}
# meet HOST: that one's `appointment` ends, once it waits there.
meet() {{ until busybox nc $1 7000 </dev/null; do :; done; }}
appointment() {{ busybox nc -l -p 7000 >/dev/null; }}
serve() {{ {RIPC} serve /tmp/files --service files >/dev/null & }}
"""


class FabricTest(unittest.TestCase):
    def run_lab(self, *command):
        done = subprocess.run([HERE / command[0], "--timeout", str(PATIENCE), *command[1:-1], "--",
                               "bash", "-c", COMMON + command[-1]], capture_output=True, text=True,
                              timeout=PATIENCE + 60, check=False)
        if done.returncode == 77:
            print(done.stderr)
            sys.exit(77)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_a_service_is_found_and_followed_when_it_restarts_elsewhere(self):
        output = self.run_lab("cluster", "--nodes", "3", "--devices", "rxe", f"""
            case $LAB_NODE in
            1)
                serve
                appointment
                kill -9 $!
                wait $! 2>/dev/null
                appointment
                meet 10.77.0.2
                ;;
            2)
                appointment
                serve
                appointment
                kill $!
                wait $!
                ;;
            3)
                ripc ping files --timeout 60 >/dev/null
                ripc resolve files
                before=$(received)
                {RIPC} ping files --count 20000 --timeout 120 --json &
                until (($(received) - before >= 200000)); do :; done
                # It is in the midst of it when its service goes, however long that takes.
                kill -STOP $!
                until grep -q '^State:.*stopped' /proc/$!/status; do
                    if grep -q '^State:.*zombie' /proc/$!/status; then echo "too late"; break; fi
                done
                # The port of the UDP groups.
                if grep -qi ':6831 ' /proc/net/udp /proc/net/udp6; then echo "UDP is used"; fi
                meet 10.77.0.1
                meet 10.77.0.1
                kill -CONT $!
                wait $!
                ripc resolve files
                meet 10.77.0.2
                ;;
            esac
            """)
        addresses = re.findall(r"verbs:\S*;ip=(\S+)", output)
        self.assertEqual(addresses, ["10.77.0.1", "10.77.0.2"], output)
        pings = json.loads(re.search(r"node3\| (\{.*\})", output).group(1))
        self.assertEqual(pings["answered"], 20000, output)
        self.assertNotIn("too late", output)
        self.assertNotIn("UDP is used", output)

    def test_a_message_to_a_group_is_one_packet_for_all_and_what_is_lost_is_counted(self):
        output = self.run_lab("cluster", "--nodes", "2", "--devices", "rxe", "--on", "multicast", "loss 1 2 5",
                              "--on", "end", "heal", f"""
            export RIPC_NETWORK=open
            unset RIPC_CLUSTER_KEY_FILE
            if ((LAB_NODE == 1)); then {GROUP} listen 3; else {GROUP} send 3 1000; fi
            """)
        sent = json.loads(re.search(r"node2\| (\{.*\})", output).group(1))
        heard = json.loads(re.search(r"node1\| (\{.*\})", output).group(1))
        # The members only get separate copies if one of them had no room.
        self.assertGreaterEqual(sent["together"] + sent["full"], 1000, output)
        self.assertGreater(sent["together"], 500, output)
        for lost in heard["lost"]:
            self.assertGreater(lost, 0, output)
        sent_to_members = 3 * sent["messages"] - sent["missed"] + sum(heard["goodbyes"])
        self.assertEqual(sum(heard["received"]) + 3 + sum(heard["lost"]), sent_to_members, output)

    def test_the_doctor_tells_what_it_hears(self):
        output = self.run_lab("cluster", "--nodes", "2", "--devices", "rxe", """
            if ((LAB_NODE == 1)); then
                serve
                appointment
                kill $!
                wait $!
            else
                ripc ping files --timeout 60 >/dev/null
                ripc doctor
                meet 10.77.0.1
            fi
            """)
        self.assertRegex(output, r"good +multicast: the fabric, 239\.255\.82\.73:26673 on rxe0:1 \(vec0\)")
        self.assertRegex(output, r"multicast: .* 1 services of 1 other processes answered")

    def test_a_device_without_datagrams_says_so(self):
        output = self.run_lab("node", "--devices", "siw", """
            ripc resolve files 2>&1
            echo "ended with $?"
            ripc doctor
            """)
        self.assertIn("ended with 3", output)
        self.assertRegex(output, r"limited +multicast: the fabric.*siw0 has no datagrams")


if __name__ == "__main__":
    if not os.access(RIPC, os.X_OK):
        print(f"{RIPC} is not built: cmake --build --preset release --target ripc_cli")
        sys.exit(77)
    unittest.main()
