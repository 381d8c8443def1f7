#!/usr/bin/env python3
"""Speed of encoding and loading, side by side with the `tokenizers` package, in processor time.

    tokenizer_speed.py build/dopplergl TEXT TOKENIZER.json...

Encoding: the text once and nine times in a row through `dopplergl tokenize`; the difference counts,
so that loading and starting do not. The package encodes the text once, on one thread, and both must
give the same ids. Best of three.
"""

import os
import resource
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers

COPIES = 9


def run(program, path, text):
    """Processor time of one call, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([program, "tokenize", "-m", path], input=text, capture_output=True,
                         check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def best(measure):
    return min(measure() for _ in range(3))


def timed(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def main():
    program, text_path, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    text = open(text_path, "rb").read()
    print(f"{len(text)} bytes, tokenizers {tokenizers.__version__}")
    for path in paths:
        load = best(lambda: run(program, path, b"")[0])
        once = best(lambda: run(program, path, text)[0])
        many = best(lambda: run(program, path, text * COPIES)[0])
        ours = len(text) * (COPIES - 1) / (many - once) / 1e6
        theirs_load = best(lambda: timed(lambda: tokenizers.Tokenizer.from_file(path)))
        package = tokenizers.Tokenizer.from_file(path)
        decoded = text.decode()
        theirs = len(text) / best(lambda: timed(lambda: package.encode(decoded))) / 1e6
        ids = [int(i) for i in run(program, path, text)[1].split(b",")]
        same = ids == package.encode(decoded).ids
        print(f"{path}: encode {ours:.1f} MB/s, the package {theirs:.2f} MB/s "
              f"({ours / theirs:.0f} times); load {load:.2f} s, the package {theirs_load:.2f} s; "
              f"ids {'equal' if same else 'DIFFER'}")


if __name__ == "__main__":
    main()
