#!/usr/bin/env python3
"""Counts telling words in comments and documents, per room and in total, and finds long sentences.

    count_words.py [PATH...] [--longest N] [--check]

Reads the comments of C, GLSL, shell and Makefiles, and the prose of Markdown pages. PATH is a file
or a folder. The default is the whole tree of this script, without build, hidden and data folders.

For each room and each page it prints the number of words, and how often "what",
nobody/nothing/none, if/when and return(s) occur per 1,000 words. A code span in a page counts as
one word. Code blocks and the tables of make targets do not count. A table cell counts as a sentence.

--check exits with 1 if the total breaks a limit: "what" below 1.5, nobody/nothing/none below 1.5,
if/when above 5, and no sentence of a page over 35 words. Needs Python and its standard library.
"""
import argparse
import os
import re
import sys

SIGNS = (("what", re.compile(r"\bwhat\b", re.I), None, 1.5),
         ("nobody/nothing/none", re.compile(r"\b(?:nobody|nothing|none)\b", re.I), None, 1.5),
         ("if/when", re.compile(r"\b(?:if|when)\b", re.I), 5.0, None),
         ("returns", re.compile(r"\breturns?\b", re.I), None, None))
SENTENCE_WORDS = 35
C_NAMES = (".c", ".h", ".inc", ".comp", ".glsl")
HASH_NAMES = (".sh", ".mk", "Makefile")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d[\w.,%/-]*|`[^`]*`")
# A comment, or a literal: a comment cannot begin inside of a literal.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def c_comments(text):
    """The text of all comments. A kernel directive (//!) is code up to a second //."""
    for match in C_TOKEN.finditer(text):
        token = match[0]
        if token.startswith("//!"):
            yield token.partition(" // ")[2]
        elif token.startswith("//"):
            yield token.lstrip("/").strip()
        elif token.startswith("/*"):
            yield re.sub(r"^\s*\*+", "", token[2:-2], flags=re.M)


def hash_comments(text):
    """Comments on lines of their own, and the help texts of Makefile targets (##)."""
    for line in text.split("\n"):
        match = re.match(r"\s*#+(?!!)(.*)", line) or re.match(r"[A-Za-z].*?\s##\s(.*)", line)
        if match:
            yield match[1]


def markdown_blocks(text):
    """(line, prose) of each paragraph, list item, heading and table cell."""
    # Between the two marks of a make target are generated lists of names.
    text = re.sub(r"<!-- make [^>]*: begin -->.*?: end -->|<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    block, start, code = [], 0, False
    for number, line in enumerate(text.split("\n") + [""], 1):
        fence = line.lstrip().startswith("```")
        begins = re.match(r"\s*(?:[-*+]|\d+\.)\s", line)
        if block and (fence or code or not line.strip() or begins or line.startswith(("#", "|"))):
            yield start, " ".join(block)
            block = []
        if fence:
            code = not code
        elif code or not line.strip() or line.startswith("    "):
            continue
        elif line.startswith("|"):
            # A vertical bar in a code span or after a backslash does not end a cell.
            for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda m: m[0].replace("|", ""), line)):
                if not re.fullmatch(r"[\s:-]*", cell):
                    yield number, cell
        elif line.startswith("#"):
            yield number, line.lstrip("# ")
        else:
            if not block:
                start = number
            block.append(re.sub(r"^\s*(?:[-*+]|\d+\.)\s", "", line).strip())


def plain(prose):
    """The prose without emphasis and pictures; a link becomes its text. Code spans stay."""
    prose = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", prose)
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    return "".join(part if part.startswith("`") else part.replace("*", "")
                   for part in re.split(r"(`[^`]*`)", prose))


def sentences(prose):
    """The sentences of a block. A semicolon or colon does not end a sentence."""
    spans = []

    def hide(match):
        spans.append(match[0])
        return f"`{len(spans) - 1}`"

    text = re.sub(r"`[^`]*`", hide, plain(prose))
    for part in re.split(r"(?<=[.!?])[)\"”]*\s+(?=[A-Z`(\"“\d])", text):
        yield len(WORD.findall(part)), re.sub(r"`(\d+)`", lambda m: spans[int(m[1])], part)


def room_of(path):
    """core/seq for core/seq/batch.c, gl for gl/gl.h: two levels if a room has rooms."""
    parts = path.split(os.sep)
    deep = parts[0] in ("core", "kernels", "loader", "tools", "tests") and len(parts) > 2
    return "/".join(parts[:2 if deep else 1]) if len(parts) > 1 else parts[0]


def read_file(path):
    """(list of (line, prose), True if the file is a page), or None for a file of another kind."""
    name = os.path.basename(path)
    if not name.endswith(C_NAMES + HASH_NAMES + (".md",)):
        return None
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    if name.endswith(".md"):
        return list(markdown_blocks(text)), True
    return [(0, comment) for comment in (c_comments if name.endswith(C_NAMES) else hash_comments)(text)], False


def walk(paths):
    for top in paths:
        if os.path.isfile(top):
            yield top
        elif not os.path.isdir(top):
            sys.exit(f"{top}: no such file or folder")
        for folder, names, files in os.walk(top):
            names[:] = sorted(n for n in names if not n.startswith(".") and n not in ("build", "shared", "data"))
            for name in sorted(files):
                yield os.path.normpath(os.path.join(folder, name))


def count(prose, into):
    text = re.sub(r"`[^`]*`", "`_`", plain(prose))
    into[0] += len(WORD.findall(text))
    for i, sign in enumerate(SIGNS):
        into[1 + i] += len(sign[1].findall(text))


def row(name, counts):
    per = [f"{1000 * n / counts[0]:.1f}" if counts[0] else "" for n in counts[1:]]
    return f"{name:32} {counts[0]:8,} " + " ".join(f"{p:>19}" for p in per)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="*")
    parser.add_argument("--longest", type=int, default=10, metavar="N", help="long sentences to print (default 10)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is broken")
    args = parser.parse_args()
    paths = args.path
    if not paths:
        os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
        paths = ["."]
    rooms, pages, total, long = {}, {}, [0] * (1 + len(SIGNS)), []
    for path in walk(paths):
        made = read_file(path)
        if not made:
            continue
        blocks, is_document = made
        group, name = (pages, path) if is_document else (rooms, room_of(path))
        counts = group.setdefault(name, [0] * (1 + len(SIGNS)))
        for line, prose in blocks:
            count(prose, counts)
            count(prose, total)
            if is_document:
                long += [(n, f"{path}:{line}", text) for n, text in sentences(prose)]
    long = sorted((s for s in long if s[0] > SENTENCE_WORDS), key=lambda s: -s[0])
    print(f"{'per 1,000 words':32} {'words':>8} " + " ".join(f"{sign[0]:>19}" for sign in SIGNS))
    for group in (rooms, pages):
        for name in sorted(group):
            if group[name][0]:
                print(row(name, group[name]))
    print(row("total", total))
    print(f"sentences of pages over {SENTENCE_WORDS} words: {len(long)}")
    for words, place, text in long[:args.longest]:
        print(f"{words:4} {place}: {text[:100]}")
    found = [sign[0] for sign, n in zip(SIGNS, total[1:]) if total[0] and
             (sign[2] is not None and n * 1000 <= sign[2] * total[0]
              or sign[3] is not None and n * 1000 >= sign[3] * total[0])]
    if args.check and (found or long):
        sys.exit("limit broken: " + ", ".join(found + (["length of sentences"] if long else [])))


if __name__ == "__main__":
    main()
