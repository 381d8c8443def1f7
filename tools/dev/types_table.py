#!/usr/bin/env python3
"""The table of families and file types of docs/models.md, from the output of test_family_types.

    types_table.py TAP [--into docs/models.md]

TAP is the output of a complete run: build/test-output/test_family_types.tap after `make check-all`, or
CMOCKA_MESSAGE_OUTPUT=TAP build/tests/test_family_types > TAP. A cell is "yes" if its case passed, "no" if it
failed, and empty if it did not run. Prints Markdown. --into replaces the text between the two marker lines.
"""
import argparse
import re
import sys

BEGIN = "<!-- types: made by tools/dev/types_table.py, not by hand -->\n"
END = "<!-- /types -->"


def table(tap):
    cells = {}
    for line in tap.splitlines():
        found = re.fullmatch(r"(not ok|ok) \d+ - (.+): ([A-Z0-9_]+)", line)
        if found:
            cells[found[2], found[3]] = "yes" if found[1] == "ok" else "no"
    if not cells:
        sys.exit("types_table.py: no case of test_family_types is in this file")
    types = list(dict.fromkeys(kind for _, kind in cells))
    rows = [[family] + [cells.get((family, kind), "") for kind in types]
            for family in dict.fromkeys(family for family, _ in cells)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [["family", *types], ["---"] * (len(types) + 1), *rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tap")
    parser.add_argument("--into")
    args = parser.parse_args()
    try:
        with open(args.tap) as f:
            text = table(f.read())
        if not args.into:
            sys.stdout.write(text)
            return
        with open(args.into) as f:
            page = f.read()
        before, _, rest = page.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            sys.exit(f"{args.into}: wanted one line '{BEGIN.strip()}' and one '{END}' after it")
        with open(args.into, "w") as f:
            f.write(before + BEGIN + text + END + after)
    except OSError as e:
        sys.exit(f"{e.filename}: {e.strerror}")


if __name__ == "__main__":
    main()
