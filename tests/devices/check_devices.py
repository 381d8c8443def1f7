#!/usr/bin/env python3
"""Compiles the kernels of many models for chips that this machine does not have.

    check_devices.py [--build build] [--shims DIR] [--chips 'g52 dg2'] [--models WORDS] [--fresh]
                     [--update] [--jobs 2] [--minutes 60]    MESA=SUITE: by newer_mesa.sh
    check_devices.py --seen

Mesa's drm-shims let the real drivers compile without hardware (over.sh, build_shims.sh). On each chip
of chips.tsv the script runs `dopplergl kernels check --compile-only` for each model of models.txt. It
compiles the sources of the model's plan, each in a separate process, and equal sources once per chip.
Results are stored in the folder of the shims by chip, driver version and SHA-256 of the source without
comments. The next run compiles only new sources; --fresh ignores earlier results. --update writes the
table of docs/devices.md and compiled.tsv from the results of all chips.
--seen compares the kernels of this tree with compiled.tsv, prints one line and compiles nothing.
The last line is "N passed, M failed", counted in chips. The exit code is 1 if a chip failed.
`make check-devices` runs it (docs/testing.md).
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(TREE, "docs/devices.md")
COMPILED = os.path.join(HERE, "compiled.tsv")
# Lines before and after each table of PAGE. %s is "" or " MESA=SUITE".
BEGIN, END = "<!-- make check-devices%s: begin -->", "<!-- make check-devices%s: end -->"
# Drivers that Debian builds for ARM only: its packages of a newer Mesa lack them.
ARM_ONLY = ("v3d", "panfrost")
SUITES = ("sid", "trixie")  # values of MESA: Debian suites with a newer Mesa
# Slow compilers first, so that the run does not end with one of them alone.
SLOW = ("v3d42", "v3d71", "navi31", "navi21", "t860")

# A row of chips.tsv.
Chip = collections.namedtuple("Chip", "chip shim variable checked name")


def read_table(path):
    """Rows of a file with tab-separated columns."""
    with open(path, encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]


def all_chips():
    return [Chip(*row) for row in read_table(os.path.join(HERE, "chips.tsv"))]


def refuse(words):
    """Ends the script because its arguments are wrong."""
    print("check_devices: " + words, file=sys.stderr)
    sys.exit(2)


# ---- models --------------------------------------------------------------------------------------


def unpack(build, archive):
    """Unpacks an archive of the test data. Returns its folder, named as in tests/support/test.c, or None."""
    source = os.path.join(os.environ.get("DOPPLERGL_TEST_DATA") or os.path.join(TREE, "../shared"), archive)
    folder = os.path.join(build, "testdata", re.sub(r"[^A-Za-z0-9._]", "-", archive.split(".tar")[0]))
    if os.path.isdir(folder):
        return folder
    if not os.path.exists(source):
        return None
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    aside = tempfile.mkdtemp(dir=os.path.dirname(folder))
    subprocess.run(["tar", "-xf", source, "-C", aside, "--no-same-owner"], check=True)
    os.rename(aside, folder)
    return folder


def list_models(build, words):
    """Returns [(name, arguments)] of all models, and the archives of models.txt that are missing."""
    models, missing = [], []
    with open(os.path.join(HERE, "models.txt"), encoding="utf-8") as f:
        lines = [line.split() for line in f if line.strip() and not line.startswith("#")]
    for kind, *rest in lines:
        if kind == "bundled":
            models.append(("bundled", []))
        elif kind == "shape":
            models.append((rest[0], ["--shape", rest[0]]))
        else:
            folder = unpack(build, rest[0])
            if not folder:
                missing.append(rest[0])
                continue
            for config in sorted(glob.glob(os.path.join(folder, "**/config.json"), recursive=True)):
                path = os.path.dirname(config)
                models.append((os.path.basename(path), ["-m", path]))
    for word in words:
        if word not in [m[0] for m in models]:
            refuse(f"there is no model '{word}'; there are {' '.join(m[0] for m in models)}")
    if words:
        models = [m for m in models if m[0] in words]
    return models, missing


# ---- results -------------------------------------------------------------------------------------


class Results:
    """Results of one chip: a file with one line of JSON per source, which is only appended to.

    The key of a result is the driver version and the SHA-256 of the source, which ignores comments.
    """

    def __init__(self, folder, chip):
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, chip + ".jsonl")
        self.all = {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                for line in f:
                    try:
                        entry = json.loads(line)
                    except ValueError:  # an interrupted run left an incomplete line
                        continue
                    self.all[entry["version"], entry["sha256"]] = entry

    def add(self, version, text):
        entry = dict(text, version=version)
        self.all[version, text["sha256"]] = entry
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(entry) + "\n")


def spills_of(stats):
    """Returns the worst (spills, fills) of a driver's statistics, or None if it reports none."""
    found = re.findall(r"(\d+):(\d+) spills:fills", stats)  # iris, crocus, v3d, panfrost
    found += [(n, "0") for n in re.findall(r"Spilled VGPRs: (\d+)", stats)]  # radeonsi
    found += re.findall(r"(\d+) stp, (\d+) ldp", stats)  # freedreno
    return max(((int(a), int(b)) for a, b in found), key=lambda pair: pair[0] + pair[1], default=None)


