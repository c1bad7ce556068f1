#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the lab itself: its devices work, a command's output and exit status come back, links break and heal, and
nothing is left behind.

Exit code 77 and the reason where the lab cannot run on this machine."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
NODE, CLUSTER = os.path.join(HERE, "node"), os.path.join(HERE, "cluster")
REGISTERS = os.path.join(os.environ.get("RIPC_TEST_PROGRAM_DIR", os.path.join(HERE, "../../build/release/tests")),
                         "lab_registers")
PATIENCE = 120  # seconds, for any single step

# In a guest: try COMMAND... until it works (its server may still be starting); reach NODE; wait for a visit of node 1,
# and visit, so that a node does not end while it is needed.
SHELL = """
set -e
try() { until "$@"; do sleep 0.1; done; }
reach() { busybox ping -c 1 -W 1 10.77.0.$1 >/dev/null; }
listening() { rdma resource show cm_id | grep -q LISTEN; }
await_visit() { busybox nc -l -p 7000 >/dev/null; }
visit() { try busybox nc 10.77.0.$1 7000 </dev/null; }
"""


class LabTest(unittest.TestCase):
    """Each test has its own temporary folder. It must leave nothing in it, and no process that names it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ripc-lab-test-")
        self.environment = dict(os.environ, TMPDIR=self.folder)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *command):
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, cwd=self.folder)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_lab(self, *command, status=0):
        """(output, errors) of a lab's run with that exit status, after which nothing is left."""
        process = self.start(*command)
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, f"{output}\n{errors}")
        self.assert_nothing_left()
        return output, errors

    def processes(self):
        """Returns the processes with our folder on their command line: kernels, and the processes of their guests."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if os.fsencode(self.folder + "/") in file.read():
                        found.append(int(pid))
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def assert_no_processes(self):
        """Waits, because a killed process needs a moment to be gone."""
        end = time.monotonic() + PATIENCE
        while self.processes() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.processes(), [])

    def assert_nothing_left(self):
        self.assert_no_processes()
        self.assertEqual(os.listdir(self.folder), [])


class NodeTest(LabTest):
    def test_rxe0_and_siw0_are_there_and_active(self):
        output, _ = self.run_lab(NODE, "--", "bash", "-c",
                                 "ibv_devices; rdma link; cat /sys/class/infiniband/rxe0/ports/1/gids/1")
        self.assertRegex(output, r"(?m)^ +rxe0\s")
        self.assertRegex(output, r"(?m)^ +siw0\s")
        for device in ("rxe0/1", "siw0/1"):
            self.assertRegex(output, rf"link {device} state ACTIVE physical_state LINK_UP")
        self.assertIn("ffff:0a4d:0001", output, "GID 1 is 10.77.0.1")

    def test_programs_talk_over_rxe_by_datagrams_and_connections_and_over_siw_by_connections(self):
        output, _ = self.run_lab(NODE, "--timeout", str(PATIENCE), "--", "bash", "-c", SHELL + """
            for kind in ud rc; do
              ibv_${kind}_pingpong -e -d rxe0 -g 1 >/dev/null &
              try ibv_${kind}_pingpong -e -d rxe0 -g 1 10.77.0.1
              wait $!
              echo "$kind done"
            done
            rping -s -a 10.78.0.1 -C 5 &
            try listening
            rping -c -v -a 10.78.0.1 -C 5
            wait $!
            echo siw done""")
        for line in ("ud done", "rc done", "ping data: rdma-ping-4: ", "siw done"):
            self.assertIn(line, output)
        self.assertEqual(len(re.findall(r"1000 iters in", output)), 2, output)

    def test_output_errors_and_exit_status_come_back_whole_and_apart(self):
        output, errors = self.run_lab(NODE, "--", "bash", "-c", "seq 200000; echo to errors >&2; exit 42", status=42)
        self.assertTrue(output == "".join(f"{number}\n" for number in range(1, 200001)), "the output differs")
        self.assertEqual(errors, "to errors\n")

    def test_a_command_that_is_not_there_is_reported(self):
        _, errors = self.run_lab(NODE, "--", "no-such-command", status=127)
        self.assertIn("no-such-command", errors)

    def test_arguments_environment_and_working_folder_go_along(self):
        self.environment["LAB_TEST"] = "a 'quoted' $value\nof two lines"
        script = 'echo "$LAB_TEST"; pwd; printf "<%s>" "$@"'
        output, _ = self.run_lab(NODE, "--", "bash", "-c", script, "name", "a b", "", "-c")
        self.assertEqual(output, f"{self.environment['LAB_TEST']}\n{self.folder}\n<a b><><-c>")

    def test_only_writable_folders_are_written(self):
        for name in ("shared", "own"):
            os.mkdir(os.path.join(self.folder, name))
            with open(os.path.join(self.folder, name, "file"), "w", encoding="utf-8") as file:
                file.write("before")
        process = self.start(NODE, "--writable", "shared", "--", "bash", "-c",
                             "echo -n after >shared/file && echo -n after >own/file && cat shared/file own/file")
        self.assertEqual(process.communicate(timeout=PATIENCE), ("afterafter", ""))
        contents = {}
        for name in ("shared", "own"):
            with open(os.path.join(self.folder, name, "file"), encoding="utf-8") as file:
                contents[name] = file.read()
        self.assertEqual(contents, {"shared": "after", "own": "before"})

    def test_a_command_that_does_not_end_is_killed_when_the_time_is_over(self):
        _, errors = self.run_lab(NODE, "--timeout", "1", "--", "sleep", "1000", status=124)
        self.assertIn("the time is over", errors)

    def test_signals_end_the_guest(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(NODE, "--", "bash", "-c", "echo started; exec sleep 1000")
            self.assertEqual(process.stdout.readline(), "started\n")
            process.send_signal(number)
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 128 + number)
            self.assert_nothing_left()

    def test_a_lab_that_is_killed_takes_its_guest_along_and_the_next_one_removes_its_folder(self):
        # A guest process that runs its own code, one that sleeps, and one that has left the session.
        process = self.start(NODE, "--", "bash", "-c",
                             "setsid sleep 1000 & sleep 1000 & echo started; while :; do :; done")
        self.assertEqual(process.stdout.readline(), "started\n")
        self.assertGreaterEqual(len(self.processes()), 3)
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.assert_no_processes()
        self.assertEqual(len(os.listdir(self.folder)), 1)
        self.run_lab(NODE, "--", "true")

    def test_a_signal_leaves_the_vector_registers_as_they_were(self):
        output, _ = self.run_lab(NODE, "--", REGISTERS)
        self.assertIn("registers keep their values", output)


class ClusterTest(LabTest):
    def test_nodes_talk_and_a_link_that_was_cut_heals(self):
        output, errors = self.run_lab(
            CLUSTER, "--timeout", str(PATIENCE), "--on", "cut it", "cut 1 2", "--on", "heal it", "heal",
            "--", "bash", "-c", SHELL + """
            # A datagram may be lost, and these programs then wait for good: both sides begin again.
            ping_pong() { timeout 5 ibv_$1_pingpong -e -d rxe0 -g 1 -n 100 -p $2 "${@:3}"; }
            serve() { while true; do ping_pong "$@" >/dev/null || sleep 0.1; done; }
            if ((LAB_NODE == 2)); then
              serve ud 7001 & serve rc 7002 &
              await_visit
              kill %1 %2
            else
              try ping_pong ud 7001 10.77.0.2
              try ping_pong rc 7002 10.77.0.2
              echo cut it
              while reach 2; do sleep 0.1; done
              echo heal it
              try reach 2
              echo healed
              visit 2
            fi""")
        self.assertEqual(re.findall(r"(?m)^node1\| (100 iters|cut it|heal it|healed)", output),
                         ["100 iters", "100 iters", "cut it", "heal it", "healed"], output)
        self.assertRegex(errors, r"s: cut 1 2\n(.*\n)*cluster\| .* s: heal\n")

    def test_a_node_is_paused_and_resumed_and_another_loses_power(self):
        output, errors = self.run_lab(
            CLUSTER, "--nodes", "3", "--memory", "512", "--timeout", str(PATIENCE), "--on", "pause it", "pause 2",
            "--on", "resume it", "resume 2", "--on", "kill it", "kill 3", "--", "bash", "-c", SHELL + """
            if ((LAB_NODE > 1)); then await_visit; exit 0; fi
            try reach 2
            echo pause it
            while reach 2; do sleep 0.1; done
            echo resume it
            try reach 2
            try reach 3
            echo kill it
            while reach 3; do sleep 0.1; done
            echo killed
            visit 2
            exit 5""", status=5)
        self.assertEqual(output.splitlines()[-1], "node1| killed")
        for line in ("node 1 ended with 5", "node 2 ended with 0", "node 3 was killed"):
            self.assertIn(f"cluster| {line}\n", errors)

    def test_a_node_fails_towards_all_and_a_link_in_one_direction(self):
        output, _ = self.run_lab(
            CLUSTER, "--nodes", "3", "--memory", "512", "--timeout", str(PATIENCE),
            "--on", "isolate", "isolate 3", "--on", "oneway", "oneway 1 2", "--on", "end", "kill 2",
            "--on", "end", "kill 3", "--", "bash", "-c", SHELL + """
            asked() { awk '/^Icmp:/ { count = $10 } END { print count }' /proc/net/snmp; }
            if ((LAB_NODE == 3)); then exec sleep 1000; fi
            if ((LAB_NODE == 2)); then
              # Without that, what node 1 does not answer would in time keep node 2 from asking.
              ip neighbour replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev vec0
              while :; do reach 1 || :; done
            fi
            for other in 2 3; do try reach $other; done
            echo isolate
            while reach 3; do :; done
            try reach 2
            echo only 3 is gone
            echo oneway
            while reach 2; do :; done
            before=$(asked)
            until (($(asked) > before + 1)); do sleep 0.1; done
            echo 2 is still heard
            echo end""")
        self.assertEqual(output.splitlines(), [f"node1| {line}" for line in (
            "isolate", "only 3 is gone", "oneway", "2 is still heard", "end")])

    def test_actions_happen_at_their_time_unless_all_has_ended(self):
        _, errors = self.run_lab(CLUSTER, "--at", "0.5 loss 1 2 50", "--at", "1000 heal", "--", "sleep", "2")
        self.assertRegex(errors, r"cluster\| \d\.\d\d s: loss 1 2 50\n")
        self.assertIn("left out: heal\n", errors)

    def test_a_signal_ends_all_nodes(self):
        process = self.start(CLUSTER, "--", "bash", "-c", "echo started; exec sleep 1000")
        for _ in range(2):
            self.assertRegex(process.stdout.readline(), r"^node\d\| started$")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 143)
        self.assert_nothing_left()

    def test_wrong_actions_are_refused_before_anything_starts(self):
        for action in ("cut 1 2", "", "1", "1 cut 1", "1 melt 1", "1 cut 1 3", "1 loss 1 2", "1 loss 1 2 101",
                       "1 loss 1 2 -5", "-1 heal", "1 cut 1 1"):
            with self.subTest(action):
                _, errors = self.run_lab(CLUSTER, "--at", action, "--", "true", status=2)
                self.assertIn("--at", errors)
        self.run_lab(CLUSTER, "--on", "line", "melt 1", "--", "true", status=2)


def main():
    probe = subprocess.run([NODE, "--", "true"], capture_output=True, text=True, check=False)
    if probe.returncode == 77:
        print(probe.stderr.strip())
        return 77
    unittest.main(verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
