# SPDX-License-Identifier: Apache-2.0
"""Every benchmark prints the fields that it promises, with few iterations. No figure is judged here."""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True

from harness import PATIENCE, CliTest  # noqa: E402

TRANSPORT = os.environ.get("RIPC_TEST_TRANSPORTS", "shm").split(",")[0]


class Bench(CliTest):
    def bench(self, name, *arguments):
        result = self.ripc_json("bench", name, *arguments)
        self.assertEqual((result["bench"], result["lost"], result["corrupt"]), (name, 0, 0))
        for field in ("size", "iterations", "wait"):
            self.assertIn(field, result)
        return result

    def test_pingpong_reports_percentiles_and_the_cache_line_beside_them(self):
        for kind in ("short", "long", "auto", "return", "lend"):
            for wait in ("spin", "block"):
                for size in ("8", "64", "5000") if kind != "short" else ("0", "1", "64"):
                    with self.subTest(kind=kind, wait=wait, size=size):
                        result = self.bench(
                            "pingpong", "--transport", TRANSPORT, "--kind", kind, "--wait", wait, "--size", size,
                            "--iterations", "100")
                        self.assertEqual((result["transport"], result["kind"]), (TRANSPORT, kind))
                        figures = result["rtt_ns"]
                        for lower, upper in zip(("min", "p50", "p90", "p99", "p999"), ("p50", "p90", "p99", "p999", "max")):
                            self.assertLessEqual(figures[lower], figures[upper])
                        self.assertGreater(figures["min"], 0)
                        self.assertGreater(result["cacheline_rtt_ns"], 0)
                        self.assertGreater(result["payloads_checked"], 0)

    def test_rate_checks_every_payload(self):
        for wait in ("spin", "block"):
            with self.subTest(wait=wait):
                result = self.bench("rate", "--transport", TRANSPORT, "--size", "32", "--iterations", "20000", "--wait", wait)
                self.assertGreater(result["messages_per_second"], 0)
                self.assertGreaterEqual(result["payloads_checked"], 20000)

    def test_bandwidth_reports_memcpy_beside_it(self):
        for kind in ("long", "auto", "return"):
            for size in ("100", "64K", "1M"):
                with self.subTest(kind=kind, size=size):
                    result = self.bench(
                        "bandwidth", "--transport", TRANSPORT, "--kind", kind, "--size", size, "--iterations", "100")
                    self.assertGreater(result["bytes_per_second"], 0)
                    self.assertGreater(result["memcpy_bytes_per_second"], 0)
                    self.assertGreater(result["ratio_to_memcpy"], 0)

    def test_bandwidth_of_lent_views(self):
        result = self.bench("bandwidth", "--transport", TRANSPORT, "--kind", "lend", "--size", "1M", "--iterations", "100")
        self.assertGreater(result["messages_per_second"], 0)

    def test_sockets_are_measured_beside_bare_sockets(self):
        for wait in ("spin", "block"):
            with self.subTest(wait=wait):
                result = self.bench("pingpong", "--transport", "socket", "--wait", wait, "--iterations", "100")
                self.assertGreater(result["udp_rtt_ns"], 0)
                self.assertGreater(result["ratio_to_udp"], 0)
        for batch in ("0", "1"):
            with self.subTest(batch=batch):
                result = self.bench("rate", "--transport", "socket", "--batch", batch, "--iterations", "20000")
                self.assertEqual(result["batch"], 64 if batch == "0" else 1)
                self.assertGreater(result["bare_messages_per_second"], 0)
                self.assertGreater(result["ratio_to_bare"], 0)
        result = self.bench("bandwidth", "--transport", "socket", "--size", "1M", "--iterations", "100")
        for field in ("ratio_to_tcp", "tcp_bytes_per_second", "processor_seconds_per_gigabyte",
                      "tcp_processor_seconds_per_gigabyte"):
            self.assertGreater(result[field], 0)

    def test_calls_are_all_answered(self):
        for wait in ("spin", "block"):
            for size, window, answer in (("0", "1", "0"), ("5", "1", "5"), ("32", "8", "32"), ("5000", "4", "100"), ("1M", "3", "1M")):
                with self.subTest(wait=wait, size=size, window=window):
                    result = self.bench(
                        "calls", "--transport", TRANSPORT, "--size", size, "--window", window, "--answer", answer,
                        "--iterations", "100", "--wait", wait)
                    self.assertEqual((result["window"], result["did_not_run"], result["may_have_run"]), (int(window), 0, 0))
                    self.assertGreaterEqual(result["answered"], 100)
                    self.assertEqual(result["payloads_checked"], result["answered"])
                    self.assertGreater(result["calls_per_second"], 0)
                    self.assertLessEqual(result["rtt_ns"]["min"], result["rtt_ns"]["p999"])
        self.ripc("bench", "calls", "--window", "0", code=2)
        self.ripc("bench", "calls", "--window", "257", code=2)

    def test_symmetric_calls_are_all_answered(self):
        for window, callers in (("1", "1"), ("3", "1"), ("11", "20")):
            with self.subTest(window=window, callers=callers):
                result = self.bench("calls", "--transport", TRANSPORT, "--symmetric", "--window", window, "--callers", callers,
                                    "--iterations", "500")
                self.assertEqual((result["answered"], result["payloads_checked"]), (525, 525), "those of the warm-up, too")
                self.assertGreater(result["calls_per_second"], 0)
        _, error = self.ripc("bench", "calls", "--symmetric", "--size", "10M", code=1)
        self.assertIn(b"smaller --size", error)
        _, error = self.ripc("bench", "calls", "--symmetric", "--window", "11", "--callers", "24", code=1)
        self.assertIn(b"fewer --callers", error)
        self.ripc("bench", "calls", "--callers", "2", code=2)

    def test_runs_are_listed_and_their_medians_reported(self):
        result = self.bench("rate", "--transport", TRANSPORT, "--iterations", "5000", "--runs", "3")
        rates = sorted(run["messages_per_second"] for run in result["runs"])
        self.assertEqual(len(rates), 3)
        self.assertEqual(result["messages_per_second"], rates[1])

    def test_pool_is_measured_against_malloc(self):
        result = self.bench("pool", "--size", "64K", "--iterations", "1000")
        self.assertGreater(result["lease_release_ns"], 0)
        self.assertGreater(result["malloc_free_ns"], 0)

    def test_service_answers_by_each_way_to_wait(self):
        for wait in ("adaptive", "spin", "block", "thread"):
            for rate in ("0", "2000"):
                with self.subTest(wait=wait, rate=rate):
                    result = self.bench(
                        "service", "--transport", TRANSPORT, "--wait", wait, "--rate", rate, "--service-time", "5",
                        "--clients", "2", "--neighbours", "1", "--duration", "0.2")
                    self.assertEqual((result["wait"], result["clients"], result["neighbours"]), (wait, 2, 1))
                    self.assertGreater(result["messages_per_second"], 0)
                    self.assertGreater(result["payloads_checked"], 0)
                    figures = result["latency_ns"]
                    self.assertGreaterEqual(figures["min"], 5000, "the service computes")
                    self.assertLessEqual(figures["p50"], figures["p999"])
                    for field in ("service_processor_share", "client_processor_share", "service_processor_ns",
                                  "client_processor_ns"):
                        self.assertGreater(result[field], 0)

    def test_protocols_mark_what_auto_takes(self):
        result = self.bench("protocols", "--transport", TRANSPORT, "--size", "64K", "--iterations", "10", "--runs", "2")
        self.assertEqual([point["size"] for point in result["points"]], [4**power for power in range(9)])
        for point in result["points"]:
            times = point["message_ns"]
            self.assertEqual(set(times), {"auto", "short", "long", "return", "lend"})
            self.assertGreater(times[point["chosen"]], 0)
            if point["chosen"] == "long":
                self.assertIsNone(times["short"], "it does not fit")
            is_slow = times["short"] is not None and times["auto"] > 1.1 * min(times["short"], times["long"])
            self.assertEqual(point["size"] in result["not_within_10_percent"], is_slow)
        self.assertEqual((result["points"][0]["chosen"], result["points"][-1]["chosen"]), ("short", "long"))
        text = self.ripc("bench", "protocols", "--transport", TRANSPORT, "--size", "4", "--iterations", "10")[0].decode()
        self.assertRegex(text, r"(?m)^4 B .* \*")
        self.assertIn("what AUTO takes", text)
        self.assertRegex(text, r"AUTO is (within 10 % of the faster one at every size|not within .* at [0-9, B]+)\.\n$")
        text = self.ripc("bench", "protocols", "--transport", TRANSPORT, "--size", "1M", "--iterations", "5")[0].decode()
        first_long = re.search(r"(?m)^([0-9]+ [KM]iB) +[^ ]+ [a-z]+ +-", text).group(1)
        self.assertIn(f"From {first_long} on a payload cannot be short, so AUTO has no choice.", text)

    def children(self, process):
        """The processes that it started, as soon as there are any."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and process.poll() is None:
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                if children := file.read().split():
                    return [int(child) for child in children]
        self.fail(f"it started none: {process.poll()}")

    def test_the_death_of_the_other_side_ends_it_while_it_spins(self):
        for attempt in range(50):
            bench = self.start("bench", "pingpong", "--transport", "shm", "--iterations", "1000000", "--runs", "20",
                               stderr=subprocess.PIPE)
            try:
                child = self.children(bench)[0]
                spent = 0
                while spent < 2 + attempt % 8:  # ticks of processor time: it spins
                    with open(f"/proc/{child}/stat", encoding="ascii") as file:
                        spent = int(file.read().rpartition(")")[2].split()[11])
                os.kill(child, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass  # its run was over
            # Else they exchanged messages, and did not spin on bare cache lines.
            if bench.wait(PATIENCE) == 1 and b"other side of the measurement" in bench.stderr.read():
                return
        self.fail("it never spun on bare cache lines")

    def test_its_own_key_has_no_name_that_an_interrupted_one_could_leave_behind(self):
        self.environment["TMPDIR"] = self.folder
        os.remove(self.key)
        before = os.listdir(self.folder)
        bench = self.start("bench", "pingpong", "--transport", "socket", "--iterations", "1000000000")
        self.children(bench)
        self.assertEqual(os.listdir(self.folder), before)

    def test_bad_options_are_refused(self):
        for arguments in (("service", "--wait", "never"), ("service", "--size", "7"), ("service", "--size", "2M"),
                          ("service", "--rate", "-1"), ("service", "--clients", "0"), ("service", "--duration", "0"),
                          ("service", "--kind", "long", "--depth", "2"), ("protocols", "--size", "0"),
                          ("protocols", "--wait", "thread"), ("pingpong", "--wait", "thread")):
            with self.subTest(arguments=arguments):
                self.ripc("bench", *arguments, code=2)

    def test_text_output_has_a_line_for_each_figure(self):
        text = self.ripc("bench", "rate", "--transport", TRANSPORT, "--iterations", "1000")[0].decode()
        self.assertIn("messages_per_second", text)


if __name__ == "__main__":
    unittest.main()
