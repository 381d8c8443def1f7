#!/usr/bin/env python3
"""Measures this engine beside llama.cpp on one GPU, after its tokens were found right there.

    measure.py --dopplergl build/dopplergl [--peer DIR] [--fixtures DIR] [--rows NAME,...] --out FILE.json

First every model with a reference (the bundled one, and each folder of --fixtures that has a
reference.safetensors) continues the reference's prompts greedily on this device: a token may differ
only where the reference's two best logits are closer than MARGIN. No figure is taken when one does.
Then each row is measured, ours and the peer's one after the other: `bench --shape`, and llama-bench
(--peer: its folder) over a file that random_gguf.py makes in --work and that is removed afterwards.
A row whose file cannot be made in MAKE_SECONDS says so. FILE.json is written after each row; when it
exists and is of the same GPU, its other rows stay, so that rows may be spread over calls.
performance_table.py turns it into the table of docs/performance.md. Needs nothing but Python.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN = 0.02
MAKE_SECONDS = 180
BENCH_SECONDS = 240

# name, shape and type here, shape and type of the peer's file (None: the peer's row is another), depth, tokens of
# decode, further flags
ROWS = [
    ("1b-q4_k", "llama-3.2-1b:q4_k", ("llama-3.2-1b", "Q4_K_M"), 0, 128, []),
    ("1b-q8_0", "llama-3.2-1b:q8_0", ("llama-3.2-1b", "Q8_0"), 0, 128, []),
    ("1b-f16", "llama-3.2-1b:f16", ("llama-3.2-1b", "F16"), 0, 128, []),
    ("gemma-1b-q4_k", "gemma-3-1b:q4_k", ("gemma-3-1b", "Q4_K_M"), 0, 128, []),
    ("8b-q4_k", "llama-3.1-8b:q4_k", ("llama-3.1-8b", "Q4_K_M"), 0, 128, []),
    ("1b-q4_k-d4096", "llama-3.2-1b:q4_k", ("llama-3.2-1b", "Q4_K_M"), 4096, 64, []),
    ("gpt-oss-20b", "gpt-oss-20b:mxfp4", ("gpt-oss-20b", "MXFP4_MOE"), 0, 128, []),
    ("qwen3-30b-a3b", "qwen3-30b-a3b:q4_k", ("qwen3-30b-a3b", "Q4_K_M"), 0, 128, []),
    ("mixtral-8x7b", "mixtral-8x7b:q4_k", ("mixtral-8x7b", "Q4_K_M"), 0, 128, []),
    ("qwen3-0.6b-q4_k", "qwen3-0.6b:q4_k", ("qwen3-0.6b", "Q4_K_M"), 0, 128, []),
]


def run(command, seconds, env=None):
    """(standard output, None) or (None, what went wrong)"""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env)
    except subprocess.TimeoutExpired:
        return None, f"took longer than {seconds} s"
    except OSError as error:
        return None, str(error)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return None, lines[-1] if lines else f"exit code {done.returncode}"
    return done.stdout, None


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
    """None, or what is wrong with the continuation of one prompt."""
    out, fault = run([program, "generate", "-q", "-m", model, "--device", device, "--temp", "0", "--ignore-eos",
                      "-n", str(len(greedy)), "--ids", ",".join(map(str, ids)), "--json"], BENCH_SECONDS)
    if fault:
        return fault
    tokens = json.loads(out)["tokens"]
    for i, want in enumerate(greedy):
        if i >= len(tokens):
            return f"token {i} is missing"
        if tokens[i] != want:
            # After a choice that was nearly a tie the texts go on apart.
            return None if margin[i] < MARGIN else f"token {i} is {tokens[i]}, wanted {want} (margin {margin[i]:.3f})"
    return None


def check_models(program, device, folders, most):
    """One entry per model, of its first `most` prompts; several processes at a time, since little of
    each is the GPU's."""
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

KEPT = ["model", "quantization", "commit", "flags", "depth", "prompt_tokens", "decode_tokens", "repetitions",
        "prefill_tps", "decode_tps", "prefill_tps_all", "decode_tps_all", "decode_ms_per_token_p50",
        "decode_ms_per_token_p90", "decode_ms_per_token_p99", "ttft_ms_cold", "ttft_ms_warm", "bytes_per_token",
        "decode_gbps", "copy_gbps", "cpu_us_per_token", "peak_bytes", "estimate_bytes", "compile_ms", "load_ms",
        "weight_bytes", "executor", "executor_reason"]


def measure_ours(args, shape, depth, tokens, flags):
    command = [args.dopplergl, "bench", "-q", "--device", args.device, "--shape", shape, "-n", str(tokens),
               "--prompt-tokens", "512", "--depth", str(depth), "-r", str(args.repetitions), "--json"]
    out, fault = run(command + flags + args.flag, BENCH_SECONDS)
    if fault:
        return {"fault": fault}
    report = json.loads(out)
    ours = {key: report.get(key) for key in KEPT}
    ours["parameters"] = report["modelInfo"]["parameters"]
    ours["dispatches_per_token"] = report["counters"]["decode"]["dispatches"] / tokens
    return ours | {"device": report["device"]["name"], "driver": report["env"]["gpu"]["description"]}


