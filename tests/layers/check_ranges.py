#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no loop goes through what a temporary pointer points to. In `for (auto& one : *list())`, the pointer that
list() returns is destroyed before the first round, with what it owns. The cure is to hold the pointer in a variable.

    check_ranges.py [ROOT]    checks the tree at ROOT (default: the tree this script lies in), and itself on samples

Exit code 1 and one line per finding, FILE:LINE: the loop. No compiler or lint of Debian 12 finds these."""

import re
import sys
from pathlib import Path

FOLDERS = ["libripc", "resolver", "examples", "java", "tests"]
SUFFIXES = {".hpp", ".cpp"}
# The range begins with a star and ends with a call, whatever is between.
LOOP = re.compile(r"\bfor\s*\([^;{}]*?[^:]:(?!:)\s*\*[^;{}]*?\w\([^;{}]*?\)\s*\)\s*[\w{(+\-*]")

SAMPLES = {
    "for (const auto& one : *members()) use(one);": True,
    "for (auto& [key, one] : *table_.snapshot(key, 3)) {": True,
    "for (const auto& one : *this->groups_->list()) {": True,
    "for (const auto& one : *members) use(one());": False,
    "for (const auto& one : list()) use(*one);": False,
    "for (std::size_t index = 0; index < *limit(); ++index) {": False,
    "for (const std::string& one : list) use(*one);": False,
}


def findings(text):
    return [text.count("\n", 0, match.start()) + 1 for match in LOOP.finditer(text)]


def main():
    wrong = [sample for sample, expected in SAMPLES.items() if bool(findings(sample)) != expected]
    for sample in wrong:
        print(f"check_ranges.py judges this wrongly: {sample}")
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent.parent
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    found = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for line in findings(text):
            found += 1
            print(f"{path.relative_to(root)}:{line}: {lines[line - 1].strip()}: hold what the call returns in a variable")
    print(f"{len(paths)} files, {found} loops over what a temporary points to")
    return 1 if wrong or found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
