#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the C interface with its stored description, tests/package/ripc.abi: functions, structures, values of enums.
A change may break programs that were built before it, so only a new minor version may change the interface
(docs/deployment.md).

    check_abi.py --headers FOLDER [--compiler CC]             compares; exit code 77 without libabigail
    check_abi.py --headers FOLDER [--compiler CC] --update    stores the interface of the headers

The description comes from a library that has the headers' functions and nothing else. The internal types of libripc
concern nobody, and would make it a hundred times as large."""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STORED = Path(__file__).resolve().parent / "ripc.abi"


def make_library(folder, compiler, work):
    text = "".join(header.read_text(encoding="utf-8") for header in sorted(folder.glob("ripc/*.h")))
    text = re.sub(r"/\*.*?\*/|^\s*#[^\n]*(\\\n[^\n]*)*", " ", text, flags=re.S | re.M)
    functions = re.findall(r"\bRIPC_API\b([^;{]*\));", text)
    # Types that no function names: in the calls, kinds and flags are numbers, and records are bytes.
    functions += [f"void takes_{name}({name} *value)" for name in re.findall(r"typedef (?:enum|struct) (\w+) \{", text)]
    source, library = work / "stub.c", work / "libripc.so"
    bodies = "".join(f"{declaration} {{ __builtin_trap(); }}\n" for declaration in functions)
    includes = "".join(f'#include "ripc/{header.name}"\n' for header in sorted(folder.glob("ripc/*.h")))
    source.write_text(includes + bodies, encoding="utf-8")
    subprocess.run([compiler, "-g", "-shared", "-fPIC", f"-I{folder}", str(source), "-o", str(library)], check=True)
    return library


def main():
    parser = argparse.ArgumentParser(description="Compares the C interface with its stored description.")
    parser.add_argument("--headers", type=Path, required=True, help="the folder that has ripc/ripc.h")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--update", action="store_true", help="store the interface instead")
    arguments = parser.parse_args()
    if platform.machine() != "x86_64":
        print(f"{STORED.name} is of x86_64; this is {platform.machine()}")
        return 77
    if shutil.which("abidiff") is None:
        print("libabigail is not installed: apt-get install abigail-tools")
        return 77
    with tempfile.TemporaryDirectory() as work:
        library = make_library(arguments.headers.resolve(), arguments.compiler, Path(work))
        if arguments.update:
            subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed",
                            "--out-file", str(STORED), str(library)], check=True)
            return 0
        done = subprocess.run(["abidiff", "--no-show-locs", str(STORED), str(library)], check=False)
    if done.returncode == 0:
        print(f"abi: the C interface is as {STORED.name} has it")
        return 0
    print(f"The C interface is not what {STORED.name} says. If that is meant, raise RIPC_VERSION_MINOR unless the last "
          f"release has another one, tell CHANGELOG.md, and run check_abi.py --update.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
