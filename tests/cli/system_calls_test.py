#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a medium round trip over sockets costs compared with bare TCP: system calls, and threads that run for it.

`ripc bench pingpong` runs under strace; it measures a bare TCP connection too."""

import glob
import os
import re
import statistics
import subprocess
import tempfile
import unittest

import harness

ROUNDS = 500
# How many system calls more than TCP each side makes in a round trip: a sleep, and a poll that tells what has come.
MORE = {"block": 2, "spin": 0}
OURS = re.compile(r"send(?:to|msg)\(.* MSG_DONTWAIT.* = (\d+)$")
BARE = re.compile(r"sendto\(.* MSG_NOSIGNAL,.* = (\d+)$")
SIZE = 4096
WAITS = ("epoll_wait(", "poll(", "ppoll(", "futex(")


class SystemCalls(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.require_strace()

    def trace(self, wait, *shell):
        """The system calls of each thread, as strace writes them, without polls that found nothing."""
        trace = os.path.join(tempfile.mkdtemp(dir=self.folder), "trace")
        bench = [harness.RIPC, "bench", "pingpong", "--transport", "socket", "--kind", "auto", "--size", str(SIZE),
                 "--wait", wait, "--iterations", str(ROUNDS)]
        done = subprocess.run([*shell, "strace", "-ff", "-qq", "-o", trace, *bench], env=self.environment,
                              capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        threads = []
        for name in glob.glob(f"{trace}.*"):
            with open(name, encoding="utf-8", errors="replace") as lines:
                threads.append([call.rstrip() for call in lines if "EAGAIN" not in call])
        return threads

    @staticmethod
    def calls_between(calls, send):
        """How many system calls each round trip takes: from one send to the next."""
        sends = [at for at, call in enumerate(calls) if (found := send.match(call)) and int(found[1]) >= SIZE]
        return [after - before for before, after in zip(sends, sends[1:])]

    def check(self, threads, more):
        sides = [calls for calls in threads if len(self.calls_between(calls, OURS)) >= ROUNDS]
        self.assertEqual(len(sides), 2)
        for calls in sides:
            ours, bare = self.calls_between(calls, OURS), self.calls_between(calls, BARE)
            self.assertGreaterEqual(len(bare), ROUNDS - 1)
            # A send and a receive.
            self.assertEqual(statistics.median(bare), 2)
            self.assertLessEqual(statistics.median(ours), 2 + more)
            # Leaves out the rounds with credits, which are sent once for many messages.
            usual = sorted(ours)[: len(ours) * 9 // 10]
            self.assertLess(statistics.mean(usual), 2 + more + 0.5)
        for calls in threads:
            if calls not in sides:
                waits = sum(call.startswith(WAITS) for call in calls)
                self.assertLess(waits, ROUNDS // 2, "no other thread wakes for each round trip")

    def test_a_medium_round_trip_takes_two_more_than_tcp_if_it_sleeps_and_no_other_thread(self):
        for wait, more in MORE.items():
            with self.subTest(wait=wait):
                self.check(self.trace(wait), more)

    @unittest.skipUnless(os.geteuid() == 0, "another network takes root")
    def test_so_does_one_that_is_larger_than_a_packet(self):
        for wait, more in MORE.items():
            with self.subTest(wait=wait):
                ethernet = ["unshare", "-n", "sh", "-c", 'ip link set lo up mtu 1500 && exec "$@"', "sh"]
                self.check(self.trace(wait, *ethernet), more)


if __name__ == "__main__":
    unittest.main()
