#!/usr/bin/env python3
"""The measured tables of docs/performance.md, from a report of measure.py.

    performance_table.py REPORT.json [--into docs/performance.md]

Prints Markdown. --into replaces the text between the two marker lines of the file.
"""
import argparse
import json
import sys
import textwrap

BEGIN = "<!-- measured: made by tools/dev/performance_table.py, not by hand -->"
END = "<!-- /measured -->"
SEQUENCES = (1, 2, 4, 8, 16, 32, 64)


def number(value):
    return "" if value is None else f"{value:,.0f}"


def fixed(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def backend(device):
    """CUDA for CUDA0."""
    return device.rstrip("0123456789")


def few(value):
    """A count that may be below 1, because a persistent dispatch computes several tokens."""
    return number(value) if value is None or value >= 1 else f"{value:.2f}"


def figure(side, what, key):
    return side.get(what, {}).get(str(key))


def label(row, report):
    """Shape and type, with the date if it is not the report's."""
    kind = "all " + row["type"][4:].upper() if row["type"].startswith("all-") else row["type"]
    return f"{row['shape']} {kind}" + (f", {row['measured']}" if row["measured"] != report["measured"] else "")


def lines_of(head, rows):
    """A table without the rows and columns that have no figures; nothing if none are left."""
    kept = [i for i, name in enumerate(head) if any(row[i] for row in rows)]
    figures = [i for i in kept if head[i] not in ("file", "program")]
    if not figures:
        return []
    return ["| " + " | ".join(head[i] for i in kept) + " |", "| --- " * len(kept) + "|"] + [
        "| " + " | ".join(row[i] for i in kept) + " |" for row in rows if any(row[i] for i in figures)]


def programs(row, peers, what):
    """(name, table of figures) of each program that has such figures."""
    sides = [("ours", row["ours"].get(what)), ("ours, f16", row["ours"].get(what + "_f16"))]
    sides += [(f"llama.cpp {backend(name)}", row["peers"].get(name, {}).get(what)) for name in peers]
    return [(name, figures) for name, figures in sides if figures]


def tables(report):
    peers = sorted({name for row in report["rows"] for name in row["peers"]})
    prompts = sum(check["prompts"] for check in report["checks"])
    commits = sorted({row["ours"]["commit"] for row in report["rows"] if row["ours"].get("commit")})
    builds = sorted({p["build"] for row in report["rows"] for p in row["peers"].values() if "build" in p})
    head = (f"{report['device']}, {report['driver']}, {report['measured']}"
            + (f", commit {', '.join(commits)}" if commits else "")
            + (f", llama.cpp {', '.join(builds)}" if builds else "")
            + ". " + (f"First, the tokens of {len(report['checks'])} models and {prompts} prompts were compared with "
                      "their references on that GPU and were right." if prompts else report.get("remark", "")))
    speed, memory, sequences, lengths, notes = [], [], [], [], []
    for row in report["rows"]:
        file = label(row, report)
        ours, sides = row["ours"], [row["peers"].get(name, {}) for name in peers]
        decode, best = figure(ours, "decode", 0), max([figure(p, "decode", 0) or 0 for p in sides], default=0)
        speed.append([file, number(decode)] + [number(figure(p, "decode", 0)) for p in sides] +
                     [f"{decode / best:.2f}" if decode and best else "", number(ours.get("decode_gbps")),
                      number(figure(ours, "prefill", 512)), number(figure(ours, "prefill_f16", 512))] +
                     [number(figure(p, "prefill", 512)) for p in sides] +
                     [few(ours.get("dispatches_per_token")), ours.get("executor") or ""])
        giga = lambda key: fixed(ours[key] * 1e-9 if ours.get(key) else None, 2)
        memory.append([file, giga("file_bytes"), giga("held_bytes"), giga("peak_bytes"),
                       fixed(ours.get("load_s"), 2), fixed(ours.get("dd_s"), 2), fixed(ours.get("ttft_ms_warm"), 1),
                       fixed(ours.get("start_s"), 2)] + [fixed(p.get("start_s"), 2) for p in sides])
        sequences += [[file, name] + [number(figures.get(str(n))) for n in SEQUENCES]
                      for name, figures in programs(row, peers, "sequences")]
        decodes, prefills = dict(programs(row, peers, "decode")), dict(programs(row, peers, "prefill"))
        for name in dict.fromkeys([*decodes, *prefills]):
            lengths.append([file, name] + [number(decodes.get(name, {}).get(str(d))) for d in (4096, 16384)] +
                           [number(prefills.get(name, {}).get(str(n))) for n in (32, 4096)])
        for name, side in [("ours", ours)] + sorted(row["peers"].items()):
            notes += [f"- {file}, {name}: {fault}" for fault in side.get("faults", [])]
    of = [f"llama.cpp {backend(name)}" for name in peers]
    out = textwrap.wrap(head, 100, break_long_words=False, break_on_hyphens=False)
    for title, head, rows in [
            ("Tokens per second:", ["file", "decode", *of, "ratio to the faster llama.cpp", "GB/s",
                                    "prefill 512", "prefill 512 in f16", *(name + " prefill" for name in of),
                                    "dispatches per token", "executor"], speed),
            ("Memory, loads and first tokens:",
             ["file", "tensors of the file, GB", "held, GB", "peak, GB", "load, s", "`dd`, s", "first token after 512, ms",
              "new process to its first token, s", *of], memory),
            ("Sequences that decode together, tokens per second of all:",
             ["file", "program", *(str(n) for n in SEQUENCES)], sequences),
            ("Depths and lengths, tokens per second:",
             ["file", "program", "decode at 4,096", "decode at 16,384", "prefill 32", "prefill 4,096"], lengths)]:
        made = lines_of(head, rows)
        out += ["", title, ""] + made if made else []
    return "\n".join(out + ([""] + notes if notes else [])) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("--into")
    args = parser.parse_args()
    try:
        with open(args.report) as f:
            text = tables(json.load(f))
    except OSError as e:
        sys.exit(f"{args.report}: {e.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        sys.exit(f"{args.report}: no report of measure.py ({type(e).__name__}: {e})")
    if not args.into:
        sys.stdout.write(text)
        return
    with open(args.into) as f:
        page = f.read()
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(END) < page.index(BEGIN):
        sys.exit(f"{args.into}: wanted one line '{BEGIN}' and one '{END}' after it")
    before, after = page[:page.index(BEGIN) + len(BEGIN)], page[page.index(END):]
    with open(args.into, "w") as f:
        f.write(before + "\n" + text + after)


if __name__ == "__main__":
    main()
