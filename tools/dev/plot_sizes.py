#!/usr/bin/env python3
"""Decode speed against the size of the weights, as SVG.

    plot_sizes.py OUT.svg REPORT.json...

Reports are those of `dopplergl bench --json`, or of measure.py, whose peers become lines of their
own. Both axes are logarithmic: a device that reads weights at one rate is a straight line. Rows at a
depth are left out.
"""
import argparse
import html
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 72, 24, 48, 52
COLOURS = ["#1f6fb4", "#d1495b", "#2e8b57", "#8a5a00", "#6b4fa0"]


def points(path):
    """(line, label, GB of weights, tokens per second)"""
    with open(path) as f:
        report = json.load(f)
    if "rows" not in report:
        if not report["depth"]:
            label = f"{report['model']}:{report['quantization']}"
            yield "DopplerGL", label, report["held_bytes"] * 1e-9, report["decode_tps"]
        return
    for row in report["rows"]:
        size = row["ours"].get("held_bytes")
        for name, side in [("DopplerGL", row["ours"])] + [(f"llama.cpp {k}", v) for k, v in row["peers"].items()]:
            if size and "0" in side.get("decode", {}):
                yield name, f"{row['shape']} {row['type']}", size * 1e-9, side["decode"]["0"]


def ticks(low, high):
    """1, 2 and 5 times powers of ten."""
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for factor in (1, 2, 5):
            if low <= factor * 10.0 ** power <= high:
                yield factor * 10.0 ** power


def text(x, y, anchor, size, value, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{extra}>{html.escape(value)}</text>'


def svg(every):
    x_low, x_high = min(p[2] for p in every) / 1.3, max(p[2] for p in every) * 1.3
    y_low, y_high = min(p[3] for p in every) / 1.3, max(p[3] for p in every) * 1.3
    x_at = lambda v: LEFT + math.log(v / x_low) / math.log(x_high / x_low) * (WIDTH - LEFT - RIGHT)
    y_at = lambda v: HEIGHT - BOTTOM - math.log(v / y_low) / math.log(y_high / y_low) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222">',
           '<rect width="100%" height="100%" fill="#fff"/>', text(12, 22, "start", 14, "decode by size of the weights")]
    for v in ticks(y_low, y_high):
        out += [f'<path d="M{LEFT} {y_at(v):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>',
                text(LEFT - 6, y_at(v) + 4, "end", 11, f"{v:g}")]
    for v in ticks(x_low, x_high):
        out += [f'<path d="M{x_at(v):.1f} {HEIGHT - BOTTOM}v5" stroke="#444"/>',
                text(x_at(v), HEIGHT - BOTTOM + 18, "middle", 11, f"{v:g}")]
    out += [f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="#444" fill="none"/>',
            text((WIDTH + LEFT) / 2, HEIGHT - 10, "middle", 12, "GB of weights"),
            text(0, 0, "middle", 12, "tokens per second", f' transform="translate(16 {HEIGHT / 2:.0f}) rotate(-90)"')]
    for i, line in enumerate(dict.fromkeys(p[0] for p in every)):
        mine = sorted(p[1:] for p in every if p[0] == line)
        mine.sort(key=lambda p: p[1])
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for _, x, y in mine)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for label, x, y in mine:
            out.append(f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{colour}"><title>{html.escape(label)}: '
                       f'{y:.1f}</title></circle>')
            if i == 0:
                out.append(text(x_at(x), y_at(y) - 7, "middle", 9, label))
        out += [f'<path d="M{WIDTH - RIGHT - 22} {TOP + 10 + 16 * i}h18" stroke="{colour}" stroke-width="2"/>',
                text(WIDTH - RIGHT - 28, TOP + 14 + 16 * i, "end", 11, line)]
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.svg")
    parser.add_argument("reports", metavar="REPORT.json", nargs="+")
    args = parser.parse_args()
    every = []
    for path in args.reports:
        try:
            every += points(path)
        except OSError as e:
            sys.exit(f"{path}: {e.strerror}")
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            sys.exit(f"{path}: no report of bench or measure.py ({type(e).__name__}: {e})")
    if not every:
        sys.exit("no report has a row at depth 0")
    with open(args.out, "w") as f:
        f.write(svg(every))


if __name__ == "__main__":
    main()
