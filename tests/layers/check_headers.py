#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each header compiles alone, without warnings, so that users need to include nothing before it.

    check_headers.py public|internal [--source ROOT] [--c-compiler CC] [--cxx-compiler CXX]

public: headers that end in .h as C11 and as C++11, .hpp as C++20, with nothing but libripc/include on the path.
internal: the headers in libripc/src, libripc/cli and resolver/, as C++20. A header whose own source includes it before
anything else was compiled alone when that source was built, so only the others are compiled here.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror"]
FIRST_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def is_proven_by_source(header, name):
    """Whether the build compiles the header with nothing before it, and a second include adds nothing."""
    source = header.with_suffix(".cpp")
    if not source.exists():
        return False
    first = FIRST_INCLUDE.search(source.read_text(encoding="utf-8"))
    guarded = re.search(r"^#pragma once$", header.read_text(encoding="utf-8"), re.M)
    return first is not None and first.group(1) == name and guarded is not None


def jobs_for(kind, root, c_compiler, cxx_compiler):
    """(what, command, source text) for each compilation, and the number of headers that need none."""
    c11 = [c_compiler, "-x", "c", "-std=c11"]
    cxx11 = [cxx_compiler, "-x", "c++", "-std=c++11", "-Wnon-virtual-dtor"]
    cxx20 = [cxx_compiler, "-x", "c++", "-std=c++20", "-Wnon-virtual-dtor"]
    result, proven = [], 0

    def add(header, base, language, path):
        relative = header.relative_to(base).as_posix()
        command = language + WARNINGS + [f"-I{root / folder}" for folder in path] + ["-fsyntax-only", "-"]
        standard = [word for word in language if word.startswith("-std=")][0][5:]
        # Included twice: the second include must add nothing.
        result.append((f"{header.relative_to(root)} as {standard}", command, f'#include "{relative}"\n' * 2))

    if kind == "public":
        base = root / "libripc/include"
        for header in sorted(base.rglob("*.h")):
            add(header, base, c11, ["libripc/include"])
            add(header, base, cxx11, ["libripc/include"])
        for header in sorted(base.rglob("*.hpp")):
            add(header, base, cxx20, ["libripc/include"])
    else:
        path = ["libripc/include", "libripc/src", "."]
        for folder, base in [("libripc/src", "libripc/src"), ("resolver", "."), ("libripc/cli", "libripc/cli")]:
            for header in sorted((root / folder).rglob("*.hpp")):
                if is_proven_by_source(header, header.relative_to(root / base).as_posix()):
                    proven += 1
                else:
                    add(header, root / base, cxx20, path + ([base] if base == "libripc/cli" else []))
    return result, proven


def run(job):
    what, command, text = job
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    return what, done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description="Compiles each header alone.")
    parser.add_argument("kind", choices=["public", "internal"])
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--c-compiler", default=os.environ.get("CC", "cc"))
    parser.add_argument("--cxx-compiler", default=os.environ.get("CXX", "c++"))
    arguments = parser.parse_args()

    jobs, proven = jobs_for(arguments.kind, arguments.source.resolve(), arguments.c_compiler, arguments.cxx_compiler)
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as executor:
        for what, code, output in executor.map(run, jobs):
            if code != 0:
                failures += 1
                print(f"{what} does not compile alone:\n{output}")
    print(f"{arguments.kind} headers alone: {proven} first in their own source, {len(jobs)} compilations, "
          f"{failures} failures")
    return 1 if failures or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
