#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include arrows of libripc: a file includes only its own room and the rooms below it.

    check_includes.py [ROOT]       checks the tree at ROOT (default: the tree this script lies in)
    check_includes.py --self-test  checks the checker on samples that it writes to a temporary folder

A room is a folder. Every include of a file of this project is looked up the way the compiler does it (next to the
file, libripc/include, libripc/src, the root; for the command line also libripc/cli) and must be allowed by ROOMS
below. Exit code 1 and one line per finding, FILE:LINE: what is wrong, what the including room may see, and who may
see the included one.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

# Room: (folder, other rooms that it may include). A folder that ends in "/*" makes one room of each folder in it; these
# rooms may not include each other. "all" stands for every room in LIBRARY.
ROOMS = {
    "public": ("libripc/include/ripc", []),
    "base": ("libripc/src/base", ["public C"]),
    "wire": ("libripc/src/wire", ["base", "public C"]),
    "memory": ("libripc/src/memory", ["base", "public C"]),
    "security": ("libripc/src/security", ["base", "public C"]),
    "spi": ("libripc/src/spi", ["wire", "memory", "security", "base", "public C"]),
    "remote": ("libripc/src/remote", ["spi", "wire", "memory", "security", "base", "public C"]),
    "transport": ("libripc/src/transport/*", ["remote", "spi", "wire", "memory", "security", "base", "public C"]),
    "core state": ("libripc/src/core/state", ["spi", "wire", "memory", "security", "base", "public C"]),
    "core protocol": ("libripc/src/core/protocol", ["core state", "spi", "wire", "memory", "base", "public C"]),
    "core path": ("libripc/src/core/path", ["core state", "spi", "wire", "memory", "base", "public C"]),
    "core send": ("libripc/src/core/send",
                  ["core path", "core protocol", "core state", "spi", "wire", "memory", "base", "public C"]),
    "core receive": ("libripc/src/core/receive",
                     ["core protocol", "core state", "spi", "wire", "memory", "base", "public C"]),
    "core": ("libripc/src/core", ["core send", "core receive", "core path", "core protocol", "core state",
                                  "spi", "wire", "memory", "base", "public C"]),
    "rpc": ("libripc/src/rpc", ["core", "core protocol", "core state", "wire", "base", "public C"]),
    "resolver": ("resolver/*", ["spi", "wire", "security", "base", "public C"]),
    "capi": ("libripc/src/capi", ["all"]),
    "cli": ("libripc/cli", ["public"]),
    "examples": ("examples", ["public"]),
    "test support": ("tests/support", ["public C"]),
    "conformance tests": ("tests/conformance", ["public", "test support"]),
    "package tests": ("tests/package", ["public"]),
    "unit tests": ("tests/unit", ["all", "public", "cli", "examples", "test support"]),
    "fault tests": ("tests/fault", ["all", "public", "test support"]),
    "zookeeper tests": ("tests/zookeeper", ["all", "public", "test support"]),
    "fuzz tests": ("tests/fuzz", ["all", "public", "cli"]),
    "bench tests": ("tests/bench", ["all", "public", "examples", "test support"]),
}
# "public" is any public header, "public C" the C headers only: the C++ wrapper lies above the C interface.
C_HEADERS = "libripc/include/ripc/*.h"
LIBRARY = ["public C", "base", "wire", "memory", "security", "spi", "remote", "transport", "core state", "core protocol",
           "core path", "core send", "core receive", "core", "rpc", "resolver", "capi"]
# Every source below these folders must lie in a room; in the others only the rooms are looked at.
WITHOUT_GAPS = ["libripc", "resolver"]
INCLUDE_PATH = ["libripc/include", "libripc/src", "", "tests"]
# Rooms whose own folder is on the include path too.
OWN_INCLUDE_PATH = ["libripc/cli"]
SOURCE_SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".inc", ".ipp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def expand(names):
    """The rooms that a list of names stands for."""
    result = []
    for name in names:
        result += LIBRARY if name == "all" else [name]
    return result


def room_of(path):
    """(room, instance) of a path relative to the root, or None. The instance tells siblings of a "/*" room apart."""
    for room, (folder, _) in ROOMS.items():
        if folder.endswith("/*"):
            base = folder[:-2] + "/"
            rest = path[len(base):] if path.startswith(base) else ""
            if "/" in rest:
                return room, base + rest.split("/")[0]
        elif path.startswith(folder + "/"):
            return room, folder
    return None