# ---- one chip ------------------------------------------------------------------------------------


class Run:
    """Settings of a run, and the state that its chips share."""

    def __init__(self, args):
        self.args = args
        self.program = os.path.abspath(os.path.join(args.build, "dopplergl"))
        self.models, self.missing = list_models(args.build, args.models.split())
        self.suite = os.environ.get("MESA", "")
        self.suffix = "-" + self.suite if self.suite else ""
        self.summaries = os.path.join(args.shims, "summaries" + self.suffix)
        self.end = time.monotonic() + args.minutes * 60
        self.lock = threading.Lock()
        self.environment = dict(
            os.environ,
            DOPPLERGL_SHIMS=args.shims,
            DOPPLERGL_DATA=os.path.join(TREE, "tests"),  # newer_mesa.sh copies the program elsewhere
            # Neither uses nor changes the user's caches and settings.
            XDG_CACHE_HOME=os.path.join(args.shims, "cache"),
            XDG_CONFIG_HOME=os.path.join(args.shims, "config"),
        )

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def over(self, chip, *words, seconds=3600):
        """Runs the command on a chip. Returns (exit code, standard output, standard error)."""
        command = [os.path.join(HERE, "over.sh"), chip, self.program, *words]
        try:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return 124, "", f"{words[0]} did not end within {seconds} seconds"
        return done.returncode, done.stdout, done.stderr


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else ""


def open_chip(run, chip):
    """Returns the chip's row of `devices`, or {"reason": ...} if the chip does not open."""
    code, out, err = run.over(chip, "devices", "--json", seconds=300)
    try:
        rows = [row for row in json.loads(out) if not row["software"]]
    except ValueError:
        return {"reason": last_line(err) or f"devices ended with exit code {code}"}
    if not rows:
        return {"reason": "no device"}
    return rows[0] if rows[0]["usable"] else {"reason": rows[0]["reason"]}


def keep_summary(run, summary):
    os.makedirs(run.summaries, exist_ok=True)
    with open(os.path.join(run.summaries, summary["chip"] + ".json"), "w", encoding="utf-8") as f:
        json.dump(summary, f)


