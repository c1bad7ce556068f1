#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults during a shuffle on real clusters, by name: each takes a minute or more, and the output must be right.

  tests/hadoop-lab/faults.py                      all of them
  tests/hadoop-lab/faults.py Faults.test_a_damaged_output_is_made_again
"""
import os
import pathlib
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
from hadoop_lab import OUR_HANDLER, TERA, main  # noqa: E402
from jobs import ROWS, Lab  # noqa: E402


class SlowNetwork(Lab):
    """A slow network, so that there is time for faults during the shuffle."""
    options = {"handlers": (OUR_HANDLER, OUR_HANDLER), "rate": "30mbit"}
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
        """Waits for a host whose NodeManager has begun to send bytes, and returns it."""
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

    def tasks(self, kind):
        """The processes of tasks of this kind, "m" or "r"."""
        return [int(each.parent.name) for each in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if re.search(rb"YarnChild\0.*attempt_\d+_\d+_%b_" % kind.encode(), read(each))]

    def lost_attempts(self, kind):
        job = self.cluster.history(self.cluster.job_id("terasort.log"), "")["job"]
        return job[f"failed{kind}Attempts"] + job[f"killed{kind}Attempts"]


class Faults(SlowNetwork):
    options = {**SlowNetwork.options, "node_settings": {"yarn.nodemanager.recovery.enabled": "true"}}

    def test_a_killed_node_manager_comes_back(self):
        """In mid-shuffle. With recovery its outputs and tokens are there again, and libripc serves them."""
        # HTTP does not wait for the NodeManager, and the master does not run maps again for that. Hadoop's reducer may
        # give up: its next attempt then asks the restarted NodeManager.
        running = self.start(8, ["-Dmapreduce.reduce.shuffle.ripc.retry.ms=1000", "-Dmapreduce.reduce.shuffle.connect.timeout=1000",
                                 "-Dmapreduce.reduce.shuffle.fetch.retry.enabled=false",
                                 "-Dmapreduce.reduce.shuffle.max-fetch-failures-notifications=1000"])
        host = self.until_served()
        self.cluster.kill_node(host)
        self.cluster.start_node(host)
        self.cluster.until(60, "bytes over libripc after the restart", lambda: self.bytes_of(host) > 0)
        self.finish(running)
        self.assertEqual(self.lost_attempts("Map"), 0)

    def test_a_killed_reducer_is_started_again(self):
        running = self.start(8)
        self.until_served()
        reducers = self.tasks("r")
        self.assertEqual(len(reducers), 1)
        os.kill(reducers[0], signal.SIGKILL)
        self.finish(running)
        self.assertEqual(self.lost_attempts("Reduce"), 1)

    def first_output(self):
        """Returns the first output of this test's job, once its map has ended: two maps run at once."""
        self.cluster.until(120, "map outputs", lambda: self.outputs(5) - self.old)
        return (self.outputs(0) - self.old).pop()

    def check_reported(self):
        framework = self.cluster.counters(self.cluster.job_id("terasort.log"))["org.apache.hadoop.mapreduce.TaskCounter"]
        self.assertGreater(framework["FAILED_SHUFFLE"], 0, "HTTP has reported it")

    def test_a_damaged_output_is_made_again(self):
        running = self.start(8)
        damage(self.first_output())
        counted = self.finish(running)
        self.assertGreater(counted.get("FALLBACK_CHECKSUM", 0), 0)
        self.check_reported()

    def test_a_lost_output_is_made_again(self):
        # HTTP reports every failure instead of every tenth, and there is time between them: Hadoop's reducer gives up
        # after as many failures as it has outputs, and the map runs again after three.
        running = self.start(8, ["-Dmapreduce.reduce.shuffle.maxfetchfailures=1", "-Dmapreduce.reduce.shuffle.retry-delay.max.ms=3000"])
        shutil.rmtree(self.first_output().parent)
        counted = self.finish(running)
        self.assertGreater(counted.get("FALLBACK_NOT_THERE", 0), 0)
        self.check_reported()

    def hosts_in_place(self):
        """Returns the hosts whose outputs a reducer has checked and left in place, each with a container's folder."""
        found = set()
        for log in (self.cluster.work / "logs").glob("node*-containers/*/*/syslog"):
            text = read(log) + read(log.with_name("syslog.shuffle"))
            for host in self.cluster.hosts:
                name = host.name.encode()
                if re.search(name + rb":\d+ come over LOCAL", text) and re.search(name + rb":\d+ freed by fetcher", text):
                    found.add((host, log.parent))
        return found

    def start_until_in_place(self):
        """Returns the job, and the outputs that its reducer has checked but not merged yet: the reducer still waits for
        those of the other host."""
        maps = range(8)
        old = set().union(*map(self.outputs, maps))
        before = self.hosts_in_place()
        running = self.start(len(maps))
        self.cluster.until(120, "outputs in place", lambda: self.hosts_in_place() - before)
        host, _ = (self.hosts_in_place() - before).pop()
        return running, {data for data in set().union(*map(self.outputs, maps)) - old if host.folder in data.parents}

    def test_outputs_that_are_lost_before_their_merge_are_merged(self):
        """The result is the same as with Hadoop's shuffle, which has copies: the reducer has the outputs open."""
        running, outputs = self.start_until_in_place()
        for output in outputs:
            shutil.rmtree(output.parent)
        self.finish(running)
        self.assertEqual([self.lost_attempts(kind) for kind in ["Reduce", "Map"]], [0, 0])

    def test_an_output_that_is_damaged_before_its_merge_is_made_again(self):
        running, outputs = self.start_until_in_place()
        damage(outputs.pop())
        self.finish(running)
        self.assertGreaterEqual(self.lost_attempts("Reduce"), 1, "the merge has failed")
        self.assertGreaterEqual(self.lost_attempts("Map"), 1, "and HTTP has reported the output")

    def test_a_cut_link_heals(self):
        running = self.start(8)
        self.until_served()
        first, second = self.cluster.hosts
        first.run("ip", "link", "set", second.name, "down")
        time.sleep(10)  # the fault itself
        first.run("ip", "link", "set", second.name, "up")
        self.assertGreater(self.finish(running)["FALLBACK_FAILED"], 0, "it was noticed")


