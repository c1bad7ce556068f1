#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on real clusters, by name: they take from one to several minutes each.

  tests/hadoop-lab/jobs.py                      all of them
  tests/hadoop-lab/jobs.py OneHost ThreeHosts.test_libripc_is_off_at_the_reducer
"""
import filecmp
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from hadoop_lab import OUR_HANDLER, OUR_SHUFFLE, STOCK_HANDLER, Cluster, main  # noqa: E402

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
        self.cluster.validate(ROWS)

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


class Large(Lab):
    """More than fits: two outputs that each exceed 2 GiB by a few bytes, one local and one remote."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER)}
    rows_of_one = 2**31 // 102 + 1  # each has 100 bytes, and one for each of two lengths

    def test_outputs_of_more_than_two_gigabytes(self):
        rows = 2 * self.rows_of_one
        counted = self.paths(self.cluster.terasort(rows, maps=2))
        self.cluster.validate(rows)
        for name in ["IN_PLACE_BYTES", "SOCKET_BYTES"]:
            self.assertGreater(counted[name], 2**31, name)
        self.assertFalse([name for name in counted if name.startswith("FALLBACK")])


class Small(Lab):
    """2,000 outputs of 10 KB. Each has a JVM, so this takes half an hour on a calm machine."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER)}

    def test_two_thousand_outputs(self):
        counted = self.sort(maps=2000, rows=200_000, settings=[
            "-Dmapreduce.job.running.map.limit=4", "-Dmapreduce.task.io.sort.mb=1", "-Dmapreduce.map.memory.mb=256",
            "-Dmapreduce.map.java.opts=-Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"])
        self.assert_only(counted, "LOCAL_BYTES", "IN_PLACE_BYTES", "SOCKET_BYTES")


if __name__ == "__main__":
    main()
