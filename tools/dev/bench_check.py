#!/usr/bin/env python3
"""A gate against slow code that knows no absolute times: ratios of figures of one run.

    bench_check.py [--dopplergl build/dopplergl] [--device any] [--shape NAME:quant]

Each ratio has a limit per kind of device, well below what was measured (docs/performance.md), so
that only a real loss falls under it:
- decode against a plain copy: bytes per second of whole decode steps by those of the copy kernel;
- the head's kernel against a plain copy, by GPU time, where the device has a timer;
- 8 columns against 1: tokens per second of a prompt of 8 by those of single decode steps;
- n tokens of a prompt against n single decode steps, the worst of SIZES;
- a longer prompt's time against a shorter one's, the worst of neighbours in SIZES;
- persistent against dispatched, where the engine would choose the persistent executor.
Exit code 1 when a ratio is on the wrong side of its limit. `make bench-check` runs it.
"""
import argparse
import json
import subprocess
import sys

# ratio: (software renderers, hardware)
LIMITS = {
    "decode against copy": (0.15, 0.15),
    "head against copy": (0.15, 0.3),
    "8 columns against 1": (1.2, 1.5),  # 1.97 on an H200, where the single steps are persistent
    "persistent against dispatched": (None, 0.97),
    "a longer prompt against a shorter one": (None, 0.9),
}
# likewise, the most that a ratio may be
MOST = {
    "n tokens against n steps": (1.15, 1.15),
}
# Tokens of a prompt: what each body of a pass is for, and one more (docs/architecture.md, "A prompt").
SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512)


def bench(args, *words):
    """The report of one run; ends with the command's own words where it fails."""
    command = [args.dopplergl, "bench", "-q", "--device", args.device, "--json", "-r", str(args.repetitions)]
    if args.shape:
        command += ["--shape", args.shape]
    done = subprocess.run(command + list(words), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"bench ended with {done.returncode}")
    return json.loads(done.stdout)


def head_rate(report):
    """10^9 bytes per second of the head's kernel; None without a timer."""
    for entry in report["profile"] or []:
        if entry["phase"] == "decode" and entry["op"] == "head" and entry["gpu_us"]:
            return entry["bytes"] / entry["gpu_us"] * 1e-3
    return None


def prompt_ratios(args, step):
    """The two ratios of prompts, each with the number of tokens that it is of; `step`: seconds of a decode step."""
    times = []
    for n in SIZES:
        report = bench(args, "-n", "1", "-c", str(SIZES[-1] + 8), "--prompt-tokens", str(n))
        times.append(n / max(report["prefill_tps_all"]))
    dearest = max(range(len(SIZES)), key=lambda i: times[i] / SIZES[i])
    falls = min(range(1, len(SIZES)), key=lambda i: times[i] / times[i - 1])
    return {
        "n tokens against n steps": (times[dearest] / SIZES[dearest] / step, f"{SIZES[dearest]} tokens"),
        "a longer prompt against a shorter one": (times[falls] / times[falls - 1],
                                                  f"{SIZES[falls]} and {SIZES[falls - 1]} tokens"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dopplergl", default="build/dopplergl")
    parser.add_argument("--device", default="any")
    parser.add_argument("--shape", help="a shape in place of the bundled model")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()

    ratios, skipped = {}, {}
    whole = bench(args, "--profile", "-n", "64", "--prompt-tokens", "8")
    ratios["decode against copy"] = whole["decode_gbps"] / whole["copy_gbps"]
    rate = head_rate(whole)
    if rate:
        ratios["head against copy"] = rate / whole["copy_gbps"]
    else:
        skipped["head against copy"] = "the device has no timer"
    ratios["8 columns against 1"] = whole["prefill_tps"] / whole["decode_tps"]
    if whole["executor"] == "persistent":
        dispatched = bench(args, "-n", "64", "--prompt-tokens", "8", "--executor", "dispatch")
        ratios["persistent against dispatched"] = whole["decode_tps"] / dispatched["decode_tps"]
    else:
        skipped["persistent against dispatched"] = f"{whole['executor']}: {whole['executor_reason']}"

    of = {}
    for name, (ratio, tokens) in prompt_ratios(args, 1 / max(whole["decode_tps_all"])).items():
        ratios[name], of[name] = ratio, f" ({tokens})"

    kind = 0 if whole["device"]["software"] else 1
    wrong = 0
    print(f"{whole['model']} {whole['quantization']} on {whole['device']['name']}")
    for name, limits in (LIMITS | MOST).items():
        if name in skipped:
            print(f"skipped  {name}: {skipped[name]}")
            continue
        limit, text = limits[kind], f"{name}: {ratios[name]:.3f}{of.get(name, '')}"
        if limit is None:
            print(f"{'':8} {text}, no limit on such a device")
        elif name in MOST:
            print(f"{'ABOVE' if ratios[name] > limit else 'ok':8} {text}, at most {limit}")
            wrong += ratios[name] > limit
        else:
            print(f"{'BELOW' if ratios[name] < limit else 'ok':8} {text}, at least {limit}")
            wrong += ratios[name] < limit
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
