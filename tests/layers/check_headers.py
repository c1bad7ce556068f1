#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each header alone, without warnings: whoever includes it needs to include nothing before it.

    check_headers.py public|internal [--source ROOT] [--c-compiler CC] [--cxx-compiler CXX]

public: headers that end in .h as C11 and as C++11, .hpp as C++20, with nothing but libripc/include on the path.
internal: the headers in libripc/src, libripc/cli and resolver/, as C++20.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror"]


def jobs_for(kind, root, c_compiler, cxx_compiler):
    """(what, command, source text) for each compilation."""
    c11 = [c_compiler, "-x", "c", "-std=c11"]
    cxx11 = [cxx_compiler, "-x", "c++", "-std=c++11", "-Wnon-virtual-dtor"]
    cxx20 = [cxx_compiler, "-x", "c++", "-std=c++20", "-Wnon-virtual-dtor"]
    result = []

    def add(header, base, language, path):
        relative = header.relative_to(base).as_posix()
        command = language + WARNINGS + [f"-I{root / folder}" for folder in path] + ["-fsyntax-only", "-"]
        standard = [word for word in language if word.startswith("-std=")][0][5:]
        # Twice: the second time must add nothing.
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
                add(header, root / base, cxx20, path + ([base] if base == "libripc/cli" else []))
    return result


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

    jobs = jobs_for(arguments.kind, arguments.source.resolve(), arguments.c_compiler, arguments.cxx_compiler)
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as executor:
        for what, code, output in executor.map(run, jobs):
            if code != 0:
                failures += 1
                print(f"{what} does not compile alone:\n{output}")
    print(f"{arguments.kind} headers alone: {len(jobs)} compilations, {failures} failures")
    return 1 if failures or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
