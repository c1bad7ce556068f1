# SPDX-License-Identifier: Apache-2.0
"""Two hosts on this machine, for benchmarks and tests: network namespaces that veth pairs join. Needs root, iproute2 and tc."""
import os
import subprocess

NAMES = [f"hosts{os.getpid()}-{end}" for end in "ab"]


def run(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def inside(host, *words):
    """Returns the words of the command line that runs a command on host 0 or 1."""
    return ["ip", "netns", "exec", NAMES[host], *words]


class Hosts:
    """Pair N has the interface railN on both hosts: 10.99.N.1 on host 0 and 10.99.N.2 on host 1. rates are in Mb/s; 0
    means unlimited. burst is tc's parameter: a pair queues it and 20 ms of the rate before it drops packets."""

    def __init__(self, rates, burst="64kb"):
        self.rates = rates
        self.burst = burst

    def __enter__(self):
        for name in NAMES:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for index, rate in enumerate(self.rates):
            device = f"rail{index}"
            run("ip", "link", "add", device, "netns", NAMES[0], "type", "veth", "peer", "name", device, "netns", NAMES[1])
            for end, name in enumerate(NAMES):
                run("ip", "-n", name, "address", "add", f"10.99.{index}.{end + 1}/24", "dev", device)
                run("ip", "-n", name, "link", "set", device, "up")
                if rate:
                    run("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit", "burst",
                        self.burst, "latency", "20ms")
        return self

    def __exit__(self, *_):
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
