#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lab's switch by itself: no guest, only socket pairs."""

import os
import select
import socket
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.environ.get("RIPC_TEST_PROGRAM_DIR", os.path.join(HERE, "../../build/release/tests"))
PROGRAM = os.path.join(PROGRAMS, "lab_switch")
PATIENCE = 30  # seconds
EVERYONE = b"\xff" * 6


def address(port):
    return bytes([2, 0, 0, 0, 0, port])


class SwitchTest(unittest.TestCase):
    def setUp(self):
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
        self.ports = [near for near, _ in pairs]
        far = [end.fileno() for _, end in pairs]
        self.process = subprocess.Popen([PROGRAM, *map(str, far)], pass_fds=far, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        for _, end in pairs:
            end.close()
        for port in self.ports:
            port.settimeout(PATIENCE)
            self.addCleanup(port.close)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def obey(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def send(self, origin, destination, content=b"content"):
        """From port `origin` (1, 2, 3) to a port or, with bytes, to an address."""
        receiver = destination if isinstance(destination, bytes) else address(destination)
        frame = receiver + address(origin) + b"\x08\x00" + content
        self.ports[origin - 1].send(frame)
        return frame

    def receive(self, port):
        return self.ports[port - 1].recv(1 << 17)

    def assert_count(self, forwarded, lost):
        """Waits until the switch has handled this many frames; it must not have forwarded any more."""
        for _ in range(100 * PATIENCE):
            words = self.obey("count").split()
            counts = int(words[1]), int(words[3])
            if sum(counts) >= forwarded + lost:
                break
            select.select([], [], [], 0.01)
        self.assertEqual(counts, (forwarded, lost))

    def learn(self):
        """Sends a frame from each port, so that the switch learns where it is."""
        for origin in (1, 2, 3):
            frame = self.send(origin, EVERYONE)
            for port in {1, 2, 3} - {origin}:
                self.assertEqual(self.receive(port), frame)

    def test_a_frame_for_everyone_reaches_all_other_ports(self):
        self.learn()
        self.assert_count(6, 0)

    def test_a_frame_for_one_reaches_only_that_port_once_it_is_known(self):
        frame = self.send(1, 2)
        self.assertEqual([self.receive(2), self.receive(3)], [frame, frame])
        self.send(2, 1)
        self.receive(1)
        frame = self.send(1, 2)
        self.assertEqual(self.receive(2), frame)
        self.assert_count(4, 0)

    def test_a_blocked_udp_port_is_blocked_and_nothing_else(self):
        self.learn()
        self.assertEqual(self.obey("block 4791"), "ok")
        self.assertEqual(self.obey("block 0"), "error")

        def packet(protocol, port):
            return bytes([0x45] + [0] * 8 + [protocol] + [0] * 12) + port.to_bytes(2, "big") + b"and the rest"

        self.send(1, 2, packet(17, 4791))
        frames = [self.send(1, 2, packet(17, 4792)), self.send(1, 2, packet(6, 4791))]
        self.assertEqual([self.receive(2), self.receive(2)], frames)
        self.assert_count(8, 1)
        self.assertEqual(self.obey("heal"), "ok")
        frame = self.send(1, 2, packet(17, 4791))
        self.assertEqual(self.receive(2), frame)

    def test_large_frames_arrive_whole(self):
        self.learn()
        frame = self.send(1, 2, os.urandom(60000))
        self.assertEqual(self.receive(2), frame)

    def test_frames_that_are_too_long_are_lost_until_it_is_healed(self):
        self.learn()
        self.assertEqual(self.obey("longest 600"), "ok")
        self.send(1, 2, bytes(587))
        frame = self.send(1, 2, bytes(586))
        self.assertEqual(self.receive(2), frame)
        self.assert_count(6 + 1, 1)
        self.assertEqual(self.obey("heal"), "ok")
        frame = self.send(1, 2, bytes(587))
        self.assertEqual(self.receive(2), frame)

    def test_a_cut_in_one_direction_leaves_the_other_and_ends_when_healed(self):
        self.learn()
        self.assertEqual(self.obey("loss 1 2 100"), "ok")
        self.send(1, 2, b"never arrives")
        frame = self.send(2, 1)
        self.assertEqual(self.receive(1), frame)
        frame = self.send(1, 3)
        self.assertEqual(self.receive(3), frame)
        self.assert_count(6 + 2, 1)
        self.assertEqual(self.obey("heal"), "ok")
        frame = self.send(1, 2, b"arrives")
        self.assertEqual(self.receive(2), frame)

    def test_loss_takes_about_its_share(self):
        self.learn()
        self.assertEqual(self.obey("loss 1 2 25"), "ok")
        for number in range(4000):
            self.send(1, 2)
            if number % 100 == 99:
                while select.select([self.ports[1]], [], [], 0)[0]:
                    self.receive(2)
        for _ in range(100 * PATIENCE):
            words = self.obey("count").split()
            if int(words[1]) + int(words[3]) + int(words[5]) >= 4006:
                break
            select.select([self.ports[1]], [], [], 0.01)
        lost = int(words[3])
        self.assertTrue(800 < lost < 1200, f"{lost} of 4000 frames are lost at 25 percent")

    def test_a_port_that_closes_does_not_disturb_the_others(self):
        self.learn()
        self.ports[2].close()
        for _ in range(3):
            frame = self.send(1, EVERYONE)
            self.assertEqual(self.receive(2), frame)

    def test_what_is_no_command_is_refused(self):
        for command in ("", "loss", "loss 1 2", "loss 1 2 101", "loss 0 1 5", "loss 1 4 5", "loss 1 2 -1", "longest",
                        "longest 13", "melt"):
            self.assertEqual(self.obey(command), "error", command)

    def test_it_ends_with_its_input(self):
        self.process.stdin.close()
        self.assertEqual(self.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
