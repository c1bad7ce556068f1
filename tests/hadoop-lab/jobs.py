#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on real clusters, by name: they take from one to several minutes each.

  tests/hadoop-lab/jobs.py                      all of them
  tests/hadoop-lab/jobs.py OneHost Faults.test_a_damaged_output_is_made_again
"""
import filecmp
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
from hadoop_lab import OUR_HANDLER, OUR_SHUFFLE, STOCK_HANDLER, TERA, Cluster, main  # noqa: E402

ROWS = 1_000_000
WORD_COUNT = "org.apache.hadoop.examples.WordCount"
PLUGIN = f"-Dmapreduce.job.reduce.shuffle.consumer.plugin.class={OUR_SHUFFLE}"
COMPRESSED = ["-Dmapreduce.map.output.compress=true"]


class Lab(unittest.TestCase):
    """One cluster for the tests of a class."""
    options = {}

    @classmethod
    def setUpClass(cls):
        work = pathlib.Path(tempfile.gettempdir()) / "ripc-hadoop-lab" / cls.__name__
        shutil.rmtree(work, ignore_errors=True)
        cls.cluster = Cluster(work, **cls.options)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()
        cls.cluster.clear()

    def paths(self, job):
        counted = self.cluster.counters(job).get("RipcShuffle", {})
        print(f"{self.id()}: {counted}", flush=True)
        return counted

    def sort(self, maps=4, reduces=1, settings=(), rows=ROWS):
        job = self.cluster.terasort(rows, maps, reduces, settings=settings)
        self.cluster.check_sorted(rows)
        return self.paths(job)

    def assert_only(self, counted, *names):
        self.assertEqual(set(counted), set(names))


class OneHost(Lab):
    def test_one_two_and_four_reducers(self):
        for reduces in [1, 2, 4]:
            self.assert_only(self.sort(reduces=reduces), "LOCAL_BYTES", "IN_PLACE_BYTES")
        self.cluster.validate()

    def test_compressed_outputs_are_merged_in_place(self):
        for codec in ["DefaultCodec", "SnappyCodec", "BZip2Codec"]:
            counted = self.sort(rows=200_000, settings=[*COMPRESSED, f"-Dmapreduce.map.output.compress.codec=org.apache.hadoop.io.compress.{codec}"])
            self.assert_only(counted, "LOCAL_BYTES", "IN_PLACE_BYTES")

    def test_encrypted_outputs_are_merged_in_place(self):
        for settings in [[], COMPRESSED]:
            counted = self.sort(rows=200_000, settings=["-Dmapreduce.job.encrypted-intermediate-data=true", *settings])
            self.assert_only(counted, "LOCAL_BYTES", "IN_PLACE_BYTES")

    def test_without_files_the_node_manager_sends(self):
        for settings in [[], COMPRESSED, ["-Dmapreduce.job.encrypted-intermediate-data=true"]]:
            counted = self.sort(settings=["-Dmapreduce.reduce.shuffle.ripc.local=false", *settings])
            self.assert_only(counted, "SHM_BYTES")

    def test_files_into_hadoops_merge(self):
        self.assert_only(self.sort(settings=["-Dmapreduce.reduce.shuffle.ripc.in-place=false"]), "LOCAL_BYTES")

    def test_more_outputs_than_windows(self):
        counted = self.sort(maps=8, settings=["-Dmapreduce.reduce.shuffle.ripc.in-place.bytes=50000"])
        self.assertGreater(counted["LOCAL_BYTES"], counted["IN_PLACE_BYTES"])
        self.assertGreater(counted["IN_PLACE_BYTES"], 0)

    def test_word_count_with_its_combiner_and_empty_partitions(self):
        text = self.cluster.work / "text"
        text.mkdir(exist_ok=True)
        choose = random.Random(1)
        for name, words in [("many", 5000), ("few", 2)]:
            lines = (" ".join(f"word{choose.randrange(words)}" for _ in range(10)) for _ in range(50_000))
            (text / name).write_text("\n".join(lines), encoding="ascii")
            outputs = []
            for settings in [[], [PLUGIN], [PLUGIN, "-Dmapreduce.reduce.shuffle.ripc.local=false"]]:
                output = self.cluster.work / f"counted-{name}-{len(outputs)}"
                shutil.rmtree(output, ignore_errors=True)
                self.paths(self.cluster.job(WORD_COUNT, "-Dmapreduce.job.reduces=4", "-Dmapreduce.input.fileinputformat.split.maxsize=1000000",
                                            *settings, text / name, output))
                outputs.append(output)
            for output in outputs[1:]:
                for part in outputs[0].glob("part-r-*"):
                    self.assertTrue(filecmp.cmp(part, output / part.name, shallow=False), f"{name} {part.name}")

    def test_libripc_does_not_start_at_the_reducer(self):
        counted = self.sort(settings=["-Dmapreduce.reduce.shuffle.ripc.local=false", "-Dmapreduce.reduce.env=RIPC_TRANSPORTS=none"])
        self.assert_only(counted, "HTTP_BYTES", "FALLBACK_NO_SERVICE")

    def test_jobs_without_the_plugin_notice_nothing(self):
        job = self.cluster.terasort(ROWS, plugin=False)
        self.cluster.check_sorted(ROWS)
        self.assert_only(self.paths(job))


class ThreeHosts(Lab):
    """The third one has Hadoop's own handler."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER, STOCK_HANDLER)}

    def test_local_sockets_and_http_in_one_job(self):
        counted = self.sort(maps=12, reduces=3)
        for name in ["LOCAL_BYTES", "SOCKET_BYTES", "HTTP_BYTES", "FALLBACK_NO_SERVICE"]:
            self.assertGreater(counted.get(name, 0), 0, name)
        self.assertNotIn("FALLBACK_FAILED", counted)
        served = sum(self.cluster.metrics(host, "RipcShuffle").get("Bytes", 0) for host in self.cluster.hosts[:2])
        self.assertGreaterEqual(served, counted["SOCKET_BYTES"])

    def test_libripc_is_off_at_the_reducer(self):
        counted = self.sort(maps=12, settings=["-Dmapreduce.reduce.shuffle.ripc.remote=false"])
        self.assertGreater(counted["HTTP_BYTES"], 0)
        self.assertNotIn("SOCKET_BYTES", counted)


