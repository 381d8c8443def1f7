#!/usr/bin/env python3
"""Makes loader/text/jinja_case.inc: upper and title case of characters, as Python's str has them.

The authority is the Python that runs this (made with 3.11, Unicode 14).
usage: make_jinja_case.py > loader/text/jinja_case.inc
"""
import sys
import unicodedata


def runs(mapping):
    """(first, count, step, delta) of code points that are `step` apart and move by the same distance."""
    out = []
    for cp in sorted(mapping):
        delta = mapping[cp] - cp
        if out:
            first, count, step, last_delta = out[-1]
            gap = cp - (first + (count - 1) * step)
            if delta == last_delta and (gap == step or (count == 1 and gap == 2)):
                out[-1] = (first, count + 1, gap, delta)
                continue
        out.append((cp, 1, 1, delta))
    return out


def utf8(text):
    return '"' + "".join(f"\\x{b:02X}" for b in text.encode()) + '"'


def main():
    upper, title, special = {}, {}, {}
    for cp in range(0x80, sys.maxunicode + 1):
        if 0xD800 <= cp < 0xE000:
            continue
        c = chr(cp)
        if len(c.upper()) > 1 or len(c.title()) > 1:
            special[cp] = (c.upper(), c.title())
            continue
        if c.upper() != c:
            upper[cp] = ord(c.upper())
        if c.title() != c.upper():
            title[cp] = ord(c.title())
    print("/* Made by tests/data/make/make_jinja_case.py from Unicode " + unicodedata.unidata_version + ": do not edit. */")
    print("static const struct case_run upper_runs[] = {")
    for first, count, step, delta in runs(upper):
        print(f"    {{0x{first:X}, {count}, {step}, {delta}}},")
    print("};\nstatic const struct case_run title_runs[] = {")
    for first, count, step, delta in runs(title):
        print(f"    {{0x{first:X}, {count}, {step}, {delta}}},")
    print("};\nstatic const struct case_special special_cases[] = {")
    for cp, (up, ti) in special.items():
        print(f"    {{0x{cp:X}, {utf8(up)}, {utf8(ti)}}},")
    print("};")


if __name__ == "__main__":
    main()
