#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C and C++ program in README.md and docs/ compiles without a warning, as a reader would type it, and runs."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("RIPC_BUILD_DIR", os.path.join(SOURCE, "build", "release"))
LIBRARIES = os.path.join(BUILD, "lib")
PATIENCE = 60
COMPILERS = {
    "c": [os.environ.get("CC", "cc"), "-std=c11", "-x", "c"],
    "cpp": [os.environ.get("CXX", "c++"), "-std=c++20", "-x", "c++"],
}

if not os.path.exists(os.path.join(LIBRARIES, "libripc.so")):
    print(f"skipped: {LIBRARIES}/libripc.so is not built")
    sys.exit(77)
with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
    if re.search(r"^RIPC_SANITIZE:\w+=.+$", cache.read(), re.MULTILINE):
        print("skipped: a library with sanitizers inside needs programs that have them, too")
        sys.exit(77)


def programs():
    """(file, line, language, text) of each block that says it is C or C++."""
    for path in [os.path.join(SOURCE, "README.md"), *sorted(glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"), recursive=True))]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for block in re.finditer(r"^```(c|cpp)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            yield os.path.relpath(path, SOURCE), text.count("\n", 0, block.start()) + 1, block[1], block[2]


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ripc-docs-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("RIPC_")}
        self.environment.update(RIPC_RUNTIME_DIR=self.folder, RIPC_MULTICAST="off", LD_LIBRARY_PATH=LIBRARIES)

    def test_each_compiles_and_runs(self):
        found = list(programs())
        self.assertEqual({language for path, _, language, _ in found if path == "README.md"}, {"c", "cpp"})
        for path, line, language, text in found:
            with self.subTest(f"{path}:{line}"):
                program = os.path.join(self.folder, "program")
                compiled = subprocess.run(
                    [*COMPILERS[language], "-Wall", "-Wextra", "-Werror", "-", "-x", "none",
                     "-I", os.path.join(SOURCE, "libripc", "include"), "-L", LIBRARIES, "-lripc", "-o", program],
                    input=text, text=True, capture_output=True, timeout=PATIENCE)
                self.assertEqual(compiled.returncode, 0, compiled.stderr)
                ran = subprocess.run([program], env=self.environment, text=True, capture_output=True, timeout=PATIENCE)
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                self.assertNotEqual(ran.stdout, "", "it says what it did")


if __name__ == "__main__":
    unittest.main()
