#!/usr/bin/env python3
"""Makes loader/text/jinja_case.inc: characters whose upper or title case is several characters, as
Python's str has them; utf8proc knows the others.

The authority is the Python that runs this (made with 3.11, Unicode 14).
usage: make_jinja_case.py > loader/text/jinja_case.inc
"""
import sys
import unicodedata


def utf8(text):
    return '"' + "".join(f"\\x{b:02X}" for b in text.encode()) + '"'


def main():
    special = {}
    for cp in range(0x80, sys.maxunicode + 1):
        c = chr(cp)
        if not 0xD800 <= cp < 0xE000 and (len(c.upper()) > 1 or len(c.title()) > 1):
            special[cp] = (c.upper(), c.title())
    print("/* Made by tests/data/make/make_jinja_case.py from Unicode " + unicodedata.unidata_version + ": do not edit. */")
    print("static const struct case_special special_cases[] = {")
    for cp, (up, ti) in special.items():
        print(f"    {{0x{cp:X}, {utf8(up)}, {utf8(ti)}}},")
    print("};")


if __name__ == "__main__":
    main()
