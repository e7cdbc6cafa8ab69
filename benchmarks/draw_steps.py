#!/usr/bin/env python3
"""Draws, as SVG, how the data of an all-reduce changed hands in a run that was recorded by
`all_reduce --record`.

  benchmarks/draw_steps.py docs/ring_all_reduce/ring_4.json docs/ring_all_reduce/ring_4

writes ring_4_reduce_scatter.svg, ring_4_all_gather.svg (one panel for each step: what every rank holds of every slice
after it, and what moved) and ring_4_time.svg (when each rank worked at which step).
"""

import argparse
import json
import sys
from html import escape

COLORS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#ff9da6", "#9d755d"]
COMPLETE = "#ffd54a"
CELL, GAP, ROW, LEFT, TOP = 58, 46, 46, 70, 64


class Drawing:
    def __init__(self, width, height):
        self.size = (width, height)
        self.parts = []

    def rect(self, x, y, width, height, fill, extra=""):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" {extra}/>')

    def text(self, x, y, text, anchor="middle", size=12, extra=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}>{escape(text)}</text>')

    def arrow(self, x1, y1, x2, y2):
        self.parts.append(f'<path d="M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}" stroke="#333" stroke-width="1.6" marker-end="url(#head)"/>')

    def save(self, path):
        width, height = self.size
        with open(path, "w") as file:
            file.write(
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" font-family="sans-serif">\n'
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#333"/></marker></defs>\n'
                f'<rect width="{width}" height="{height}" fill="white"/>\n')
            file.write("\n".join(self.parts))
            file.write("\n</svg>\n")


def read(path):
    with open(path) as file:
        recording = json.load(file)
    if recording.get("algorithm") != "ring":
        sys.exit(f"{path}: found algorithm {recording.get('algorithm')}, expected ring")
    return recording


def rounds_of(recording):
    """[[step of rank 0, step of rank 1, ...], ...]: the k-th step of every rank, pieces of a slice joined."""
    ranks = recording["ranks"]
    lists = [[] for _ in range(ranks)]
    for step in sorted(recording["steps"], key=lambda s: s["start"]):
        own = lists[step["rank"]]
        same = own and all(own[-1][key] == step[key] for key in ("action", "slice", "from", "to"))
        if same:
            own[-1]["end"] = step["end"]
            own[-1]["count"] += step["count"]
        else:
            own.append(dict(step))
    if {len(own) for own in lists} != {2 * ranks - 1}:
        sys.exit(f"found {[len(own) for own in lists]} steps on the ranks, expected {2 * ranks - 1}: record data of "
                 "at most 1 MiB for each rank")
    return [list(column) for column in zip(*lists)]


def replay(recording):
    """[(steps, shown)]: after each step, whose contributions shown[rank][slice] are in what the rank has of the
    slice, be it in its memory or on the way through it."""
    ranks = recording["ranks"]
    shown = [[frozenset([rank]) for _ in range(ranks)] for rank in range(ranks)]
    stored = set()
    messages, frames = {}, []
    for steps in rounds_of(recording):
        arrived, messages = messages, {}
        for step in steps:
            rank, slice_ = step["rank"], step["slice"]
            value = arrived[rank, slice_] if step["from"] >= 0 else frozenset()
            if "reduce" in step["action"] or step["action"] == "send":
                value |= {rank}
            if "store" in step["action"]:
                stored.add((rank, slice_))
            if step["to"] >= 0:
                messages[step["to"], slice_] = value
            shown[rank][slice_] = value
        frames.append((steps, [list(row) for row in shown]))
    everything = frozenset(range(ranks))
    if len(stored) != ranks * ranks or any(value != everything for row in shown for value in row):
        sys.exit("the recorded steps do not end with everything on every rank")
    return frames


