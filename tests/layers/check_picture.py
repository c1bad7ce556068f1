#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/architecture.md draws the layers as check_includes.py enforces them.

    check_picture.py [ROOT]       checks the document of the tree at ROOT (default: the tree this script lies in)
    check_picture.py --print      prints the picture that the document must have
    check_picture.py --self-test  checks the checker on samples

The document has one fenced block whose language is "layers". It is made from ROOMS of check_includes.py: the rows draw
each folder above all that it includes, and the list below them says what each folder includes. To change the picture,
change ROOMS and paste what --print says. Exit code 1 and one line per finding, FILE:LINE: what is wrong.
"""

import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import check_includes  # noqa: E402

DOCUMENT = "docs/architecture.md"
# Users of the library that the picture draws; ROOMS also has the tests.
USERS = ["cli", "examples"]
ROWS_TITLE = "each row may include rows below it, as the list says"
BLOCK = re.compile(r"^```layers[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)


def drawn(rooms):
    """The rooms in the picture: those of the library, with the public headers below and its users above."""
    library = [room for room in check_includes.LIBRARY if room in rooms and room != "public C"]
    return ["public"] + library + [room for room in USERS if room in rooms]


def included_by(room, rooms, library=None):
    """The rooms that a room includes, without the C header, which every room of the library sees."""
    library = library or [name for name in check_includes.LIBRARY if name in rooms]
    names = []
    for name in rooms[room][1]:
        names += library if name == "all" else [name]
    return [name for name in names if name not in ("public C", room)]


def levels(rooms):
    """Room -> how many rows are below it. ValueError if rooms include each other in a circle."""
    found, visiting = {}, []

    def level(room):
        if room in found:
            return found[room]
        if room in visiting:
            raise ValueError("rooms include each other: " + " -> ".join(visiting[visiting.index(room):] + [room]))
        visiting.append(room)
        below = [level(other) for other in included_by(room, rooms)]
        visiting.pop()
        # The public headers are at the bottom for code that implements them, and at the top for code that uses them.
        found[room] = 0 if room == "public" else 1 + max(below, default=0)
        return found[room]

    for room in drawn(rooms):
        level(room)
    top = 1 + max(found[room] for room in found if room not in USERS)
    found.update({room: top for room in USERS if room in rooms})
    return found


def short_name(room, rooms):
    """The folder as the picture writes it."""
    folder = "ripc.h" if room == "public" else rooms[room][0]
    return folder[len("libripc/src/"):] if folder.startswith("libripc/src/") else folder


def picture(rooms=None):
    """The lines of the block."""
    rooms = rooms or check_includes.ROOMS
    level = levels(rooms)
    order = sorted(drawn(rooms), key=lambda room: -level[room])
    rows = {}
    for room in order:
        rows.setdefault(level[room], []).append(f"[ {short_name(room, rooms)} ]")
    lines = [ROWS_TITLE, ""]
    lines += ["    " + "  ".join(boxes) for _, boxes in sorted(rows.items(), reverse=True)]
    lines.append("")
    names = [room for room in order if room != "public"]
    width = max(len(short_name(room, rooms)) for room in names)
    for room in names:
        seen = sorted(included_by(room, rooms), key=lambda other: (-level[other], order.index(other)))
        if "all" in rooms[room][1]:
            text = "all of the library"
        elif room in USERS:
            text = "the public headers"
        else:
            text = ", ".join([short_name(other, rooms) for other in seen] + ["ripc.h"])
        lines.append(f"{short_name(room, rooms):<{width}}  ->  {text}")
    return lines


def check(text, rooms=None):
    """Findings about the text of the document, each (line, what is wrong)."""
    blocks = list(BLOCK.finditer(text))
    if len(blocks) != 1:
        return [(1, f"has {len(blocks)} blocks ```layers instead of one: paste what check_picture.py --print says")]
    first = text.count("\n", 0, blocks[0].start(1)) + 1
    has = [line.rstrip() for line in blocks[0].group(1).splitlines()]
    wants = [line.rstrip() for line in picture(rooms)]
    findings = []
    for index in range(max(len(has), len(wants))):
        here = has[index] if index < len(has) else None
        wanted = wants[index] if index < len(wants) else None
        if here == wanted:
            continue
        if here is None:
            findings.append((first + index, f"lacks the line '{wanted}'"))
        elif wanted is None:
            findings.append((first + index, f"has a line too many: '{here}'"))
        else:
            findings.append((first + index, f"says '{here}' where tests/layers/check_includes.py says '{wanted}'"))
    return findings


def self_test():
    failures = []

    def expect(what, text, words, rooms=None):
        found = [message for _, message in check(text, rooms)]
        good = not found if words is None else bool(found) and any(words in message for message in found)
        if not good:
            failures.append(f"{what}: expected {words!r}, found {found}")

    lines = picture()
    good = "# Title\n\n```layers\n" + "\n".join(lines) + "\n```\n\ntext\n"
    expect("the picture itself", good, None)
    expect("spaces at the end of a line", good.replace("\n```\n\ntext", "  \n```\n\ntext"), None)
    expect("no block", "# Title\n", "0 blocks")
    expect("two blocks", good + good, "2 blocks")
    spi = next(line for line in lines if line.startswith("spi "))
    expect("an arrow too many", good.replace(spi, spi + ", core"), "'" + spi + ", core'")
    expect("an arrow too few", good.replace(spi, spi.replace("wire, ", "")), "check_includes.py says '" + spi + "'")
    expect("a line too few", good.replace(lines[-1] + "\n", ""), "lacks the line")
    expect("a line too many", good.replace("\n```\n\ntext", "\nmore\n```\n\ntext"), "a line too many")
    row_of_spi = next(line for line in lines if "[ spi ]" in line)
    row_of_core = next(line for line in lines if "[ core ]" in line)
    moved = good.replace(row_of_spi + "\n", "").replace(row_of_core, row_of_spi + "\n" + row_of_core)
    expect("spi drawn above core", moved, "[ spi ]")
    line_number = check(good.replace(spi, "spi"))[0][0]
    if good.splitlines()[line_number - 1] != spi:
        failures.append(f"the line number {line_number} is wrong")

    # The picture draws what the table says.
    rooms = dict(check_includes.ROOMS)
    rooms["wire"] = (rooms["wire"][0], ["memory", "base", "public C"])
    expect("the table lets wire see memory", good, "wire", rooms)
    level = levels(check_includes.ROOMS)
    for room in drawn(check_includes.ROOMS):
        for other in included_by(room, check_includes.ROOMS):
            if level[other] >= level[room]:
                failures.append(f"{other} is not drawn below {room}, which includes it")
    rooms["base"] = (rooms["base"][0], ["core"])
    try:
        levels(rooms)
        failures.append("a circle of rooms is not found")
    except ValueError:
        pass
    # No room of the library is left out.
    for room in check_includes.LIBRARY:
        name = "ripc.h" if room == "public C" else short_name(room, check_includes.ROOMS)
        if f"[ {name} ]" not in "\n".join(lines):
            failures.append(f"{name} is not drawn")
    for failure in failures:
        print(f"self-test: {failure}")
    print(f"self-test of the picture's check: {len(failures)} failures")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Checks the picture of the layers in docs/architecture.md.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--print", action="store_true", dest="prints")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.prints:
        print("\n".join(picture()))
        return 0
    findings = check((arguments.root / DOCUMENT).read_text(encoding="utf-8"))
    for line, message in findings:
        print(f"{DOCUMENT}:{line}: {message}")
    print(f"picture of the layers: {len(picture())} lines, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