class SharedMemory(Lab):
    """Two NodeManagers with one runtime directory, as containers of one machine."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER), "same_machine": True}

    def test_local_and_shared_memory_in_one_job(self):
        counted = self.sort(maps=8, reduces=2)
        self.assert_only(counted, "LOCAL_BYTES", "IN_PLACE_BYTES", "SHM_BYTES")


class Faults(Lab):
    """A slow network, so that something can happen in the midst of the shuffle."""
    options = {
        "handlers": (OUR_HANDLER, OUR_HANDLER),
        "rate": "30mbit",
        "node_settings": {"yarn.nodemanager.recovery.enabled": "true"},
    }
    soon = ["-Dmapreduce.reduce.shuffle.retry-delay.max.ms=500", "-Dmapreduce.reduce.shuffle.ripc.timeout.ms=5000"]

    def start(self, maps, settings=()):
        cluster = self.cluster
        words = cluster.terasort_words(ROWS, maps, 1, True, [*self.soon, *settings])
        return cluster.start_job(TERA + "TeraSort", words, "terasort.log")

    def finish(self, running):
        self.assertEqual(running.wait(300), 0, f"see {self.cluster.work}/logs/terasort.log")
        self.cluster.check_sorted(ROWS)
        return self.paths(self.cluster.job_id("terasort.log"))

    def until_served(self):
        """Returns a host whose NodeManager has bytes on their way."""
        served = []

        def serves():
            served[:] = [host for host, old in zip(self.cluster.hosts, self.before) if self.bytes_of(host) > old]
            return served

        self.cluster.until(120, "bytes on their way", serves)
        return served[0]

    def bytes_of(self, host):
        return self.cluster.metrics(host, "RipcShuffle").get("Bytes", 0)

    def setUp(self):
        self.cluster.until(60, "NodeManagers", self.cluster.nodes_active)
        self.cluster.until(60, "their metrics", lambda: all(self.cluster.metrics(host, "RipcShuffle") for host in self.cluster.hosts))
        self.before = [self.bytes_of(host) for host in self.cluster.hosts]
        self.old = self.outputs(0) | self.outputs(5)

    def test_a_killed_node_manager_comes_back(self):
        """In mid-shuffle. With recovery its outputs and tokens are there again."""
        running = self.start(8)
        host = self.until_served()
        self.cluster.kill_node(host)
        self.cluster.start_node(host)
        counted = self.finish(running)
        self.assertGreater(counted.get("HTTP_BYTES", 0) + counted.get("FALLBACK_FAILED", 0), 0, "it was noticed")

    def test_a_killed_reducer_is_started_again(self):
        running = self.start(8)
        self.until_served()
        reducers = [each.parent for each in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                    if re.search(rb"YarnChild\0.*attempt_\d+_\d+_r_", read(each))]
        self.assertEqual(len(reducers), 1)
        os.kill(int(reducers[0].name), signal.SIGKILL)
        self.finish(running)
        job = self.cluster.history(self.cluster.job_id("terasort.log"), "")["job"]
        self.assertEqual(job["failedReduceAttempts"] + job["killedReduceAttempts"], 1)

    def outputs(self, number):
        """The files of complete outputs of a map, of all jobs."""
        found = set()
        for host in self.cluster.hosts:
            local = host.folder / "local"
            for index in local.glob(f"*/usercache/*/appcache/*/output/*_m_{number:06}_0/file.out.index"):
                # The two files of an output need not be on the same disk.
                name = str(index.relative_to(local)).split("/", 1)[1].removesuffix(".index")
                found.update(local.glob("*/" + name))
        return found

    def first_output(self):
        """That of this test's job, when its map has ended: two maps run at once."""
        self.cluster.until(120, "map outputs", lambda: self.outputs(5) - self.old)
        return (self.outputs(0) - self.old).pop()

    def check_reported(self):
        framework = self.cluster.counters(self.cluster.job_id("terasort.log"))["org.apache.hadoop.mapreduce.TaskCounter"]
        self.assertGreater(framework["FAILED_SHUFFLE"], 0, "HTTP has reported it")

    def test_a_damaged_output_is_made_again(self):
        running = self.start(8)
        data = self.first_output()
        with open(data, "r+b") as file:
            file.seek(data.stat().st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))
        counted = self.finish(running)
        self.assertGreater(counted.get("FALLBACK_LOCAL_FILE", 0) + counted.get("FALLBACK_CHECKSUM", 0), 0)
        self.check_reported()

    def test_a_lost_output_is_made_again(self):
        running = self.start(8)
        shutil.rmtree(self.first_output().parent)
        counted = self.finish(running)
        self.assertGreater(counted.get("FALLBACK_NOT_THERE", 0), 0)
        self.check_reported()

    def test_a_cut_link_heals(self):
        running = self.start(8)
        self.until_served()
        first, second = self.cluster.hosts
        first.run("ip", "link", "set", second.name, "down")
        time.sleep(10)  # what the fault is
        first.run("ip", "link", "set", second.name, "up")
        self.assertGreater(self.finish(running)["FALLBACK_FAILED"], 0, "it was noticed")


def read(file):
    try:
        return file.read_bytes()
    except OSError:  # the process has ended
        return b""


if __name__ == "__main__":
    main()