def label(room, instance):
    return f"{room} {instance.rsplit('/', 1)[1]}" if ROOMS[room][0].endswith("/*") else room


def strip_comments(text):
    """The text without /* */ comments; line numbers stay."""
    return re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.S)


def source_files(root):
    folders = {folder.split("/")[0] if folder.split("/")[0] in WITHOUT_GAPS else folder for folder, _ in ROOMS.values()}
    for folder in sorted(folders):
        for directory, subfolders, names in os.walk(root / folder):
            subfolders.sort()
            for name in sorted(names):
                if Path(name).suffix in SOURCE_SUFFIXES:
                    yield (Path(directory) / name).relative_to(root).as_posix()


def resolve(root, path, included, quoted):
    """The included file relative to the root, or None if it is not a file of this project."""
    places = [Path(path).parent.as_posix()] if quoted else []
    places += [folder for folder in OWN_INCLUDE_PATH if path.startswith(folder + "/")]
    for place in places + INCLUDE_PATH:
        candidate = os.path.normpath(os.path.join(place, included))
        if not candidate.startswith("..") and (root / candidate).is_file():
            return candidate
    return None


def who_may_see(room):
    names = [other for other, (_, allowed) in ROOMS.items()
             if room in expand(allowed) or (room == "public" and "public C" in expand(allowed))]
    return ", ".join(names) if names else "nobody else"


def check_include(path, target):
    """None, or what is wrong with including target from path."""
    source_room = room_of(path)
    target_room = room_of(target)
    if source_room == target_room:
        return None
    allowed = expand(ROOMS[source_room[0]][1])
    if target_room is None:
        return f"includes {target}, which lies in no room that tests/layers/check_includes.py knows"
    room = target_room[0]
    if room in allowed:
        return None
    if room == "public" and "public C" in allowed:
        if target.endswith(".h"):
            return None
        return (f"{label(*source_room)} must not include {target}: of the public headers the library itself sees "
                f"{C_HEADERS} only")
    if room == source_room[0]:
        return f"{label(*source_room)} must not include its sibling {label(*target_room)} ({target})"
    sees = ", ".join(ROOMS[source_room[0]][1]) or "nothing but itself"
    return (f"{label(*source_room)} must not include {label(*target_room)} ({target}): {source_room[0]} may see {sees}; "
            f"{room} may be seen by {who_may_see(room)}")


def find_cycles(graph):
    """Include cycles, each as the list of its files; each cycle is found once."""
    cycles, state, stack = [], {}, []

    def visit(node):
        state[node] = 1
        stack.append(node)
        for target in graph.get(node, []):
            if state.get(target) == 1:
                cycles.append(stack[stack.index(target):] + [target])
            elif target not in state:
                visit(target)
        stack.pop()
        state[node] = 2

    for node in sorted(graph):
        if node not in state:
            visit(node)
    return cycles