def make_file(path, shape, quant):
    """None, or what went wrong."""
    started = time.monotonic()
    _, fault = run([sys.executable, os.path.join(HERE, "random_gguf.py"), path, shape, quant], MAKE_SECONDS)
    if fault:
        return f"the file could not be made: {fault}"
    print(f"  {shape} {quant}: {os.path.getsize(path) / 1e9:.2f} GB made in {time.monotonic() - started:.1f} s",
          flush=True)
    return None


def measure_peer(args, path, device, depth, tokens):
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = args.peer + ":" + env.get("LD_LIBRARY_PATH", "")
    out, fault = run([os.path.join(args.peer, "llama-bench"), "-m", path, "-dev", device, "-ngl", "99", "-fa", "1",
                      "-p", "512", "-n", str(tokens), "-d", str(depth), "-r", str(args.repetitions), "-o", "json"],
                     BENCH_SECONDS, env)
    if fault:
        return {"fault": fault}
    result = {}
    for test in json.loads(out[out.index("["):]):
        phase = "decode" if test["n_gen"] else "prefill"
        samples = sorted(test["samples_ts"])
        result[f"{phase}_tps"] = samples[len(samples) // 2]
        result[f"{phase}_tps_all"] = test["samples_ts"]
        result["build"] = f"{test['build_commit']} ({test['build_number']})"
    return result


def measure_row(args, row):
    name, shape, peer, depth, tokens, flags = row
    started = time.monotonic()
    entry = {"row": name, "shape": shape, "depth": depth, "tokens": tokens, "flags": flags,
             "ours": measure_ours(args, shape, depth, tokens, flags), "peers": {}}
    print(f"{name}: " + (entry["ours"].get("fault") or "decode %.1f, prefill %.1f tok/s, %s" % (
        entry["ours"]["decode_tps"], entry["ours"]["prefill_tps"], entry["ours"]["executor"])), flush=True)
    if args.peer and peer:
        path = os.path.join(args.work, f"measure-{os.getpid()}.gguf")
        try:
            fault = make_file(path, *peer)
            for device in args.peer_device:
                got = {"fault": fault} if fault else measure_peer(args, path, device, depth, tokens)
                entry["peers"][device] = got
                print(f"  {device}: " + (got.get("fault") or "decode %.1f, prefill %.1f tok/s" % (
                    got["decode_tps"], got["prefill_tps"])), flush=True)
        finally:
            if os.path.exists(path):
                os.remove(path)
    print(f"  {time.monotonic() - started:.1f} s", flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dopplergl", default="build/dopplergl", help="the command")
    parser.add_argument("--device", default="0", help="as its --device")
    parser.add_argument("--data", default="tests", help="folder with models/ (DOPPLERGL_DATA)")
    parser.add_argument("--fixtures", help="folder of models with reference.safetensors")
    parser.add_argument("--prompts", type=int, default=1000, help="of each of them at most")
    parser.add_argument("--peer", help="folder with llama-bench and its libraries")
    parser.add_argument("--peer-device", action="append", help="as llama-bench's -dev; Vulkan0 and CUDA0")
    parser.add_argument("--rows", help="names with commas between, measured in this order; all: " + ",".join(r[0] for r in ROWS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--flag", action="append", default=[], help="one more word for `dopplergl bench`")
    parser.add_argument("--work", default="/dev/shm" if os.path.isdir("/dev/shm") else "/tmp",
                        help="folder for the peer's files")
    parser.add_argument("--out", required=True, help="the report")
    args = parser.parse_args()
    args.peer_device = args.peer_device or ["Vulkan0", "CUDA0"]
    os.environ.setdefault("DOPPLERGL_DATA", args.data)
    names = args.rows.split(",") if args.rows is not None else [r[0] for r in ROWS]
    unknown = [name for name in names if name and name not in [r[0] for r in ROWS]]
    if unknown:
        parser.error(f"no row {unknown[0]}; there are {', '.join(r[0] for r in ROWS)}")

    if args.fixtures and not os.path.isdir(args.fixtures):
        parser.error(f"--fixtures: there is no folder {args.fixtures}")
    folders = models_with_reference(args.data, args.fixtures)
    if not folders:
        parser.error("no model with a reference: nothing says that tokens are right (--data, --fixtures)")
    started = time.monotonic()
    checks = check_models(args.dopplergl, args.device, folders, args.prompts)
    for check in checks:
        print(f"tokens of {check['model']}: {check['prompts']} prompts" +
              "".join(f"\n  {fault}" for fault in check["faults"]), flush=True)
    print(f"checked in {time.monotonic() - started:.1f} s", flush=True)
    if any(check["faults"] for check in checks):
        sys.exit("tokens differ from the reference: no figure counts")

    report = {"measured": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "device": None,
              "driver": None, "checks": checks, "rows": []}
    before = []
    if os.path.exists(args.out):
        with open(args.out) as f:
            old = json.load(f)
        report["device"], before = old["device"], old["rows"]
    for row in sorted((r for r in ROWS if r[0] in names), key=lambda r: names.index(r[0])):
        entry = measure_row(args, row)
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