def check_chip(run, chip):
    """Compiles the sources without a result. Returns the summary of the chip, for the table."""
    start = time.monotonic()
    device = open_chip(run, chip.chip)
    summary = {"chip": chip.chip, "name": chip.name, "device": device, "failed": {}, "texts": {}, "models": {}}
    if "version" not in device:
        run.say(f"{chip.chip}: does not open: {device['reason']}")
        keep_summary(run, summary)
        return summary
    # The names of AMD's devices contain versions of this machine's kernel: remove them.
    device["name"] = re.sub(r", DRM [^)]*", "", device["name"])
    version = "%s, %s" % (device["name"], device["version"])
    results = Results(os.path.join(run.args.shims, "results" + run.suffix), chip.chip)
    used, compiled, reused = summary["texts"], 0, 0
    known_file = tempfile.NamedTemporaryFile("w", prefix="known-", suffix=".txt", delete=False)
    known_file.close()
    for name, words in run.models:
        if time.monotonic() > run.end:
            summary["failed"]["models after " + name] = f"not reached within {run.args.minutes} minutes"
            break
        known = {sha for v, sha in results.all if v == version and (not run.args.fresh or sha in used)}
        with open(known_file.name, "w", encoding="utf-8") as f:
            f.writelines(sha + "\n" for sha in sorted(known))
        code, out, err = run.over(
            chip.chip, "kernels", "check", "--compile-only", "--executor", "dispatch", "--json", "--known",
            known_file.name, *words)
        try:
            texts = [text for text in json.loads(out)["texts"] if text["planned"]]
        except (ValueError, KeyError, TypeError):
            summary["failed"][name] = last_line(err) or f"ended with exit code {code}"
            continue
        summary["models"][name] = len(texts)
        for text in texts:
            sha = text["sha256"]
            if text["verdict"] != "known":
                results.add(version, text)
                compiled += 1
            elif sha not in used:
                reused += 1
            used[sha] = dict(results.all[version, sha], name=text["name"], op=text["op"])
    os.unlink(known_file.name)
    for text in used.values():
        if text["verdict"] != "ok":
            summary["failed"].setdefault(text["name"], (text["reason"] or text["verdict"]).splitlines()[0][:200])
    ms = sum(text["ms"] for text in used.values())
    run.say(
        "%-10s %3d models, %4d texts: %d compiled, %d reused; %.0f s of processor time for all, %.0f s here; %s"
        % (chip.chip, len(summary["models"]), len(used), compiled, reused, ms / 1e3, time.monotonic() - start,
           "ok" if not summary["failed"] else "FAILED"))
    for name, reason in summary["failed"].items():
        run.say(f"{chip.chip}: FAILED {name}: {reason}")
    if not run.args.models:  # a run with some of the models has no summary of the chip
        keep_summary(run, summary)
    return summary


# ---- the table -----------------------------------------------------------------------------------


def size(value):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << shift:
            return f"{value / (1 << shift):.3g} {unit}"
    return str(value)


def kernel_of(text):
    return text["name"].split()[0]


def kernels_by_op(summary):
    by_op = collections.defaultdict(set)
    for text in summary["texts"].values():
        by_op[text["op"]].add(kernel_of(text))
    return by_op


def common_kernels(summaries):
    """Returns {operation: kernels} of the operations with the same kernels on every chip that opens."""
    tables = [kernels_by_op(s) for s in summaries if s["texts"]]
    ops = sorted({op for table in tables for op in table})
    return {op: tables[0][op] for op in ops if all(table.get(op) == tables[0].get(op) for table in tables)}


def row_of(summary, common):
    device, texts = summary["device"], summary["texts"].values()
    if not texts:
        return [summary["chip"], summary["name"], "no: " + device.get("reason", "nothing was planned"), "", "", "", "",
                "does not run"]
    limits = device["limits"]
    facts = "%d buffers of %s, %s shared, %d invocations, %s" % (
        limits["max_ssbo_bindings"], size(limits["max_ssbo_bytes"]), size(limits["max_shared_bytes"]),
        limits["max_invocations"],
        "subgroups of %d" % limits["subgroup_size"] if limits["subgroup_size"] else "no subgroups")
    kernels = ", ".join(
        name for op, names in sorted(kernels_by_op(summary).items()) if op not in common for name in sorted(names))
    slowest = max(texts, key=lambda text: text["ms"])
    spilling = [(spills_of(text.get("stats") or ""), text) for text in texts]
    measured = [pair for pair in spilling if pair[0]]
    if not measured:
        spills = "not reported"
    else:
        (a, b), text = max(measured, key=lambda pair: sum(pair[0]))
        by_kernel = {kernel_of(t) for pair, t in measured if sum(pair)}
        spills = "none" if a + b == 0 else f"{kernel_of(text)} {a}:{b}"
        if len(by_kernel) > 1:
            spills += f"; also {', '.join(sorted(by_kernel - {kernel_of(text)}))}"
    failed = sorted({name.split()[0] for name in summary["failed"]})
    return [summary["chip"], summary["name"], "yes", facts, kernels,
            "%d: %.0f ms, %s" % (len(texts), slowest["ms"], kernel_of(slowest)), spills,
            "compiled only" if not failed else "fails: " + ", ".join(failed)]