def check(root):
    """(findings, number of files)"""
    findings, graph, count = [], {}, 0
    for path in source_files(root):
        count += 1
        if room_of(path) is None:
            findings.append(f"{path}:1: lies in no room: move it, or add its folder to tests/layers/check_includes.py")
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(strip_comments(text).split("\n"), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, name = match.group(1) is not None, match.group(1) or match.group(2)
            if ".." in name.split("/") and path.split("/")[0] in WITHOUT_GAPS:
                findings.append(f"{path}:{number}: {name}: name the file from an include folder, without ..")
            target = resolve(root, path, name, quoted)
            if target is None:
                if quoted:
                    findings.append(f'{path}:{number}: "{name}" is no file of this project: it is missing, or it is '
                                    f"a system header, which takes <>")
                continue
            graph.setdefault(path, []).append(target)
            problem = check_include(path, target)
            if problem:
                findings.append(f"{path}:{number}: {problem}")
    for cycle in find_cycles(graph):
        findings.append(f"{cycle[0]}:1: include cycle: {' -> '.join(cycle)}")
    return findings, count


# Path, content, and words of the one finding about it; None if there must be no finding.
SELF_TEST = [
    ("libripc/include/ripc/ripc.h", "#include <stdint.h>\n", None),
    ("libripc/include/ripc/ripc.hpp", "#include <ripc/ripc.h>\n", None),
    ("libripc/src/base/good.hpp", '#include "ripc/ripc.h"\n', None),
    ("libripc/src/base/wrapper.hpp", '#include "ripc/ripc.hpp"\n', "*.h only"),
    ("libripc/src/base/upwards.hpp", '\n#include "wire/good.hpp"\n', "base must not include wire"),
    ("libripc/src/wire/good.hpp", '#include "base/good.hpp"\n', None),
    ("libripc/src/wire/sideways.hpp", '#include "memory/good.hpp"\n', "wire must not include memory"),
    ("libripc/src/memory/good.hpp", '#include "base/good.hpp"\n', None),
    ("libripc/src/spi/good.hpp", '#include "memory/good.hpp"\n#include "wire/good.hpp"\n', None),
    ("libripc/src/transport/shm/good.cpp", '#include "transport/shm/own.hpp"\n#include "spi/good.hpp"\n', None),
    ("libripc/src/transport/shm/own.hpp", "", None),
    ("libripc/src/transport/socket/sibling.cpp", '#include "transport/shm/own.hpp"\n', "sibling transport shm"),
    ("libripc/src/transport/socket/core.cpp", '#include "core/good.hpp"\n', "core may be seen by rpc, capi, unit tests"),
    ("libripc/src/transport/stray.hpp", "", "lies in no room"),
    ("libripc/src/core/good.hpp", '#include "spi/good.hpp"\n', None),
    ("libripc/src/core/transport.cpp", '// why\n#include "transport/shm/own.hpp"\n', "core must not include transport"),
    ("libripc/src/core/resolver.cpp", '#include "resolver/local/good.hpp"\n', "core must not include resolver local"),
    ("libripc/src/core/beside.cpp", '#include "good.hpp"\n', None),
    ("libripc/src/core/missing.cpp", '#include "core/gone.hpp"\n', "is missing"),
    ("libripc/src/core/dots.cpp", '#include "../core/good.hpp"\n', "without .."),
    ("libripc/src/core/comment.cpp", '// #include "transport/shm/own.hpp"\n/*\n#include "capi/all.hpp"\n*/\n', None),
    ("libripc/src/core/one.hpp", '#include "core/two.hpp"\n', "include cycle"),
    ("libripc/src/core/two.hpp", '#include "core/one.hpp"\n', None),
    ("libripc/src/capi/all.hpp", '#include "transport/shm/own.hpp"\n#include "resolver/local/good.hpp"\n', None),
    ("resolver/local/good.hpp", '#include "spi/good.hpp"\n#include "base/good.hpp"\n', None),
    ("resolver/static/sibling.cpp", '#include "resolver/local/good.hpp"\n', "sibling resolver local"),
    ("resolver/static/memory.cpp", '#include "memory/good.hpp"\n', "resolver static must not include memory"),
    ("libripc/cli/good.cpp", '#include "ripc/ripc.hpp"\n', None),
    ("libripc/cli/file/own.cpp", '#include "command.hpp"\n', None),
    ("libripc/cli/command.hpp", "", None),
    ("libripc/cli/internal.cpp", '#include "base/good.hpp"\n', "cli must not include base"),
    ("examples/internal.c", '#include "libripc/src/base/good.hpp"\n', "examples must not include base"),
    ("tests/conformance/internal.cpp", '#include <core/good.hpp>\n', "conformance tests must not include core"),
    ("tests/unit/good_test.cpp", '#include <gtest/gtest.h>\n#include "core/good.hpp"\n#include "ripc/ripc.hpp"\n', None),
]


def self_test():
    with tempfile.TemporaryDirectory(prefix="libripc-layers-") as folder:
        root = Path(folder)
        for path, content, _ in SELF_TEST:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        findings, count = check(root)
    failures = []
    if count != len(SELF_TEST):
        failures.append(f"looked at {count} files instead of {len(SELF_TEST)}")
    for path, content, words in SELF_TEST:
        about = [finding for finding in findings if finding.startswith(path + ":")]
        if words is None and about:
            failures.append(f"{path} is good, but: {about}")
        if words is not None and (len(about) != 1 or words not in about[0]):
            failures.append(f"{path} should give one finding with '{words}', but: {about}")
    line = [finding for finding in findings if finding.startswith("libripc/src/core/transport.cpp:2:")]
    if not line:
        failures.append("the line number of core/transport.cpp is wrong")
    for failure in failures:
        print(f"self-test: {failure}")
    print(f"self-test of the include check: {len(SELF_TEST)} samples, {len(failures)} failures")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Checks the include arrows of libripc.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    findings, count = check(arguments.root.resolve())
    for finding in findings:
        print(finding)
    print(f"include arrows: {count} files, {len(findings)} findings")
    if count == 0:
        print(f"no sources found below {arguments.root}")
        return 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
