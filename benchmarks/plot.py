#!/usr/bin/env python3
"""Draws bandwidth against size from what benchmarks/all_reduce and the programs in peers/ write with --json.

  benchmarks/plot.py ring.json gloo.json mpi.json --output bandwidth.svg --output bandwidth.png

One line for each backend, algorithm and number of ranks; dashed, what memory allows at most (the fused floor), for
each number of ranks of which a file has it. Needs matplotlib (Debian: python3-matplotlib).
"""

import argparse
import json
import sys

REQUIRED = {"ranks", "rows"}


def read_run(path):
    """The run in a file, checked; exits with a message that names the file."""
    try:
        with open(path) as file:
            run = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    missing = REQUIRED - run.keys() if isinstance(run, dict) else REQUIRED
    if missing or not run["rows"]:
        sys.exit(f"{path}: found no rows of an all-reduce, expected what all_reduce --json writes")
    return run


def label_of(run):
    backend = run.get("backend", "?")
    algorithm = run.get("algorithm", "")
    name = f"{backend} {algorithm}" if algorithm not in ("", "auto") else backend
    kind = " (threads)" if run.get("launcher") == "threads" else ""
    return f"{name}, {run['ranks']} ranks{kind}"


def series_of(runs, key):
    """[(label, sizes, values, is_floor)], in the order of the files."""
    series, floors = [], {}
    for run in runs:
        rows = sorted(run["rows"], key=lambda row: row["bytes"])
        series.append((label_of(run), [row["bytes"] for row in rows],
                       [row[key] for row in rows], False))
        with_floor = [row for row in rows if row.get("fused_floor", 0) > 0]
        if with_floor and run["ranks"] not in floors:
            factor = 2 * (run["ranks"] - 1) / run["ranks"] if key == "busbw" else 1
            floors[run["ranks"]] = (
                f"memory, {run['ranks']} ranks", [row["bytes"] for row in with_floor],
                [row["bytes"] / row["fused_floor"] * factor * 1e-9 for row in with_floor], True)
    return series + list(floors.values())


def size_text(size, _=None):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:g} {unit}"
        size /= 1024


def draw(series, key, outputs):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "lockstep"  # the same picture, the same bytes
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for label, sizes, values, is_floor in series:
        axes.plot(sizes, values, label=label, marker="" if is_floor else "o", markersize=4,
                  linestyle="--" if is_floor else "-", color="gray" if is_floor else None)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(size_text)
    axes.set_xlabel("size of the data on each rank")
    axes.set_ylabel(f"{key} (GB/s)")
    axes.set_title("all_reduce")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize="small")
    for output in outputs:
        figure.savefig(output, dpi=120, metadata={"Date": None} if output.endswith(".svg") else {})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON of all_reduce or of a program in peers/")
    parser.add_argument("--output", action="append", required=True,
                        help="picture to write, .svg or .png; may be repeated")
    parser.add_argument("--value", choices=["busbw", "algbw"], default="busbw")
    arguments = parser.parse_args()
    for output in arguments.output:
        if not output.endswith((".svg", ".png")):
            sys.exit(f"{output}: expected a name that ends in .svg or .png")
    series = series_of([read_run(path) for path in arguments.files], arguments.value)
    try:
        draw(series, arguments.value, arguments.output)
    except ImportError:
        sys.exit("matplotlib is not installed (Debian: python3-matplotlib)")


if __name__ == "__main__":
    main()
