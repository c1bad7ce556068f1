#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that libripc.so exports exactly what the C headers declare: all of their functions, and nothing else.

    check_exports.py --library libripc.so --headers FOLDER [--nm NM]
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path


def declared(folder):
    text = "".join(header.read_text(encoding="utf-8") for header in sorted(folder.glob("*.h")))
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return set(re.findall(r"\bRIPC_API\b[^;(]*?\b(ripc_\w+)\s*\(", text))


def exported(library, nm):
    done = subprocess.run([nm, "-D", "--defined-only", "--format=posix", str(library)],
                          capture_output=True, text=True, check=True)
    # A version may follow the name: ripc_send@@V.
    return {line.split()[0].split("@")[0] for line in done.stdout.splitlines() if line.strip()}


def main():
    parser = argparse.ArgumentParser(description="Checks the exported symbols of libripc.so.")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("--nm", default="nm")
    arguments = parser.parse_args()

    wanted, found = declared(arguments.headers), exported(arguments.library, arguments.nm)
    for name in sorted(found):
        if not name.startswith("ripc_"):
            print(f"{name}: exported, but it does not start with ripc_: see cmake/libripc.map")
    for name in sorted(found - wanted):
        if name.startswith("ripc_"):
            print(f"{name}: exported, but no C header declares it")
    for name in sorted(wanted - found):
        print(f"{name}: declared in a C header, but libripc.so does not export it")
    print(f"exports: {len(wanted)} functions in the C headers, {len(found)} symbols in {arguments.library.name}")
    return 0 if wanted and wanted == found else 1


if __name__ == "__main__":
    sys.exit(main())