def put_table(summaries, versions, suite=""):
    begin, end = (mark % (f" MESA={suite}" if suite else "") for mark in (BEGIN, END))
    common = common_kernels(summaries)
    models = max(len(s["models"]) for s in summaries)
    lines = [begin, "", f"Compiled with {' and '.join(versions)}; plans of {models} model{'s' * (models != 1)}.", "",
             "| chip | device | opens | limits | kernels | texts: slowest | worst spills:fills | verdict |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(cell.replace("|", "/") for cell in row_of(s, common)) + " |" for s in summaries]
    names = sorted(name for names in common.values() for name in names)
    lines += ["", *textwrap.wrap(f"Every chip also has: {', '.join(names)}.", 100), "", end]
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"check_devices: {PAGE} lacks the lines {begin} and {end}, once each")
    before, rest = text.split(begin)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(before + "\n".join(lines) + rest.split(end)[1])


# ---- compiled.tsv: hashes of the kernels that the chips compiled ---------------------------------


def code_of(path):
    """Returns the text of a file without comments, indentation and blank lines, but with its //! lines."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r'^(//!)|("(?:\\.|[^"\\])*")|//.*|/\*(?:.|\n)*?\*/', r"\1\2", f.read(), flags=re.M)
    return "".join(line.strip() + "\n" for line in text.splitlines() if line.strip())


def texts_of(path):
    """Returns the paths of a kernel and of the libs that its LIB lines can select."""
    code = code_of(path)
    when = dict(re.findall(r"^//! WHEN (\w+) (.*)", code, re.M))
    names = []
    for name in re.findall(r"^//! LIB (\S+)", code, re.M):
        key = re.search(r"{(\w+)}", name)
        words = when.get(key[1], "none").split() if key else [""]
        names += [re.sub(r"{\w+}", word, name) for word in words]
    return [path] + [lib for name in names for lib in glob.glob(os.path.join(TREE, "kernels/lib/*", name + ".glsl"))]


def sources():
    """Returns {name: hash} of every built-in kernel with its libs, and of the generator of sources."""
    files = {os.path.basename(path)[:-len(".comp")]: texts_of(path)
             for path in glob.glob(os.path.join(TREE, "kernels/op/*/*.comp"))}
    files["(generator)"] = sorted(
        glob.glob(os.path.join(TREE, "kernels/gen/*.c")) + glob.glob(os.path.join(TREE, "kernels/*.h")))
    return {name: hashlib.sha256("".join(map(code_of, paths)).encode()).hexdigest()[:16]
            for name, paths in files.items()}


def put_compiled(summaries):
    hashes = sources()
    rows = collections.defaultdict(list)
    for summary in summaries:
        names = {kernel_of(text) for text in summary["texts"].values()} | {"(generator)"}
        failed = {name.split()[0] for name in summary["failed"]}
        for name in names - failed:
            rows[name].append(summary["chip"])
    with open(COMPILED, "w", encoding="utf-8") as f:
        f.write("# Written by `make check-devices UPDATE=1`. Columns: kernel; hash of its text and libs without comments; chips on\n"
                "# which all chosen sources of the kernel compiled. (generator): kernels/gen and the headers of kernels/.\n")
        for name in sorted(rows):
            f.write(f"{name}\t{hashes.get(name, '-')}\t{' '.join(rows[name])}\n")


def print_seen():
    """Prints one line with the chips that have not compiled the current version of a kernel."""
    if not os.path.exists(COMPILED):
        print("devices: nothing was compiled for other chips yet: run make check-devices UPDATE=1")
        return
    hashes, old = sources(), {name: (sha, chips.split()) for name, sha, chips in read_table(COMPILED)}
    changed = [name for name in sorted(old) if hashes.get(name) not in (None, old[name][0])]
    chips = {chip for name in changed for chip in old[name][1]}
    total = len({chip for _, chips in old.values() for chip in chips})
    if changed:
        which = "no chip has" if len(chips) == total else "%s have not" % " ".join(sorted(chips))
        shown = ", ".join(changed[:6]) + (f" and {len(changed) - 6} more" if len(changed) > 6 else "")
        print(f"devices: {which} compiled the current {shown}: run make check-devices")
    else:
        print(f"devices: {total} chips have compiled the current kernels")


# ---- all -----------------------------------------------------------------------------------------


def read_summaries(folder, chips):
    summaries = []
    for chip in chips:
        path = os.path.join(folder, chip.chip + ".json")
        if not os.path.exists(path):
            sys.exit(f"check_devices: there is no result of {chip.chip}; run all chips before --update")
        with open(path, encoding="utf-8") as f:
            summaries.append(json.load(f))
    return summaries


def find_shims(args):
    """Returns the folder of the shims. Builds them if they are missing."""
    cache = os.environ.get("XDG_CACHE_HOME")
    folder = os.path.abspath(args.shims or (os.path.join(cache, "dopplergl-shims") if cache
                                            else os.path.join(args.build, "shims")))
    shims = {chip.shim for chip in all_chips()}
    if not all(os.path.exists(os.path.join(folder, f"prefix/lib/lib{name}_noop_drm_shim.so")) for name in shims):
        print(f"building Mesa's drivers and drm-shims in {folder}, once: about 10 minutes on two cores", flush=True)
        if subprocess.run([os.path.join(HERE, "build_shims.sh"), folder, str(args.jobs)]).returncode:
            sys.exit("check_devices: the shims could not be built")
    return folder


def choose_chips(words):
    chips = all_chips()
    if not words:
        return [chip for chip in chips if chip.checked == "yes"]
    for word in words:
        if word not in [chip.chip for chip in chips]:
            refuse(f"there is no chip '{word}'; there are {' '.join(chip.chip for chip in chips)}")
    return [chip for chip in chips if chip.chip in words]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build", help="folder with the program")
    parser.add_argument("--shims", default=os.environ.get("DOPPLERGL_SHIMS", ""), help="folder of the shims; built if missing")
    parser.add_argument("--chips", default="", help="names of chips.tsv, separated by blanks; default: all")
    parser.add_argument("--models", default="", help="names of models.txt, separated by blanks; default: all")
    parser.add_argument("--fresh", action="store_true", help="ignore earlier results")
    parser.add_argument("--update", action="store_true", help="write the table of docs/devices.md and compiled.tsv")
    parser.add_argument("--seen", action="store_true", help="compare the kernels with compiled.tsv; compiles nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="chips at the same time")
    parser.add_argument("--minutes", type=float, default=60, help="limit of the whole run")
    args = parser.parse_args()
    if args.seen:
        print_seen()
        return 0
    chips = choose_chips(args.chips.split())
    if os.environ.get("MESA", "") not in ("",) + SUITES:
        refuse(f"MESA={os.environ['MESA']} is not one of: {' '.join(SUITES)}")
    args.shims = find_shims(args)
    run = Run(args)
    if run.suite:
        chips = [chip for chip in chips if chip.shim not in ARM_ONLY]
        subprocess.run([os.path.join(HERE, "newer_mesa.sh"), args.shims, run.suite, run.program], check=True)
    for name in run.missing:
        run.say(f"skipped: {name} is not in the test data (DOPPLERGL_TEST_DATA)")
    run.say(f"chips: {len(chips)}, models: {len(run.models)}; results are kept in {os.path.join(args.shims, 'results' + run.suffix)}")
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for summary in pool.map(lambda chip: check_chip(run, chip), sorted(chips, key=lambda c: c.chip not in SLOW)):
            passed += not summary["failed"] and bool(summary["texts"])
    if args.update:
        checked = [chip for chip in choose_chips([]) if not run.suite or chip.shim not in ARM_ONLY]
        summaries = read_summaries(run.summaries, checked)
        versions = sorted({re.sub(r".*(Mesa [0-9.]+).*", r"\1", s["device"]["version"])
                           for s in summaries if "version" in s["device"]})
        put_table(summaries, versions, run.suite)
        if not run.suite:
            put_compiled(summaries)
    print(f"{passed} passed, {len(chips) - passed} failed")
    return 0 if passed == len(chips) else 1


if __name__ == "__main__":
    sys.exit(main())