class WithoutRecovery(SlowNetwork):
    def test_a_killed_node_manager_comes_back_with_nothing(self):
        """The NodeManager's outputs are gone, so maps run again."""
        # Only HTTP tells the master, and must do so before Hadoop's reducer gives up: at the second failure, if it has
        # half of all outputs.
        running = self.start(8, ["-Dmapreduce.reduce.shuffle.maxfetchfailures=1", "-Dmapreduce.reduce.shuffle.retry-delay.max.ms=60000",
                                 "-Dmapreduce.reduce.shuffle.max-fetch-failures-notifications=1"])
        host = self.until_served()
        self.cluster.kill_node(host)
        self.cluster.end_containers(host)
        shutil.rmtree(host.folder / "local")
        self.cluster.start_node(host)
        self.finish(running)
        self.assertGreaterEqual(self.lost_attempts("Map"), 1)


class Speculation(SlowNetwork):
    """Another attempt of the same task overtakes one that stands still."""
    settings = ["-Dmapreduce.map.speculative=true", "-Dmapreduce.reduce.speculative=true",
                "-Dmapreduce.job.speculative.speculative-cap-running-tasks=1.0", "-Dmapreduce.job.speculative.minimum-allowed-tasks=10",
                "-Dmapreduce.job.speculative.retry-after-no-speculate=500", "-Dmapreduce.job.speculative.retry-after-speculate=500",
                "-Dyarn.app.mapreduce.am.job.task.estimator.class=org.apache.hadoop.mapreduce.v2.app.speculate.LegacyTaskRuntimeEstimator"]

    def test_a_stopped_map_is_overtaken(self):
        running = self.start(8, self.settings)
        self.cluster.until(120, "map outputs", lambda: self.outputs(5) - self.old)
        running_maps = []
        self.cluster.until(60, "one more map", lambda: running_maps.extend(self.tasks("m")) or running_maps)
        os.kill(running_maps[0], signal.SIGSTOP)
        self.finish(running)
        self.assertGreaterEqual(self.lost_attempts("Map"), 1)


class FullDisk(SlowNetwork):
    """Large outputs go to the reducer's disk, which is full for a while."""
    options = {**SlowNetwork.options, "disk_size": "300m",
               "node_settings": {"yarn.nodemanager.disk-health-checker.enable": "false"}}

    def test_the_reducer_is_started_again(self):
        running = self.start(8, ["-Dmapreduce.reduce.shuffle.memory.limit.percent=0.005", "-Dmapreduce.reduce.maxattempts=10"])
        pieces = "local/*/usercache/*/appcache/*/output/*_r_*/map_*.out*"
        self.cluster.until(120, "outputs on the reducer's disk", lambda: any(any(host.folder.glob(pieces)) for host in self.cluster.hosts))
        fillers = [host.folder / "local/filler" for host in self.cluster.hosts]
        for filler in fillers:
            with open(filler, "wb") as file:
                try:
                    while True:
                        file.write(bytes(1 << 20))
                        file.flush()
                except OSError:
                    pass
        logs = self.cluster.work / "logs"
        self.cluster.until(120, "reducer without room", lambda: any(
            re.search(rb"No space left|valid local directory", read(log)) for log in logs.glob("node*-containers/*/*/syslog*")))
        for filler in fillers:
            filler.unlink()
        self.finish(running)
        self.assertGreaterEqual(self.lost_attempts("Reduce"), 1)


def damage(data):
    with open(data, "r+b") as file:
        file.seek(data.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def read(file):
    try:
        return file.read_bytes()
    except OSError:  # the process has ended
        return b""


if __name__ == "__main__":
    main()
