"""Prints the figures that tests/gpu/run left in a folder, a line for each."""

import glob
import json
import os
import statistics
import sys


def read(path):
    """The JSON objects of a file: one, or one a line."""
    with open(path) as file:
        text = file.read()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def milliseconds(seconds):
    return "-" if seconds is None else f"{1e3 * seconds:.3f} ms"


def train_step(name, rows):
    for row in rows:
        yield (f"{name}, {row['workers']} worker(s)", f"step {milliseconds(row['median'])}",
               f"products {milliseconds(row.get('floor'))}", f"{row['samples_per_second']:.0f}/s")


def all_reduce(name, rows):
    for row in rows[0]["rows"]:
        if row["bytes"] in (1 << 10, 1 << 20, 1 << 26) or len(rows[0]["rows"]) < 3:
            yield (f"{name}, {row['bytes']} B", f"{1e6 * row['seconds']:.1f} us",
                   f"algbw {row['algbw']:.1f} GB/s", f"busbw {row['busbw']:.1f} GB/s")


# A few for the table, each on its largest shape; the file has them all.
PRODUCTS = ("matmul NT", "linear, bias, relu", "weight gradient, bias", "input gradient, relu")
PASSES = ("copy", "gelu", "dropout", "sum down columns", "softmax", "cross entropy with gradient", "digest",
          "adam")


def kernels(name, rows):
    precision = rows[0]["products"]
    for kernel in PRODUCTS + (PASSES if precision == "float32" else ()):
        of_kernel = [row for row in rows[0]["rows"] if row["kernel"] == kernel]
        if not of_kernel:
            continue
        row = max(of_kernel, key=lambda row: row["MB or MFLOP"])
        label = kernel if precision == "float32" else f"{kernel}, {precision}"
        yield (f"{label}, {row['shape']}", f"{row['us']:.1f} us",
               f"{row['rate']:.0f} {row['unit']}", f"{100 * row['share']:.0f} % of peak")


def training(folder):
    """Steps of a run of the program, without those that warm up."""
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        records = [json.loads(line) for line in file]
    seconds = [record["seconds"] for record in records if record["kind"] == "step"]
    seconds = seconds[len(seconds) // 3:]
    if seconds:
        yield (f"train {os.path.basename(folder)}",
               f"step {milliseconds(statistics.median(seconds))}", "", "")


def figures(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        name = os.path.splitext(os.path.basename(path))[0]
        if name.endswith("_test") or os.path.getsize(path) == 0:
            continue
        kind = next((k for k in (train_step, all_reduce, kernels) if name.startswith(k.__name__)), None)
        if name.startswith("pytorch"):
            kind = train_step
        if kind:
            yield from kind(name, read(path))
    for run in sorted(glob.glob(os.path.join(folder, "runs", "*"))):
        if os.path.exists(os.path.join(run, "metrics.jsonl")):
            yield from training(run)


def main():
    for cells in figures(sys.argv[1]):
        print("{:<36} {:>18} {:>22} {:>18}".format(*cells).rstrip())


if __name__ == "__main__":
    main()
