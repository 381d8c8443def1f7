#!/usr/bin/env python3
"""Checks the tokens of this engine on a GPU, then measures it and llama.cpp there with the same files.

    measure.py --dopplergl build/dopplergl [--peer DIR] [--fixtures DIR] [--rows SHAPE:TYPE,...] [--parts PART,...]
               --out FILE.json

First every model with a reference (the bundled one, and each folder of --fixtures that has a
reference.safetensors) continues the reference's prompts greedily on this device. A token may differ
only if the reference's two best logits are closer than MARGIN. If another token differs, nothing is
measured.
For each row, the script makes a file, runs both programs on it, and deletes it. random_gguf.py writes an f16
file, which the peer's llama-quantize quantises. Without a peer, for all-TYPE or with --direct, random_gguf.py
writes the quantised file itself, with the same types of tensors. Parts:
  decode     at depths 0, 4,096 and 16,384
  prefill    of 32, 512 and 4,096 tokens
  sequences  2 to 64 that decode together; the peer runs llama-batched-bench, or, if its folder has none,
             evaluates as many tokens of one prompt
  f16        prefill and sequences again, with --compute-precision f16
  load       from the page cache, and the time of dd
  start      a new process with warm caches, up to its first token
FILE.json is written after each row. If FILE.json exists and has the same GPU, its other rows are kept. So rows
can be measured in several calls. performance_table.py turns the file into the tables of docs/performance.md.
Needs only Python.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import statistics
import struct
import subprocess
import sys
import time

import random_gguf

MARGIN = 0.02
MAKE_SECONDS = 400
BENCH_SECONDS = 240

ROWS = ["llama-3.2-1b:Q4_K_M", "llama-3.2-1b:Q5_K_M", "llama-3.2-1b:Q4_0", "llama-3.2-1b:IQ4_XS",
        "llama-3.2-1b:Q3_K_M", "llama-3.2-1b:Q8_0", "gemma-3-1b:Q4_K_M", "llama-3.2-3b:Q4_K_M",
        "llama-3.1-8b:Q4_K_M", "phi-3.5-mini:Q4_K_M", "gemma-2-9b:Q4_K_M", "qwen3-30b-a3b:Q4_K_M",
        "mixtral-8x7b:Q4_K_M", "gpt-oss-20b:MXFP4_MOE", "llama-3.2-1b:all-q4_k"]
PARTS = ["decode", "prefill", "sequences", "f16", "load", "start"]
DEPTHS = (0, 4096, 16384)
PROMPTS = (32, 512, 4096)
SEQUENCES = (2, 4, 8, 16, 32, 64)


class Fault(Exception):
    """A command that failed, with its last line."""


def run(command, seconds, env=None):
    """Standard output of a command. Raises Fault if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env)
    except subprocess.TimeoutExpired:
        raise Fault(f"took longer than {seconds} s") from None
    except OSError as error:
        raise Fault(str(error)) from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Fault(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


# ---- tokens --------------------------------------------------------------------------------------


def read_reference(path):
    """The I32 and F32 tensors of a safetensors file, logits and hidden states left out."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        out = {}
        for name, info in header.items():
            if name == "__metadata__" or name.split(".")[-1] not in ("ids", "greedy", "margin"):
                continue
            begin, end = info["data_offsets"]
            f.seek(8 + size + begin)
            data = f.read(end - begin)
            out[name] = list(struct.unpack(f"<{len(data) // 4}{'i' if info['dtype'] == 'I32' else 'f'}", data))
    return out


def check_prompt(program, device, model, ids, greedy, margin):
    """Returns None if the continuation of one prompt is right, or a text that describes the difference."""
    try:
        out = run([program, "generate", "-q", "-m", model, "--device", device, "--temp", "0", "--ignore-eos",
                   "-n", str(len(greedy)), "--ids", ",".join(map(str, ids)), "--json"], BENCH_SECONDS)
    except Fault as fault:
        return str(fault)
    tokens = json.loads(out)["tokens"]
    for i, want in enumerate(greedy):
        if i >= len(tokens):
            return f"token {i} is missing"
        if tokens[i] != want:
            # After a near tie, the two texts may continue differently.
            return None if margin[i] < MARGIN else f"token {i} is {tokens[i]}, wanted {want} (margin {margin[i]:.3f})"
    return None


def check_models(program, device, folders, most):
    """Returns one entry per model, for its first `most` prompts. Processes run in parallel, because each
    uses the GPU for a short time only."""
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        for model, reference in folders:
            tensors = read_reference(os.path.join(reference, "reference.safetensors"))
            for i in range(min(most, len([name for name in tensors if name.endswith(".ids")]))):
                jobs.append((model, i, pool.submit(check_prompt, program, device, model, tensors[f"p{i}.ids"],
                                                   tensors[f"p{i}.greedy"], tensors[f"p{i}.margin"])))
        entries = {}
        for model, i, job in jobs:
            entry = entries.setdefault(model, {"model": os.path.basename(model), "prompts": 0, "faults": []})
            entry["prompts"] += 1
            if job.result():
                entry["faults"].append(f"prompt {i}: {job.result()}")
    return list(entries.values())


def models_with_reference(data, fixtures):
    folders = []
    bundled = os.path.join(data, "models", "story-llama-q4_k_m")
    if os.path.exists(bundled + ".reference/reference.safetensors"):
        folders.append((bundled, bundled + ".reference"))
    for name in sorted(os.listdir(fixtures)) if fixtures else []:
        if os.path.exists(os.path.join(fixtures, name, "reference.safetensors")):
            folders.append((os.path.join(fixtures, name),) * 2)
    return folders


# ---- rows ----------------------------------------------------------------------------------------

# Fields that are copied from the report of the run of `bench` at depth 0.
KEPT = ["commit", "repetitions", "decode_tps_all", "prefill_tps_all", "decode_ms_per_token_p50",
        "decode_ms_per_token_p99", "ttft_ms_cold", "ttft_ms_warm", "bytes_per_token", "decode_gbps", "copy_gbps",
        "cpu_us_per_token", "peak_bytes", "held_bytes", "file_bytes", "executor", "executor_reason"]


class Side:
    """Figures of one program on one row. A figure that cannot be measured is a line of `faults`."""

    def __init__(self):
        self.figures = {"faults": []}

    def put(self, what, key, measure):
        """Stores a measured figure, in a table of its kind if `key` is not None."""
        try:
            value = measure()
        except Fault as fault:
            self.figures["faults"].append(f"{what}{'' if key is None else f' {key}'}: {fault}")
            return
        if key is None:
            self.figures[what] = value
        else:
            self.figures.setdefault(what, {})[str(key)] = value


def today():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")


def wall_seconds(command, env=None):
    """Seconds of a process. The first of two runs fills the caches."""
    for _ in range(2):
        started = time.monotonic()
        run(command, BENCH_SECONDS, env)
        seconds = time.monotonic() - started
    return seconds


def measure_ours(args, path, parts):
    side = Side()

    def bench(*words):
        return json.loads(run([args.dopplergl, "bench", "-q", "--device", args.device, "-m", path, "-r",
                               str(args.repetitions), "--json", *words, *args.flag], BENCH_SECONDS))

    def first():
        report = bench("-n", "128", "--prompt-tokens", "512")
        side.figures.update({key: report.get(key) for key in KEPT})
        side.figures["dispatches_per_token"] = report["counters"]["decode"]["dispatches"] / 128
        side.figures["device"], side.figures["driver"] = report["device"]["name"], report["env"]["gpu"]["description"]
        side.figures["prefill"] = {"512": report["prefill_tps"]}
        return report["decode_tps"]

    # This run is made for every row. It also has the figures for one sequence, a prompt of 512 tokens, and memory.
    side.put("decode", 0, first)
    if "decode" in parts:
        for depth in DEPTHS[1:]:
            side.put("decode", depth, lambda: bench("-n", "64", "--prompt-tokens", "1", "-d", str(depth))["decode_tps"])
    for precision in ["f32"] * ("prefill" in parts or "sequences" in parts) + ["f16"] * ("f16" in parts):
        words = [] if precision == "f32" else ["--compute-precision", "f16"]
        after = "" if precision == "f32" else "_f16"
        if precision == "f16" or "prefill" in parts:
            for n in PROMPTS:
                if precision == "f16" or n != 512:
                    side.put("prefill" + after, n,
                             lambda: bench("-n", "1", "--prompt-tokens", str(n), *words)["prefill_tps"])
        if precision == "f16" or "sequences" in parts:
            for n in SEQUENCES:
                side.put("sequences" + after, n, lambda: bench("-n", "48", "--prompt-tokens", "16", "--batch", str(n),
                                                               *words)["decode_tps"])
    if "load" in parts:
        side.put("load_s", None, lambda: json.loads(run([args.dopplergl, "bench", "load", "-q", "--device", args.device,
                                                         "-m", path, "-r", "3", "--json"],
                                                        BENCH_SECONDS))["warm"]["model_ms"] * 1e-3)
        side.put("dd_s", None, lambda: wall_seconds(["dd", f"if={path}", "of=/dev/null", "bs=16M"]))
    if "start" in parts:
        side.put("start_s", None, lambda: wall_seconds([args.dopplergl, "generate", "-q", "--device", args.device, "-m",
                                                        path, "--ids", "1", "-n", "1", "--temp", "0", "--json"]))
    return side.figures


def measure_peer(args, path, device, parts):
    side = Side()
    env = dict(os.environ, LD_LIBRARY_PATH=args.peer + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    base = [os.path.join(args.peer, "llama-bench"), "-m", path, "-dev", device, "-ngl", "99", "-fa", "1", "-o", "json"]
    batched = os.path.join(args.peer, "llama-batched-bench")

    def bench(prompts, tokens, depths=(0,)):
        words = ["-r", str(args.repetitions), "-p", ",".join(map(str, prompts)), "-n", str(tokens), "-d",
                 ",".join(map(str, depths))]
        out = run(base + words, BENCH_SECONDS, env)
        found = json.loads(out[out.index("["):])
        for test in found:
            side.figures["build"] = f"{test['build_commit']} ({test['build_number']})"
        return found

    def take(what, field, tests, key):
        for test in tests:
            if test[field]:
                side.figures.setdefault(what, {})[str(test[key])] = statistics.median(test["samples_ts"])

    def first():
        tests = bench(PROMPTS if "prefill" in parts else (512,), 128)
        take("prefill", "n_prompt", tests, "n_prompt")
        take("decode", "n_gen", tests, "n_depth")
        return True

    def together():
        if os.path.exists(batched):
            out = run([batched, "-m", path, "-dev", device, "-ngl", "99", "-fa", "on", "-npp", "16", "-ntg", "48",
                       "-npl", ",".join(map(str, SEQUENCES)), "-c", "8192", "--output-format", "jsonl"],
                      BENCH_SECONDS, env)
            for line in out.splitlines():
                if line.startswith("{"):
                    test = json.loads(line)
                    side.figures.setdefault("sequences", {})[str(test["pl"])] = test["speed_tg"]
            return "separate sequences"
        take("sequences", "n_prompt", bench(SEQUENCES, 0), "n_prompt")
        return "tokens of one prompt"

    side.put("first", None, first)
    if "decode" in parts:
        side.put("depths", None, lambda: take("decode", "n_gen", bench((0,), 64, DEPTHS[1:]), "n_depth"))
    if "sequences" in parts:
        side.put("sequences_are", None, together)
    if "start" in parts:
        side.put("start_s", None, lambda: wall_seconds(base + ["-p", "1", "-n", "0", "-r", "1", "--no-warmup"], env))
    side.figures.pop("first", None), side.figures.pop("depths", None)
    return side.figures


def make_file(args, path, shape, kind):
    """Makes the row's file. Returns its maker. Raises Fault."""
    quantize = os.path.join(args.peer or "", "llama-quantize")
    made = "random blocks"
    try:
        if args.direct or not args.peer or kind.startswith("all-") or not os.path.exists(quantize):
            random_gguf.write(path, random_gguf.SHAPES[shape], kind)
        else:
            random_gguf.write(path + ".f16", random_gguf.SHAPES[shape], "F16")
            env = dict(os.environ, LD_LIBRARY_PATH=args.peer + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
            run([quantize, path + ".f16", path, kind], MAKE_SECONDS, env)
            made = "llama-quantize"
    except OSError as error:
        raise Fault(f"the file could not be made: {error}") from None
    finally:
        if os.path.exists(path + ".f16"):
            os.remove(path + ".f16")
    return made


def summary(side, name):
    decode, prefill = side.get("decode", {}).get("0"), side.get("prefill", {}).get("512")
    print(f"  {name}: " + (f"decode {decode:.1f}, " if decode else "") +
          (f"prefill {prefill:.1f} tok/s" if prefill else "") +
          "".join(f"\n    {fault}" for fault in side["faults"]), flush=True)


def measure_row(args, name, parts):
    shape, kind = name.split(":")
    started = time.monotonic()
    entry = {"row": name, "shape": shape, "type": kind, "measured": today(), "flags": args.flag, "ours": {"faults": []}, "peers": {}}
    path = os.path.join(args.work, f"measure-{os.getpid()}.gguf")
    print(name, flush=True)
    try:
        entry["made"] = make_file(args, path, shape, kind)
        entry["bytes"] = os.path.getsize(path)
        print(f"  {entry['bytes'] / 1e9:.2f} GB by {entry['made']} in {time.monotonic() - started:.1f} s", flush=True)
        entry["ours"] = measure_ours(args, path, parts)
        summary(entry["ours"], "ours")
        for device in args.peer_device if args.peer else []:
            entry["peers"][device] = measure_peer(args, path, device, parts)
            summary(entry["peers"][device], device)
    except Fault as fault:
        entry["ours"]["faults"].append(str(fault))
        summary(entry["ours"], "ours")
    finally:
        if os.path.exists(path):
            os.remove(path)
    print(f"  {time.monotonic() - started:.1f} s", flush=True)
    return entry


def listed(parser, flag, text, known):
    """The words of a list with commas. Ends the script if one is unknown."""
    words = [word for word in text.split(",") if word] if text is not None else list(known)
    for word in words:
        if word not in known:
            parser.error(f"{flag}: no {word}; there are {', '.join(known)}")
    return words


def row_name(parser, word):
    shape, _, kind = word.partition(":")
    try:
        kind = random_gguf.quant_name(kind)
    except ValueError:
        parser.error(f"--rows {word}: wanted SHAPE:TYPE with a type of {', '.join(random_gguf.FILE_TYPES)}, all-q4_k")
    listed(parser, "--rows", shape, random_gguf.SHAPES)
    return f"{shape}:{kind}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dopplergl", default="build/dopplergl", help="the command")
    parser.add_argument("--device", default="0", help="as its --device")
    parser.add_argument("--data", default="tests", help="folder with models/ (DOPPLERGL_DATA)")
    parser.add_argument("--fixtures", help="folder of models with reference.safetensors")
    parser.add_argument("--prompts", type=int, default=1000, help="maximum prompts per model")
    parser.add_argument("--peer", help="folder with llama-bench, llama-quantize and their libraries")
    parser.add_argument("--peer-device", action="append", help="as llama-bench's -dev; Vulkan0 and CUDA0")
    parser.add_argument("--rows", help="SHAPE:TYPE with commas between, measured in this order; default: " +
                        ",".join(ROWS))
    parser.add_argument("--parts", help="with commas between; default: " + ",".join(PARTS))
    parser.add_argument("--direct", action="store_true", help="write quantised files at once, without llama-quantize")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--flag", action="append", default=[], help="one more word for `dopplergl bench`")
    parser.add_argument("--work", default="/dev/shm" if os.path.isdir("/dev/shm") else "/tmp",
                        help="folder for the files")
    parser.add_argument("--out", required=True, help="the report")
    args = parser.parse_args()
    args.peer_device = args.peer_device or ["Vulkan0", "CUDA0"]
    os.environ.setdefault("DOPPLERGL_DATA", args.data)
    parts = listed(parser, "--parts", args.parts, PARTS)
    names = ROWS if args.rows is None else [row_name(parser, word) for word in args.rows.split(",") if word]

    if args.fixtures and not os.path.isdir(args.fixtures):
        parser.error(f"--fixtures: there is no folder {args.fixtures}")
    folders = models_with_reference(args.data, args.fixtures)
    if not folders:
        parser.error("found no model with a reference, so tokens cannot be checked (--data, --fixtures)")
    started = time.monotonic()
    checks = check_models(args.dopplergl, args.device, folders, args.prompts)
    for check in checks:
        print(f"tokens of {check['model']}: {check['prompts']} prompts" +
              "".join(f"\n  {fault}" for fault in check["faults"]), flush=True)
    print(f"checked in {time.monotonic() - started:.1f} s", flush=True)
    if any(check["faults"] for check in checks):
        sys.exit("tokens differ from the reference: no figure counts")

    report = {"measured": today(), "device": None,
              "driver": None, "checks": checks, "rows": []}
    before = []
    if os.path.exists(args.out):
        with open(args.out) as f:
            old = json.load(f)
        report["device"], before = old["device"], old["rows"]
    for name in names:
        entry = measure_row(args, name, parts)
        device = entry["ours"].get("device")
        if device and report["device"] and report["device"] != device:
            sys.exit(f"{args.out} is of {report['device']}, this is {device}: rows of two GPUs do not go together")
        report["device"] = device or report["device"]
        report["driver"] = entry["ours"].get("driver") or report["driver"]
        report["rows"].append(entry)
        done = [r["row"] for r in report["rows"]]
        whole = dict(report, rows=[r for r in before if r["row"] not in done] + report["rows"])
        with open(args.out + ".part", "w") as f:
            json.dump(whole, f, indent=1)
            f.write("\n")
        os.replace(args.out + ".part", args.out)


if __name__ == "__main__":
    main()
