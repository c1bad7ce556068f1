# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/security.md that join two hosts with identities, as a reader would type them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RIPC = os.path.join(os.environ.get("RIPC_BUILD_DIR", os.path.join(SOURCE, "build", "release")), "bin", "ripc")
PATIENCE = 60

if not os.access(RIPC, os.X_OK):
    print(f"skipped: {RIPC} is not built (RIPC_BUILD_CLI)")
    sys.exit(77)

# Another home directory stands for the other host.
SSH = """#!/bin/sh
host=$1
shift
HOME=$HOSTS/$host exec "$@"
"""
SCP = """#!/bin/bash
target=${@: -1}
exec cp "${@:1:$#-1}" "$HOSTS/${target%%:*}/${target#*:}"
"""


def commands():
    """(host, command) of each line of the block."""
    with open(os.path.join(SOURCE, "docs", "security.md"), encoding="utf-8") as file:
        section = file.read().split("## Two hosts with identities\n")[1].split("\n## ")[0]
    return re.findall(r"^    (one|two)\$ (.+)$", section, re.MULTILINE)


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.hosts = tempfile.mkdtemp(prefix="ripc-docs-")
        self.addCleanup(shutil.rmtree, self.hosts, ignore_errors=True)
        for host in ("one", "two", "bin"):
            os.mkdir(os.path.join(self.hosts, host), 0o700)
        for name, text in (("ssh", SSH), ("scp", SCP)):
            path = os.path.join(self.hosts, "bin", name)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, 0o755)
        os.symlink(RIPC, os.path.join(self.hosts, "bin", "ripc"))

    def run_on(self, host, command):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("RIPC_", "XDG_"))}
        environment.update(HOME=os.path.join(self.hosts, host), HOSTS=self.hosts, RIPC_MULTICAST="off",
                           RIPC_RUNTIME_DIR=os.path.join(self.hosts, host + ".run"),
                           PATH=os.path.join(self.hosts, "bin") + os.pathsep + os.environ["PATH"])
        done = subprocess.run(["bash", "-c", command], env=environment, text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, f"{host}$ {command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_five_commands_make_each_host_a_member(self):
        self.assertEqual(len(commands()), 5)
        for host, command in commands():
            self.assertNotIn(";", command)
            self.run_on(host, command)
        for host, member in (("one", "shop"), ("two", "bank")):
            self.assertIn(f"This user's identity is {member}.", self.run_on(host, "ripc trust check"))
            self.assertIn(f"has 2 members; this context is {member}", self.run_on(host, "ripc doctor"))


if __name__ == "__main__":
    unittest.main()
