# SPDX-License-Identifier: Apache-2.0
"""Serving and fetching files: every size, every way to travel, every refusal, restarts at any moment."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import termios
import time
import unittest

sys.dont_write_bytecode = True

from harness import PATIENCE, CliTest  # noqa: E402


class Get(CliTest):
    def test_every_size_class_arrives_whole_by_every_way(self):
        chunk = 1 << 20
        sizes = [0, 1, 7, 100, 1000, 4095, 4096, 4097, 65536, chunk - 1, chunk, chunk + 1, 5 * chunk + 12345]
        for size in sizes:
            self.write(f"file-{size}", os.urandom(size))
        self.serve("files")
        for size in sizes:
            for extra in ([], ["--return-buffer"], ["--verify"], ["--chunk", "1M"], ["--chunk", "1M", "--return-buffer"]):
                if size > 8 * chunk and not extra:
                    continue
                with self.subTest(size=size, extra=extra):
                    report = self.ripc_json("get", "files", f"file-{size}", "-o", self.fetched, *extra)
                    self.assertEqual(report["bytes"], size)
                    with open(os.path.join(self.served, f"file-{size}"), "rb") as file:
                        self.assert_fetched(file.read())
                    self.assertEqual(report["verified"], "--verify" in extra)
                    if size <= 1000:
                        self.assertEqual(report["travelled"], "return" if "--return-buffer" in extra and size else "short")
                    if size >= 65536:
                        self.assertEqual(report["travelled"], "return" if "--return-buffer" in extra else "long")
                    if size == 5 * chunk + 12345 and "--chunk" in extra:
                        self.assertEqual(report["chunks"], 6)

    def test_output_goes_to_standard_output_to_a_file_or_nowhere(self):
        content = self.write("data", os.urandom(300000))
        self.serve("files")
        self.assertEqual(self.ripc("get", "files", "data", "-o", "-")[0], content)
        out, line = self.ripc("get", "files", "data")
        self.assertEqual(out, content)
        self.assertIn("300000 bytes", line.decode())
        out, _ = self.ripc("get", "files", "data", "-o", self.fetched)
        self.assertRegex(out.decode(), r"^300000 bytes  long  over \w+  ")
        self.assert_fetched(content)
        self.ripc("get", "files", "data", "-o", "/dev/null")

    def test_the_first_answer_may_hold_more_than_two_pieces(self):
        content = self.write("data", os.urandom(100 << 10))
        self.serve("files")
        out, line = self.ripc("get", "files", "data", "--transport", "socket", "--chunk", "4K")
        self.assertTrue(out == content)
        self.assertRegex(line.decode(), r"^102400 bytes  short  over socket  ")

    def wait_until_full(self, pipe, client):
        """Until the client can write no more, and sleeps or has ended."""
        end = time.monotonic() + PATIENCE
        size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        state = filled = None
        while (filled != size or state not in "SZ") and time.monotonic() < end:
            filled = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
            with open(f"/proc/{client.pid}/stat", encoding="ascii") as file:
                state = file.read().rpartition(")")[2].split()[0]
        self.assertEqual(filled, size)

    def test_a_pipe_that_does_not_block_gets_everything(self):
        content = self.write("data", os.urandom(3 << 20))
        self.serve("files")
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        client = self.start("get", "files", "data", "-o", "-", stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        with open(reader, "rb") as pipe:
            self.wait_until_full(pipe, client)
            self.assertTrue(pipe.read() == content)
        self.assertEqual(client.wait(PATIENCE), 0)

    def test_a_present_output_file_is_replaced_only_by_a_whole_one(self):
        content = self.write("data", os.urandom(100000))
        self.serve("files")
        with open(self.fetched, "wb") as file:
            file.write(b"old")
        self.ripc("get", "files", "missing", "-o", self.fetched, code=5)
        self.assert_fetched(b"old")
        self.ripc("get", "files", "data", "-o", self.fetched)
        self.assert_fetched(content)
        self.assertEqual(sorted(os.listdir(self.folder)), ["config", "fetched", "runtime", "served"])

    def test_an_output_that_cannot_be_written_fails_with_1(self):
        self.write("data", b"x")
        self.serve("files")
        self.ripc("get", "files", "data", "-o", os.path.join(self.folder, "no", "such", "folder"), code=1)
        self.ripc("get", "files", "data", "-o", self.folder, code=1)

    def test_a_changed_file_is_fetched_anew(self):
        self.serve("files")
        for round in range(3):
            content = self.write("data", os.urandom(200000))
            self.ripc("get", "files", "data", "-o", self.fetched)
            self.assert_fetched(content)

    def test_a_small_file_written_while_it_is_read_arrives_as_one_version(self):
        self.require_strace()
        old = self.write("data", b"a" * 1000)
        trace = os.path.join(self.folder, "trace")
        # Each read of the file begins half a second late.
        self.prefix = ["strace", "-D", "-f", "-qq", "-P", os.path.join(self.served, "data"), "-e", "trace=pread64",
                       "-e", "inject=pread64:delay_enter=500000", "-o", trace]
        self.serve("files")
        self.prefix = []
        get = self.start("get", "files", "data", "-o", self.fetched, "--verify")
        end = time.monotonic() + PATIENCE
        with open(trace, encoding="utf-8", errors="replace") as calls:
            while "pread64" not in calls.read() and time.monotonic() < end:
                time.sleep(0.01)
        new = self.write("data", b"b" * 2000)
        self.assertEqual(get.wait(PATIENCE), 0)
        with open(self.fetched, "rb") as file:
            self.assertIn(file.read(), [old, new])

    def test_control_characters_of_a_path_do_not_reach_the_terminal(self):
        self.serve("files")
        out, errors = self.ripc("get", "files", "--batch", input=f"a\x1b[1m\u009b1mü\t{self.fetched}\n".encode(), code=5)
        self.assertEqual(out.decode(), "a?[1m?1mü: failed with exit code 5\n")
        self.assertIn("'a?[1m?1mü'", errors.decode())
        self.assertNotRegex(errors.decode(), "[\x1b\x80-\x9f]")

    def test_many_files_by_one_process(self):
        names = []
        for index in range(50):
            names.append(f"folder-{index % 5}/file {index}")
            self.write(names[-1], os.urandom(index * 997))
        self.serve("files")
        lines = "".join(
            f"{name}\t{os.path.join(self.folder, str(index))}\t{'return' if index % 3 == 0 else ''}\n"
            for index, name in enumerate(names))
        out, _ = self.ripc("get", "files", "--batch", "--json", input=lines.encode())
        reports = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([report["path"] for report in reports], names)
        for index, name in enumerate(names):
            with open(os.path.join(self.served, name), "rb") as file:
                self.assert_fetched(file.read(), os.path.join(self.folder, str(index)))

    def test_a_cache_smaller_than_the_files_still_serves_them(self):
        contents = [self.write(f"file-{index}", os.urandom(1 << 20)) for index in range(4)]
        self.serve("files", "--cache", "1500K")
        for index in [0, 1, 2, 3, 0, 1]:
            self.ripc("get", "files", f"file-{index}", "-o", self.fetched, "--chunk", "512K", "--verify")
            self.assert_fetched(contents[index])


class Refusals(CliTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.folder, "secret"), "wb") as file:
            file.write(b"secret")
        self.write("folder/inside", b"inside")

    def refused(self, path):
        _, error = self.ripc("get", "files", path, "-o", self.fetched, code=5)
        self.assertFalse(os.path.exists(self.fetched))
        return error.decode()

    def test_no_path_leaves_the_served_directory(self):
        os.symlink("../secret", os.path.join(self.served, "link"))
        os.symlink("/etc/passwd", os.path.join(self.served, "absolute-link"))
        os.symlink("/", os.path.join(self.served, "root"))
        os.symlink("..", os.path.join(self.served, "up"))
        self.serve("files")
        for path in (
            "../secret",
            "folder/../../secret",
            "./../secret",
            os.path.join(self.folder, "secret"),
            "/etc/passwd",
            "link",
            "absolute-link",
            "root/etc/passwd",
            "up/secret",
            "/proc/self/root/etc/passwd",
        ):
            with self.subTest(path=path):
                self.assertIn("leaves the served directory", self.refused(path))

    def test_links_and_dots_that_stay_inside_are_followed(self):
        os.symlink("folder/inside", os.path.join(self.served, "link"))
        self.serve("files")
        for path in ("link", "folder/../folder/inside", "./folder//inside"):
            with self.subTest(path=path):
                self.assertEqual(self.ripc("get", "files", path, "-o", "-")[0], b"inside")

    def test_what_is_no_readable_regular_file_is_refused_with_the_reason(self):
        os.mkfifo(os.path.join(self.served, "fifo"))
        self.serve("files")
        self.assertIn("no such file", self.refused("missing"))
        self.assertIn("no such file", self.refused("folder/inside/more"))
        self.assertIn("no such file", self.refused("x" * 300))
        self.assertIn("directory", self.refused("folder"))
        self.assertIn("not a regular file", self.refused("fifo"))

    def test_a_refusal_does_not_end_the_service(self):
        self.serve("files")
        self.refused("missing")
        self.assertEqual(self.ripc("get", "files", "folder/inside", "-o", "-")[0], b"inside")


class Restart(CliTest):
    def batch(self, *arguments):
        return self.start(
            "get", "files", "--batch", "--json", "--verify", "--timeout", str(PATIENCE), *arguments,
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)

    def ask(self, client, path):
        client.stdin.write(f"{path}\t{self.fetched}\n".encode())

    def answer(self, client, content):
        report = json.loads(client.stdout.readline())
        self.assertTrue(report["ok"], report)
        self.assert_fetched(content)
        return report

    def test_a_client_goes_on_when_the_service_is_killed_between_two_files(self):
        content = self.write("data", os.urandom(3 << 20))
        client = self.batch()
        for _ in range(3):
            service = self.serve("files")
            self.ask(client, "data")
            self.answer(client, content)
            service.kill()
            service.wait(PATIENCE)
        client.stdin.close()
        self.assertEqual(client.wait(PATIENCE), 0)

    def test_a_request_that_died_with_the_service_is_answered_by_the_next(self):
        content = self.write("data", os.urandom(3 << 20))
        service = self.serve("files")
        client = self.batch()
        self.ask(client, "data")
        self.answer(client, content)
        service.send_signal(signal.SIGSTOP)  # the request stays in its queue
        self.ask(client, "data")
        service.kill()
        service.wait(PATIENCE)
        self.serve("files")
        self.assertGreaterEqual(self.answer(client, content)["retries"], 0)

    def test_kills_at_random_moments_of_a_transfer_leave_the_file_whole(self):
        content = self.write("data", os.urandom(24 << 20))
        generator = random.Random(20)
        retries = 0
        for way in ([], ["--return-buffer"]):
            client = self.batch("--chunk", "64K", *way)
            service = self.serve("files")
            for _ in range(8):
                with self.subTest(way=way):
                    self.ask(client, "data")
                    # When the service dies, the client is somewhere in the file or done.
                    try:
                        client.wait(generator.random() * 0.02)
                    except subprocess.TimeoutExpired:
                        pass
                    service.kill()
                    service.wait(PATIENCE)
                    service = self.serve("files")
                    retries += self.answer(client, content)["retries"]
            service.kill()
            service.wait(PATIENCE)
        self.assertGreater(retries, 0, "no kill hit a transfer")

    def test_without_a_service_a_client_gives_up_when_its_time_is_over(self):
        self.write("data", b"x")
        service = self.serve("files")
        client = self.start(
            "get", "files", "--batch", "--json", "--timeout", "0.5", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
            bufsize=0)
        self.ask(client, "data")
        self.answer(client, b"x")
        service.kill()
        service.wait(PATIENCE)
        self.ask(client, "data")
        report = json.loads(client.stdout.readline())
        self.assertEqual((report["ok"], report["exit_code"]), (False, 3))


if __name__ == "__main__":
    unittest.main()
