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


def decompositions(canonical, compatible):
    """Full decompositions as {code point, first index, length, is canonical} over one array."""
    data, rows = [], []
    for c in CODE_POINTS:
        if 0xAC00 <= c <= 0xD7A3:
            continue  # Hangul syllables are decomposed by arithmetic
        nfd = [ord(x) for x in canonical.normalize_str(chr(c))]
        nfkd = [ord(x) for x in compatible.normalize_str(chr(c))]
        for text, flag in ((nfd, 1), (nfkd, 0)):
            if text != [c] and not (flag == 0 and text == nfd):
                rows.append(f"{{0x{c:X}, {len(data)}, {len(text)}, {flag}}}")
                data += text
    array("uint32_t decomposition_text[]", (f"0x{c:X}" for c in data))
    array("struct decomposition decompositions[]", rows)
    return {c: [ord(x) for x in canonical.normalize_str(chr(c))] for c in CODE_POINTS
            if not 0xAC00 <= c <= 0xD7A3 and canonical.normalize_str(chr(c)) != chr(c)}


def lowercase():
    lower = normalizers.Lowercase()
    pairs = []
    for c in CODE_POINTS:
        text = lower.normalize_str(chr(c))
        if c == 0x130:
            assert text == "i\u0307"  # the only mapping to two; tok_unicode.c knows it
        elif text != chr(c):
            assert len(text) == 1
            pairs.append(f"{{0x{c:X}, 0x{ord(text):X}}}")
    array("struct case_pair lowercase_pairs[]", pairs)


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
    mine = decompositions(normalizers.NFD(), normalizers.NFKD())
    assert mine == {c: text for c, text in nfc["nfd"]}, "NFD differs from nfc_tables.json"
    array("struct combining_class combining_classes[]", (f"{{0x{c:X}, {k}}}" for c, k in nfc["ccc"]))
    array("struct composition compositions[]",
          (f"{{0x{a:X}, 0x{b:X}, 0x{c:X}}}" for a, b, c in sorted(nfc["pairs"])))


main()
