#!/usr/bin/env python3
"""The measured table of docs/performance.md, from a report of measure.py.

    performance_table.py REPORT.json [--into docs/performance.md]

Prints Markdown. --into replaces the text between the two marker lines of the file.
"""
import argparse
import json
import sys
import textwrap

BEGIN = "<!-- measured: made by tools/dev/performance_table.py, not by hand -->"
END = "<!-- /measured -->"


def number(value):
    return "" if value is None else f"{value:,.0f}"


def backend(device):
    """Vulkan for Vulkan0."""
    return device.rstrip("0123456789")


def few(value):
    """A count that may be below 1, because a persistent dispatch computes several tokens."""
    return number(value) if value is None or value >= 1 else f"{value:.2f}"


def rate(figures, phase):
    return "fault" if "fault" in figures else number(figures.get(f"{phase}_tps"))


def table(report):
    peers = sorted({name for row in report["rows"] for name in row["peers"]})
    prompts = sum(check["prompts"] for check in report["checks"])
    commits = sorted({row["ours"]["commit"] for row in report["rows"] if row["ours"].get("commit")})
    builds = sorted({p["build"] for row in report["rows"] for p in row["peers"].values() if "build" in p})
    head = (f"{report['device']}, {report['driver']}, {report['measured']}, commit {', '.join(commits) or 'unknown'}"
            + (f", llama.cpp {', '.join(builds)}" if builds else "") + ". First, the tokens of "
            f"{len(report['checks'])} models and {prompts} prompts were compared with their references "
            "on that GPU and were right.")
    lines = textwrap.wrap(head, 100, break_long_words=False, break_on_hyphens=False) + ["",
             "| shape | decode tok/s | " + "".join(f"llama.cpp {backend(name)} | " for name in peers) + "to the best | GB/s | prefill 512 | "
             + "".join(f"llama.cpp {backend(name)} | " for name in peers) + "first token, ms | dispatches per token | executor |",
             "| --- " * (8 + 2 * len(peers)) + "|"]
    notes = []
    for row in report["rows"]:
        ours, depth = row["ours"], f", depth {row['depth']:,}" if row["depth"] else ""
        best = max([p["decode_tps"] for p in row["peers"].values() if "decode_tps" in p], default=None)
        ratio = f"{ours['decode_tps'] / best:.2f}" if best and "decode_tps" in ours else ""
        cells = [row["shape"] + depth + "".join(" " + flag for flag in row["flags"]), rate(ours, "decode")]
        cells += [rate(row["peers"].get(name, {}), "decode") for name in peers]
        cells += [ratio, number(ours.get("decode_gbps")), rate(ours, "prefill")]
        cells += [rate(row["peers"].get(name, {}), "prefill") for name in peers]
        cells += [f"{ours['ttft_ms_warm']:.1f}" if "ttft_ms_warm" in ours else "",
                  few(ours.get("dispatches_per_token")), ours.get("executor") or ""]
        lines.append("| " + " | ".join(cells) + " |")
        for name, figures in [("ours", ours)] + sorted(row["peers"].items()):
            if "fault" in figures:
                notes.append(f"- {row['row']}, {name}: {figures['fault']}")
    return "\n".join(lines + ([""] + notes if notes else [])) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("--into")
    args = parser.parse_args()
    try:
        with open(args.report) as f:
            text = table(json.load(f))
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
