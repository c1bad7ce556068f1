#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The progress bar of a long transfer: for a person at a terminal, and for nobody else."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
import unittest

import harness

QUIET = 0.5  # seconds: a faster transfer shows no bar


class Progress(harness.CliTest):
    def fetch_slowly(self, standard_error):
        """Fetches a file to a pipe that is not read at first, so that the transfer takes longer than QUIET."""
        content = self.write("large", os.urandom(8 << 20))
        self.serve()
        process = self.start("get", "files", "large", "-o", "-", "--chunk", "65536", stderr=standard_error)
        received = bytearray(os.read(process.stdout.fileno(), 4096))
        # The transfer has begun and waits for a reader. Sleep longer than the bar waits before it appears.
        time.sleep(2 * QUIET)
        while piece := os.read(process.stdout.fileno(), 1 << 20):
            received += piece
        self.assertEqual(process.wait(harness.PATIENCE), 0)
        self.assertTrue(bytes(received) == content, "the content is whole")
        return process

    def test_a_person_at_a_terminal_sees_it_and_it_is_wiped_away(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.fetch_slowly(theirs)
        os.close(theirs)
        seen = b""
        while select.select([ours], [], [], 0)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # EIO: the other end is closed
                break
            if not piece:
                break
            seen += piece
        self.assertRegex(seen, rb"\rlarge \[=*>? *\] +\d+% ")
        self.assertRegex(seen, rb"\x1b\[K\r\x1b\[K8388608 bytes .*\r\n$", "what stays is one line that sums up")
        for line in seen.split(b"\r"):
            self.assertLessEqual(len(line.replace(b"\x1b[K", b"")), 80, line)

    def test_a_pipe_gets_none(self):
        process = self.fetch_slowly(subprocess.PIPE)
        self.assertRegex(process.stderr.read(), rb"\A8388608 bytes [^\r\x1b]*\n\Z")


if __name__ == "__main__":
    unittest.main()
