#!/usr/bin/env python3
"""A gate against slow code without absolute times: ratios of figures of one run.

    bench_check.py [--dopplergl build/dopplergl] [--device any] [--shape NAME | -m FILE.gguf] [--work DIR]

Two files are made from random blocks: a Q4_K_M mix, as people download it, and one with every matrix in Q4_K.
--shape names a shape of random_gguf.py; by default the shape is small enough for the kind of device. -m uses
a file of yours as the mix, and leaves out the comparison with the other file.
Each ratio has a limit per class of device (LIMITS). Limits are far from the measured ratios, so that only a
real loss exceeds them. If a ratio exceeds its limit, everything is measured a second time, because other programs
may have slowed one side of it. A ratio that exceeds its limit twice fails, and the exit code is then 1.
`make bench-check` runs this script.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import random_gguf

AT_LEAST, AT_MOST = "at least", "at most"
SOFTWARE, SMALL_GPU, LARGE_GPU = range(3)
# A GPU with a faster plain copy is large: reading weights then costs far more than computing a few rows.
LARGE_GBPS = 300
# ratio: (which side, limits of SOFTWARE, SMALL_GPU, LARGE_GPU). None: no limit on such a device.
LIMITS = {
    "a step of 2 rows to one row": (AT_MOST, 2.2, 2.0, 1.9),
    "a step of 4 rows to one row": (AT_MOST, 4.0, 3.5, 2.8),
    "a step of 8 rows to one row": (AT_MOST, 7.5, 6.5, 4.0),
    "decode of the mix to all-Q4_K, bytes per second": (AT_LEAST, 0.25, 0.7, 0.75),
    "persistent to dispatched": (AT_LEAST, None, 0.97, 0.97),
    "decode to a plain copy, bytes per second": (AT_LEAST, 0.02, 0.15, 0.15),
    "load to dd, seconds": (AT_MOST, 40.0, 8.0, 8.0),
    "bytes held to bytes of the file": (AT_MOST, 1.03, 1.03, 1.03),
    "head to a plain copy, bytes per second": (AT_LEAST, None, 0.3, 0.3),
    "time of n prompt tokens to time of n steps": (AT_MOST, 1.3, 1.15, 1.15),
    "time of a prompt to time of the next shorter one": (AT_LEAST, None, 0.9, 0.9),
}
ROWS = (2, 4, 8)
# Prompt lengths just above the maximum of a body, which is the worst case.
PROMPTS = (1, 3, 5, 9, 17, 33, 65, 129)
# Shape for (software renderers, GPUs). A step on a GPU must take longer than the host needs to queue it.
SHAPES = ("small", "llama-3.2-1b")
SMALL = dict(random_gguf.SHAPES["llama-3.2-1b"], layers=4, hidden=512, ffn=1024, heads=8, kv=2, vocab=2048)
DECODE, REPETITIONS = ("16", "64"), 3


def report_of(args, *words):
    """JSON of one command. Ends the script with the command's error line if the command fails."""
    command = [args.dopplergl, *words, "-q", "--device", args.device, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
    return json.loads(done.stdout)


def bench(args, path, *words):
    return report_of(args, "bench", "-m", path, "-r", str(REPETITIONS), *words)


def best(report, phase):
    """The fastest repetition: other programs on the machine can only slow a repetition down."""
    return max(report[f"{phase}_tps_all"])


def dd_seconds(path):
    """Seconds in which dd reads a file from the page cache."""
    times = []
    for _ in range(REPETITIONS + 1):  # the first reading fills the cache
        started = time.monotonic()
        subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=16M"], check=True, stderr=subprocess.DEVNULL)
        times.append(time.monotonic() - started)
    return min(times)


def measure(args, mix, plain, software):
    """Returns (name, ratio or None, remark) of each ratio, in the order of LIMITS."""
    decode = ["-n", DECODE[not software], "--prompt-tokens", "8", "-c", "1024"]
    one = bench(args, mix, *decode, "--profile")
    print(f"one row: {best(one, 'decode'):.0f} tok/s, {one['executor']}", flush=True)
    step = 1 / best(one, "decode")
    out = []
    for rows in ROWS:
        many = bench(args, mix, *decode, "--batch", str(rows))
        out.append((f"a step of {rows} rows to one row", rows / best(many, "decode") / step,
                    f"{many['executor']}, {best(many, 'decode'):.0f} tok/s"))
    if plain:
        other = bench(args, plain, *decode)
        rate = [best(r, "decode") * r["bytes_per_token"] for r in (one, other)]
        out.append(("decode of the mix to all-Q4_K, bytes per second", rate[0] / rate[1],
                    f"all-Q4_K: {best(other, 'decode'):.0f} tok/s"))
    else:
        out.append(("decode of the mix to all-Q4_K, bytes per second", None, "no such file was made"))
    if one["executor"] == "persistent":
        dispatched = bench(args, mix, *decode, "--executor", "dispatch")
        out.append(("persistent to dispatched", best(one, "decode") / best(dispatched, "decode"), ""))
    else:
        out.append(("persistent to dispatched", None, f"{one['executor']}: {one['executor_reason']}"))
    out.append(("decode to a plain copy, bytes per second",
                best(one, "decode") * one["bytes_per_token"] * 1e-9 / one["copy_gbps"], ""))
    load = report_of(args, "bench", "load", "-m", mix, "-r", str(REPETITIONS))
    dd = dd_seconds(mix)
    loaded = min(load["warm_model_ms_all"]) * 1e-3
    out.append(("load to dd, seconds", loaded / dd, f"{loaded:.3f} s and {dd:.3f} s"))
    out.append(("bytes held to bytes of the file", one["held_bytes"] / one["file_bytes"],
                f"{one['held_bytes']} and {one['file_bytes']}"))
    head = [e for e in one["profile"] or [] if e["phase"] == "decode" and e["op"] == "head" and e["gpu_us"]]
    out.append(("head to a plain copy, bytes per second",
                head[0]["bytes"] / head[0]["gpu_us"] * 1e-3 / one["copy_gbps"] if head else None,
                "" if head else "the device has no timer"))
    times = [n / best(bench(args, mix, "-n", "1", "-c", "256", "--prompt-tokens", str(n)), "prefill") for n in PROMPTS]
    ratio, n = max((time / n / step, n) for time, n in zip(times, PROMPTS))
    out.append(("time of n prompt tokens to time of n steps", ratio, f"{n} tokens"))
    ratio, n = min((times[i] / times[i - 1], i) for i in range(1, len(PROMPTS)))
    out.append(("time of a prompt to time of the next shorter one", ratio, f"{PROMPTS[n]} and {PROMPTS[n - 1]} tokens"))
    return one, out


def judge(name, ratio, remark, kind):
    """Returns the line of a ratio, and whether the ratio exceeds its limit."""
    side, limit = LIMITS[name][0], LIMITS[name][1 + kind]
    remark = f" ({remark})" if remark else ""
    if ratio is None:
        return f"skipped  {name}{remark}", False
    if limit is None:
        return f"{'':8} {name}: {ratio:.3f}{remark}, no limit on such a device", False
    wrong = ratio > limit if side == AT_MOST else ratio < limit
    by = f": wrong by a factor of {ratio / limit if side == AT_MOST else limit / max(ratio, 1e-9):.2f}" if wrong else ""
    return f"{'FAILED' if wrong else 'ok':8} {name}: {ratio:.3f}{remark}, {side} {limit}{by}", wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dopplergl", default="build/dopplergl")
    parser.add_argument("--device", default="any")
    parser.add_argument("--shape", choices=["small", *random_gguf.SHAPES])
    parser.add_argument("-m", "--model", help="a GGUF file in place of a made one")
    parser.add_argument("--once", action="store_true", help="never measure a second time")
    parser.add_argument("--work", default=tempfile.gettempdir(), help="folder for the made files")
    args = parser.parse_args()
    if args.shape and args.model:
        parser.error("give either --shape or -m")
    args.dopplergl = os.path.abspath(args.dopplergl)

    with tempfile.TemporaryDirectory(dir=args.work, prefix="bench-check-") as folder:
        mix, plain = args.model, None
        small = os.path.join(folder, "small.gguf")
        random_gguf.write(small, SMALL, "Q4_K_M")
        software = bench(args, small, "-n", "1", "--prompt-tokens", "1", "-c", "64")["device"]["software"]
        if not mix:
            shape = args.shape or SHAPES[not software]
            mix, plain = os.path.join(folder, "mix.gguf"), os.path.join(folder, "plain.gguf")
            random_gguf.write(mix, SMALL if shape == "small" else random_gguf.SHAPES[shape], "Q4_K_M")
            random_gguf.write(plain, SMALL if shape == "small" else random_gguf.SHAPES[shape], "all-q4_k")
        one, ratios = measure(args, mix, plain, software)
        kind = SOFTWARE if software else LARGE_GPU if one["copy_gbps"] > LARGE_GBPS else SMALL_GPU
        lines = [judge(*ratio, kind) for ratio in ratios]
        if any(wrong for _, wrong in lines) and not args.once:
            again = [judge(*ratio, kind) for ratio in measure(args, mix, plain, software)[1]]
            lines = [second if first[1] else first for first, second in zip(lines, again)]
    print(f"{args.model or shape + ' Q4_K_M'} on {one['device']['name']}, "
          f"{('a software renderer', 'a small GPU', 'a large GPU')[kind]}")
    print("\n".join(line for line, _ in lines))
    wrong = sum(wrong for _, wrong in lines)
    print(f"{wrong} ratios of {len(lines)} exceed their limits" if wrong else "all ratios are within their limits")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
