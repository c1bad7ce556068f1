#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small job on a real cluster: its map outputs are merged where they lie, and nothing goes over HTTP."""
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from hadoop_lab import Cluster, main  # noqa: E402

ROWS = 200_000


class SmallJob(unittest.TestCase):
    def test_terasort_merges_in_place(self):
        work = pathlib.Path(tempfile.gettempdir()) / "ripc-hadoop-lab/small"
        shutil.rmtree(work, ignore_errors=True)
        with Cluster(work) as cluster:
            job = cluster.terasort(ROWS, maps=4, reduces=2)
            cluster.check_sorted(ROWS)
            counters = cluster.counters(job)
            bytes_by_path = counters["RipcShuffle"]
            self.assertGreater(bytes_by_path["LOCAL_BYTES"], ROWS * 100)
            self.assertEqual(bytes_by_path["LOCAL_BYTES"], bytes_by_path["IN_PLACE_BYTES"])
            self.assertEqual(set(bytes_by_path), {"LOCAL_BYTES", "IN_PLACE_BYTES"}, "no other path, no fallback")
            framework = counters["org.apache.hadoop.mapreduce.TaskCounter"]
            self.assertEqual(framework["MERGED_MAP_OUTPUTS"], 8)
            self.assertEqual(framework["SPILLED_RECORDS"], ROWS, "those of the maps; reducers spill nothing")


if __name__ == "__main__":
    main()
