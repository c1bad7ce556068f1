#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on real clusters, by name: they take from one to several minutes each.

  tests/hadoop-lab/jobs.py                      all of them
  tests/hadoop-lab/jobs.py OneHost FourHosts.test_libripc_is_off_at_the_reducer
"""
import filecmp
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
from hadoop_lab import OUR_HANDLER, OUR_SHUFFLE, STOCK_HANDLER, Cluster, main  # noqa: E402

ROWS = 1_000_000
WORD_COUNT = "org.apache.hadoop.examples.WordCount"
CODECS = "org.apache.hadoop.io.compress."
PARTITION = "mapreduce.partition.binarypartitioner."
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

    def told(self, job):
        """What each reducer of a job has logged of hosts and paths: [[line, ...], ...]"""
        logs = (self.cluster.work / "logs").glob(f"node*-containers/{job.replace('job', 'application')}/*/syslog*")
        lines = {}
        for log in logs:
            found = re.findall(r"Outputs of \S+ come over [A-Z]+:", log.read_text(encoding="utf-8", errors="replace"))
            lines.setdefault(log.parent, []).extend(found)
        return [each for each in lines.values() if each]

    def sort(self, maps=4, reduces=1, settings=(), rows=ROWS):
        job = self.cluster.terasort(rows, maps, reduces, settings=settings)
        self.cluster.check_sorted(rows)
        return self.paths(job)

    def assert_only(self, counted, *names):
        self.assertEqual(set(counted), set(names))

    def assert_same(self, expected, output, parts):
        self.assertEqual(len(list(expected.glob("part-r-*"))), parts)
        for part in expected.glob("part-r-*"):
            self.assertTrue(filecmp.cmp(part, output / part.name, shallow=False), str(output / part.name))


class OneHost(Lab):
    def test_one_two_and_four_reducers_sort_as_hadoops_shuffle_does(self):
        rows = 200_000
        output = self.cluster.work / "out"
        stock = self.cluster.work / "out-stock"
        for reduces in [1, 2, 4]:
            self.cluster.terasort(rows, reduces=reduces, plugin=False)
            shutil.rmtree(stock, ignore_errors=True)
            output.rename(stock)
            self.assert_only(self.sort(reduces=reduces, rows=rows), "LOCAL_BYTES", "IN_PLACE_BYTES")
            self.assert_same(stock, output, reduces)
            self.cluster.validate(rows)

    def test_compressed_outputs_are_merged_in_place(self):
        for codec in ["DefaultCodec", "GzipCodec", "SnappyCodec", "Lz4Codec", "BZip2Codec"]:
            counted = self.sort(rows=200_000, settings=[*COMPRESSED, f"-Dmapreduce.map.output.compress.codec={CODECS}{codec}"])
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

    def text(self, words):
        """50,000 lines with words from a vocabulary of this size."""
        text = self.cluster.work / f"text-{words}"
        choose = random.Random(1)
        lines = (" ".join(f"word{choose.randrange(words)}" for _ in range(10)) for _ in range(50_000))
        text.write_text("\n".join(lines), encoding="ascii")
        return text

    def count_words(self, words, *settings):
        """Returns the output and the job."""
        output = self.cluster.work / f"counted-{time.monotonic_ns()}"
        job = self.cluster.job(WORD_COUNT, "-Dmapreduce.job.reduces=4", "-Dmapreduce.input.fileinputformat.split.maxsize=1000000",
                               *settings, self.text(words), output)
        return output, job

    def test_word_count_with_its_combiner_and_empty_partitions(self):
        for words in [5000, 2]:
            expected, _ = self.count_words(words)
            for settings in [[PLUGIN], [PLUGIN, "-Dmapreduce.reduce.shuffle.ripc.local=false"]]:
                output, job = self.count_words(words, *settings)
                self.paths(job)
                self.assert_same(expected, output, 4)

    def test_a_partitioner_that_leaves_partitions_empty(self):
        """The partitioner goes by the first letter, which all words share."""
        partitioner = ["-Dmapreduce.job.partitioner.class=org.apache.hadoop.mapreduce.lib.partition.BinaryPartitioner",
                       f"-D{PARTITION}left.offset=0", f"-D{PARTITION}right.offset=0"]
        expected, _ = self.count_words(100, *partitioner)
        self.assertEqual(sum(part.stat().st_size > 0 for part in expected.glob("part-r-*")), 1)
        for settings, names in [([], ["LOCAL_BYTES", "IN_PLACE_BYTES"]), (["-Dmapreduce.reduce.shuffle.ripc.local=false"], ["SHM_BYTES"])]:
            output, job = self.count_words(100, PLUGIN, *partitioner, *settings)
            self.assert_only(self.paths(job), *names)
            self.assert_same(expected, output, 4)

    def test_the_local_job_runner_keeps_hadoops_shuffle(self):
        expected, _ = self.count_words(100)
        output, _ = self.count_words(100, PLUGIN, "-Dmapreduce.framework.name=local")
        self.assert_same(expected, output, 4)
        log = self.cluster.log("job.log")
        self.assertIn("Running job: job_local", log)
        self.assertIn(f"Using ShuffleConsumerPlugin: {OUR_SHUFFLE}", log)

    def test_libripc_does_not_start_at_the_reducer(self):
        for setting in ["-Dmapreduce.reduce.env=RIPC_TRANSPORTS=none", "-Dmapreduce.reduce.java.opts=-Xmx1g -Dorg.libripc.library.path=/nowhere"]:
            counted = self.sort(rows=200_000, settings=["-Dmapreduce.reduce.shuffle.ripc.local=false", setting])
            self.assert_only(counted, "HTTP_BYTES", "FALLBACK_NO_SERVICE")
            self.assertEqual(counted["FALLBACK_NO_SERVICE"], 4, "each output once")

    def test_jobs_without_the_plugin_notice_nothing(self):
        job = self.cluster.terasort(ROWS, plugin=False)
        self.cluster.check_sorted(ROWS)
        self.assert_only(self.paths(job))


class FourHosts(Lab):
    """Two of them share a runtime directory, the fourth has Hadoop's own handler."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER, OUR_HANDLER, STOCK_HANDLER), "same_machine": 2}
    names = ["LOCAL_BYTES", "IN_PLACE_BYTES", "SHM_BYTES", "SOCKET_BYTES", "HTTP_BYTES", "FALLBACK_NO_SERVICE"]

    def served(self):
        return sum(self.cluster.metrics(host, "RipcShuffle").get("Bytes", 0) for host in self.cluster.hosts[:3])

    def test_files_shared_memory_sockets_and_http_in_one_job(self):
        before = self.served()
        job = self.cluster.terasort(ROWS, maps=16, reduces=4)
        self.cluster.check_sorted(ROWS)
        counted = self.paths(job)
        self.assert_only(counted, *self.names)
        self.assertGreaterEqual(self.served() - before, counted["SHM_BYTES"] + counted["SOCKET_BYTES"])
        reducers = self.told(job)
        self.assertEqual(len(reducers), 4)
        for lines in reducers:
            self.assertEqual(len(lines), len(set(lines)), f"once for each host and path: {lines}")
        paths = {line.rsplit(" ", 1)[1].removesuffix(":") for lines in reducers for line in lines}
        self.assertLessEqual({"LOCAL", "SHM", "SOCKET", "HTTP"}, paths)

    def test_compressed_outputs_by_all_paths(self):
        for codec in ["GzipCodec", "Lz4Codec"]:
            settings = [*COMPRESSED, f"-Dmapreduce.map.output.compress.codec={CODECS}{codec}"]
            self.assert_only(self.sort(maps=16, reduces=4, settings=settings), *self.names)

    def test_libripc_is_off_at_the_reducer(self):
        counted = self.sort(maps=12, settings=["-Dmapreduce.reduce.shuffle.ripc.remote=false"])
        self.assertGreater(counted["HTTP_BYTES"], 0)
        self.assertNotIn("SOCKET_BYTES", counted)


class SharedMemory(Lab):
    """Two NodeManagers with one runtime directory, as containers of one machine."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER), "same_machine": 2}

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
