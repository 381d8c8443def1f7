#!/usr/bin/env python3
"""A gate against slow code that knows no absolute times: ratios of figures of one run.

    bench_check.py [--dopplergl build/dopplergl] [--device any] [--shape NAME:quant]

Each ratio has a limit per kind of device, well below what was measured (docs/performance.md), so
that only a real loss falls under it:
- decode against a plain copy: bytes per second of whole decode steps by those of the copy kernel;
- the head's kernel against a plain copy, by GPU time, where the device has a timer;
- 8 columns against 1: tokens per second of a prompt of 8 by those of single decode steps;
- persistent against dispatched, where the engine would choose the persistent executor.
Exit code 1 when a ratio is below its limit. `make bench-check` runs it.
"""
import argparse
import json
import subprocess
import sys

# ratio: (software renderers, hardware)
LIMITS = {
    "decode against copy": (0.15, 0.15),
    "head against copy": (0.15, 0.3),
    "8 columns against 1": (1.2, 2.0),
    "persistent against dispatched": (None, 0.97),
}


def bench(args, *words):
    """The report of one run; None when the command refuses the flags."""
    command = [args.dopplergl, "bench", "-q", "--device", args.device, "--json", "-r", str(args.repetitions)]
    if args.shape:
        command += ["--shape", args.shape]
    done = subprocess.run(command + list(words), capture_output=True, text=True)
    if done.returncode == 2:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"bench ended with {done.returncode}")
    return json.loads(done.stdout)


def head_rate(report):
    """10^9 bytes per second of the head's kernel; None without a timer."""
    for entry in report["profile"] or []:
        if entry["phase"] == "decode" and entry["op"] == "head" and entry["gpu_us"]:
            return entry["bytes"] / entry["gpu_us"] * 1e-3
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dopplergl", default="build/dopplergl")
    parser.add_argument("--device", default="any")
    parser.add_argument("--shape", help="a shape in place of the bundled model")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()

    ratios, skipped = {}, {}
    whole = bench(args, "--profile", "-n", "64", "--prompt-tokens", "8")
    if whole is None:
        sys.exit("bench refused its flags")
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

    kind = 0 if whole["device"]["software"] else 1
    below = []
    print(f"{whole['model']} {whole['quantization']} on {whole['device']['name']}")
    for name, limits in LIMITS.items():
        if name in skipped:
            print(f"skipped  {name}: {skipped[name]}")
        elif limits[kind] is None:
            print(f"{'':8} {name}: {ratios[name]:.3f}, no limit on such a device")
        else:
            bad = ratios[name] < limits[kind]
            print(f"{'BELOW' if bad else 'ok':8} {name}: {ratios[name]:.3f}, at least {limits[kind]}")
            below += [name] if bad else []
    sys.exit(1 if below else 0)


if __name__ == "__main__":
    main()