def draw_panels(recording, frames, first, last, title, path):
    """Panels for the steps [first, last) of the ring, each rank a row and each slice a column."""
    ranks = recording["ranks"]
    width = LEFT + ranks * CELL + 130
    panel = ranks * ROW + GAP
    columns = 2 if last - first > 2 else 1
    rows = -(-(last - first) // columns)
    drawing = Drawing(columns * width, TOP + rows * panel + 10)
    drawing.text(columns * width / 2, 26, title, size=17)
    drawing.text(columns * width / 2, 46, "colours: ranks whose contribution is in it; yellow frame: complete", size=12)
    for index, (steps, shown) in list(enumerate(frames))[first:last]:
        place = index - first
        x0, y0 = (place % columns) * width, TOP + (place // columns) * panel
        drawing.text(x0 + LEFT + ranks * CELL / 2, y0 + 14, f"step {index}: {steps[0]['action'].replace('_', ' ')}", size=13)
        for rank in range(ranks):
            y = y0 + 24 + rank * ROW
            drawing.text(x0 + LEFT - 10, y + 22, f"rank {rank}", "end")
            for slice_ in range(ranks):
                draw_cell(drawing, x0 + LEFT + slice_ * CELL, y, shown[rank][slice_], ranks)
        for step in steps:
            if step["from"] < 0:
                continue
            x = x0 + LEFT + step["slice"] * CELL + (CELL - 8) / 2
            y1, y2 = (y0 + 24 + r * ROW for r in (step["from"], step["rank"]))
            if y1 < y2:
                drawing.arrow(x, y1 + ROW - 14, x, y2 - 1)
            else:  # from the last rank to the first: around
                side = x0 + LEFT + ranks * CELL + 8
                drawing.text(side, y2 + 22, f"slice {step['slice']} from rank {step['from']}", "start", 9)
    drawing.save(path)


def draw_cell(drawing, x, y, contributions, ranks):
    width, height = CELL - 8, ROW - 14
    part = width / ranks
    drawing.rect(x, y, width, height, "#f2f2f2", 'stroke="#bbb"')
    for rank in contributions:
        drawing.rect(x + rank * part, y, part, height, COLORS[rank % len(COLORS)])
    if len(contributions) == ranks:
        drawing.rect(x - 1.5, y - 1.5, width + 3, height + 3, "none", f'stroke="{COMPLETE}" stroke-width="4"')


def draw_time(recording, path):
    """Who worked when: a row for each rank, a bar for each piece of each step."""
    ranks, steps = recording["ranks"], recording["steps"]
    begin, end = min(s["start"] for s in steps), max(s["end"] for s in steps)
    width = 900
    scale = width / (end - begin)
    drawing = Drawing(LEFT + width + 20, TOP + ranks * 34 + 40)
    drawing.text((LEFT + width) / 2, 26, f"The recorded run: {recording['bytes'] >> 10} KiB, {(end - begin) / 1e3:.0f} us",
                 size=17)
    drawing.text((LEFT + width) / 2, 46, "bars: work on a piece, coloured by slice; dark edge: reduces, light: copies", size=12)
    for rank in range(ranks):
        y = TOP + rank * 34
        drawing.text(LEFT - 10, y + 18, f"rank {rank}", "end")
        drawing.rect(LEFT, y, width, 26, "#f7f7f7")
    for step in steps:
        reduces = "reduce" in step["action"] or step["action"] == "send"
        drawing.rect(LEFT + (step["start"] - begin) * scale, TOP + step["rank"] * 34,
                     max(0.6, (step["end"] - step["start"]) * scale), 26, COLORS[step["slice"] % len(COLORS)],
                     'stroke="#222" stroke-width="0.8"' if reduces else 'fill-opacity="0.55"')
    drawing.text(LEFT, TOP + ranks * 34 + 18, "0", "start")
    drawing.text(LEFT + width, TOP + ranks * 34 + 18, f"{(end - begin) / 1e3:.0f} us", "end")
    drawing.save(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording")
    parser.add_argument("prefix", help="of the pictures' names")
    arguments = parser.parse_args()
    recording = read(arguments.recording)
    frames = replay(recording)
    ranks = recording["ranks"]
    draw_panels(recording, frames, 0, ranks, "Reduce-scatter around the ring", arguments.prefix + "_reduce_scatter.svg")
    draw_panels(recording, frames, ranks, 2 * ranks - 1, "All-gather around the ring", arguments.prefix + "_all_gather.svg")
    draw_time(recording, arguments.prefix + "_time.svg")


if __name__ == "__main__":
    main()
