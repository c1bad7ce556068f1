# SPDX-License-Identifier: Apache-2.0
"""Each environment variable that the library reads is documented for users, and kept away from the tests."""

import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ.get("RIPC_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("RIPC_BUILD_DIR", SOURCE / "build/release"))


def variables():
    texts = [path.read_text() for path in (SOURCE / "libripc/src").rglob("*.cpp")]
    return {name for text in texts for name in re.findall(r'\b(?:environment|read_\w+)\("(RIPC_[A-Z_]+)"', text)}


class Settings(unittest.TestCase):
    def expect_all_in(self, text):
        missing = [name for name in sorted(variables()) if not re.search(rf"\b{name}\b", text)]
        self.assertEqual(missing, [])

    def test_are_found_in_the_sources(self):
        self.assertLessEqual({"RIPC_RUNTIME_DIR", "RIPC_MULTICAST", "RIPC_SOCKET_PORTS"}, variables())

    def test_none_may_be_empty(self):
        table = (SOURCE / "libripc/src/capi/compose.cpp").read_text().split("kSettings{")[1].split("}")[0]
        self.assertEqual(variables(), set(re.findall(r"RIPC_[A-Z_]+", table)))

    def test_are_in_the_readme(self):
        settings = (SOURCE / "README.md").read_text().split("## Settings")[1].split("\n## ")[0]
        self.expect_all_in(settings)

    def test_are_in_the_help_of_the_command_line(self):
        program = BUILD / "bin/ripc"
        if not program.exists():
            self.skipTest(f"there is no {program}")
        self.expect_all_in(subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60).stdout)

    def test_do_not_reach_the_tests(self):
        text = (SOURCE / "cmake/RipcTests.cmake").read_text()
        unset = text.split("set(RIPC_USER_SETTINGS ")[1].split(")")[0].split()
        self.assertEqual(variables() - set(unset), {"RIPC_MULTICAST", "RIPC_NETWORK"}, "all tests set these")


if __name__ == "__main__":
    unittest.main()
