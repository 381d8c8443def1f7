#!/usr/bin/env python3
"""Writes loader/text/tok_unicode_tables.inc: Unicode as the `tokenizers` package sees it.

Its parts carry different Unicode versions (regular expressions 16.0, normal forms 9.0, punctuation
8.0), so every table is asked from the package itself, code point by code point:

    pip install tokenizers==0.23.3          (Python 3.11, whose unicodedata is that of Unicode 14)
    tests/data/make/unicode_tables.py nfc_tables.json > loader/text/tok_unicode_tables.inc

nfc_tables.json is in tests/data/tokenizers/synthetic+unicode.tar.gz; the package cannot be asked for
combining classes, they are taken from there.
"""
import json
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po "
              "Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()
SCRIPTS = ("Arabic Bengali Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin "
           "Thai").split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
EVERYTHING = "".join(map(chr, CODE_POINTS))


def members(pattern):
    """The code points that a one-character regular expression matches."""
    split = pre_tokenizers.Split(Regex(f"(?:{pattern})+"), "removed", invert=True)
    return {CODE_POINTS[i] for _, (a, b) in split.pre_tokenize_str(EVERYTHING) for i in range(a, b)}


def ranges(points):
    """Sorted inclusive ranges of a set of code points."""
    out = []
    for c in sorted(points):
        if out and out[-1][1] + 1 == c:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def array(declaration, items):
    """A C array, as many items per line as fit."""
    print(f"static const {declaration} = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            print(line)
            line = "   "
        line += f" {item},"
    print(line)
    print("};\n")


def range_array(name, points):
    array(f"struct tok_range {name}[]", (f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points)))


def newer_runs(category):
    """What has another category than in Unicode 14, which is the oldest that PCRE2 may have."""
    assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
    runs = []
    for c, k in enumerate(category):
        if unicodedata.category(chr(c)) == CATEGORIES[k]:
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == k:
            runs[-1][1] = c
        else:
            runs.append([c, c, k])
    array("struct newer_run newer_runs[]", (f"{{0x{a:X}, 0x{b:X}, {k}}}" for a, b, k in runs))


def category_runs():
    category = [CATEGORIES.index("Cn")] * 0x110000
    for c in range(0xD800, 0xE000):
        category[c] = CATEGORIES.index("Cs")
    for i, name in enumerate(CATEGORIES):
        if name not in ("Cn", "Cs"):
            for c in members(rf"\p{{{name}}}"):
                category[c] = i
    runs = [(c, k) for c, k in enumerate(category) if c == 0 or category[c - 1] != k]
    array("uint32_t category_runs[]", (f"0x{c << 8 | k:X}" for c, k in runs))
    newer_runs(category)
    return {name: {c for c in CODE_POINTS if category[c] == i} for i, name in enumerate(CATEGORIES)}


def punctuation():
    """What the Punctuation pre-tokenizer cuts out."""
    text = "".join("a" + chr(c) for c in CODE_POINTS)
    pieces = pre_tokenizers.Punctuation("isolated").pre_tokenize_str(text)
    return {CODE_POINTS[a // 2] for _, (a, _) in pieces if a % 2 == 1}


def inert(nfc, compatible):
    """What changes nothing in normal forms of Unicode 9 and does in those of Unicode 14 or utf8proc."""
    classes = dict(nfc["ccc"])
    pairs = {(a, b) for a, b, _ in nfc["pairs"]}
    points = {0x11A7}  # no part of any syllable, but utf8proc 2.8 drops it after one
    for c in CODE_POINTS:
        if unicodedata.combining(chr(c)) != classes.get(c, 0):
            points.add(c)
        if unicodedata.normalize("NFKD", chr(c)) != compatible.normalize_str(chr(c)):
            points.add(c)
        parts = [ord(x) for x in unicodedata.normalize("NFD", chr(c))]
        composed = unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(c)
        if len(parts) == 2 and composed and not 0xAC00 <= c <= 0xD7A3 and tuple(parts) not in pairs:
            points.add(parts[1])
    return points


def lowercase():
    """Runs of what Rust's lower case has beyond Unicode 14's, with the distance."""
    lower = normalizers.Lowercase()
    runs = []
    for c in CODE_POINTS:
        text = lower.normalize_str(chr(c))
        if text == chr(c).lower():
            continue
        assert len(text) == 1
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == ord(text) - c:
            runs[-1][1] = c
        else:
            runs.append([c, c, ord(text) - c])
    array("struct lower_run newer_lower_runs[]", (f"{{0x{a:X}, 0x{b:X}, {d}}}" for a, b, d in runs))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        nfc = json.load(file)
    print("/* Generated by tests/data/make/unicode_tables.py; do not edit. */\n")
    category = category_runs()
    letters = set().union(*(category[k] for k in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl")))
    range_array("other_alphabetic", members("[[:alpha:]]") - letters)
    range_array("other_lowercase", members("[[:lower:]]") - category["Ll"])
    range_array("punctuation_ranges", punctuation())
    for script in SCRIPTS:
        range_array(f"script_{script.lower()}", members(rf"\p{{{script}}}"))
    print("static const struct script scripts[] = {")
    for script in SCRIPTS:
        name = f"script_{script.lower()}"
        print(f'    {{"{script}", {name}, sizeof({name}) / sizeof({name}[0])}},')
    print("};\n")
    lowercase()
    range_array("inert_ranges", inert(nfc, normalizers.NFKD()))


main()
