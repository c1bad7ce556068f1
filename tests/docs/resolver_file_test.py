# SPDX-License-Identifier: Apache-2.0
"""The library reads the file of known services that docs/deployment.md shows."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("RIPC_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("RIPC_BUILD_DIR", SOURCE / "build/release"))
RIPC = BUILD / "bin/ripc"
TITLE = "A file of known services"

if not RIPC.exists():
    print(f"skipped: there is no {RIPC}")
    sys.exit(77)


class ResolverFile(unittest.TestCase):
    def setUp(self):
        page = (SOURCE / "docs/deployment.md").read_text()
        self.example = re.search(rf"^## {TITLE}$.*?^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
        folder = tempfile.TemporaryDirectory(prefix="ripc-docs-")
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "known"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("RIPC_")}
        self.environment.update(RIPC_RUNTIME_DIR=folder.name, RIPC_MULTICAST="off", RIPC_RESOLVER_FILE=str(self.file),
                                XDG_CONFIG_HOME=folder.name)

    def services(self, text):
        self.file.write_text(text)
        return subprocess.run([RIPC, "services"], env=self.environment, capture_output=True, text=True, timeout=60)

    def test_the_example_is_read(self):
        done = self.services(self.example)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_mistake_in_it_would_be_told(self):
        for line in self.example.splitlines()[1:]:
            with self.subTest(line):
                done = self.services(self.example + line + "\n")
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"line {len(self.example.splitlines()) + 1}", done.stderr)

    def test_the_pages_that_name_the_variable_lead_to_it(self):
        for page, link in (("README.md", "docs/deployment.md"), ("docs/tuning.md", "deployment.md"), ("docs/deployment.md", "")):
            self.assertIn(f"({link}#{TITLE.lower().replace(' ', '-')})", (SOURCE / page).read_text())


if __name__ == "__main__":
    unittest.main()
