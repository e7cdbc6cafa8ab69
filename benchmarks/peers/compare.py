#!/usr/bin/env python3
"""Times Lockstep and other libraries in turns, and prints medians and ratios.

  compare.py step         training steps against PyTorch DDP on Gloo
  compare.py all_reduce   all-reduce against Open MPI and Gloo

On a machine that is not quite idle only figures of one run compare: in every round each program
measures each case once, one after the other, in another order than in the round before. A ratio is
the other's time over Lockstep's in the same round (above 1: Lockstep is faster). Shown are medians
over the rounds, in brackets the smallest and the largest.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = "lockstep"


class Contender:
    """A program under test; run(case) measures one case and returns {key: seconds and more}."""

    def __init__(self, name, run):
        self.name = name
        self.run = run


def environment():
    """The environment of every measured command: one thread each, and no BLAS settings that would
    make a library choose kernels for another processor."""
    variables = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        variables.pop(name, None)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        variables[name] = "1"
    return variables


def output_of(command):
    done = subprocess.run(
        [str(word) for word in command], env=environment(), stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def json_of(command):
    """What the command writes to the file that follows --json."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result.json")
        output_of([*command, "--json", file])
        return json.loads(file.read_text())


def measure(contenders, cases, rounds):
    """[{case: {contender: result}}], one for each round."""
    results = []
    for number in range(rounds):
        results.append({})
        for case in cases:
            shift = number % len(contenders)
            taken = {c.name: c.run(case) for c in contenders[shift:] + contenders[:shift]}
            results[-1][case] = taken
            print(f"round {number + 1} of {rounds}, {case}", file=sys.stderr)
    return results


def spread(values, format):
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:{format}} [{low:{format}}..{high:{format}}]"


def print_table(heading, rows):
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    for row in [heading, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")


def write_json(path, contents):
    if path:
        Path(path).write_text(json.dumps(contents, indent=1) + "\n")


# --- step ---------------------------------------------------------------------------------------


def our_step(program, steps):
    def run(case):
        model, workers = case
        return json_of([program, "--model", model, "--workers", workers, "--steps", steps])

    return Contender(OURS, run)


def ddp_step(python, steps):
    def run(case):
        model, workers = case
        command = [python, HERE / "ddp_step.py", "--model", model, "--workers", workers]
        return json.loads(output_of([*command, "--steps", steps]))

    version = output_of([python, "-c", "import torch; print(torch.__version__)"]).strip()
    return Contender(f"PyTorch {version}", run)


def compare_steps(arguments):
    contenders = [our_step(arguments.build / "train_step", arguments.steps)]
    contenders += [ddp_step(python, arguments.steps) for python in arguments.python]
    cases = [(model, workers) for model in arguments.models for workers in arguments.workers]
    results = measure(contenders, cases, arguments.rounds)

    def column(case, name, key, scale=1.0):
        return [result[case][name][key] * scale for result in results]

    rows = []
    for case in cases:
        for contender in contenders:
            ours, theirs = (column(case, name, "median") for name in (OURS, contender.name))
            ratios = [b / a for a, b in zip(ours, theirs)]
            rows.append([
                case[0], str(case[1]), contender.name,
                spread(column(case, contender.name, "median", 1e3), ".2f"),
                "" if contender.name == OURS else spread(ratios, ".2f"),
                spread(column(case, contender.name, "compute", 1e3), ".2f"),
                f"{statistics.median(column(case, contender.name, 'samples_per_second')):.0f}",
                spread(column(case, contender.name, "start"), ".2f"),
                f"{statistics.median(column(case, contender.name, 'pss_bytes', 2**-20)):.0f}",
            ])
    print_table(
        ["model", "workers", "program", "step ms", "ratio", "compute only ms", "samples/s",
         "start s", "PSS MiB"],
        rows,
    )
    write_json(arguments.json, [
        {"round": number + 1, "model": case[0], "workers": case[1], "results": taken}
        for number, result in enumerate(results) for case, taken in result.items()
    ])


# --- all_reduce ---------------------------------------------------------------------------------


def by_size(result):
    return {row["bytes"]: row["seconds"] for row in result["rows"]}


def all_reduce_contenders(arguments):
    sizes = ["--min", arguments.min, "--max", arguments.max, "--factor", arguments.factor]

    def contender(name, command):
        return Contender(name, lambda ranks: by_size(json_of([*command(ranks), *sizes])))

    program = arguments.build / "all_reduce"
    mpi, gloo = (arguments.build / name for name in ("all_reduce_mpi", "all_reduce_gloo"))
    yield contender(OURS, lambda ranks: [program, "--no-floors", "--ranks", ranks])
    if mpi.exists():
        # Shared memory, single copy; no binding, since the ranks share the cores.
        launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
                    "--mca", "btl", "self,vader"]
        yield contender("Open MPI", lambda ranks: [*launcher, "-n", ranks, mpi])
    if gloo.exists():
        for algorithm in ("ring", "bcube"):
            command = [gloo, "--algorithm", algorithm]
            yield contender(
                f"Gloo {algorithm}", lambda ranks, command=command: [*command, "--ranks", ranks]
            )


def compare_all_reduce(arguments):
    contenders = list(all_reduce_contenders(arguments))
    if len(contenders) == 1:
        sys.exit(f"no other library in {arguments.build}: build the target benchmark_peers")
    results = measure(contenders, arguments.ranks, arguments.rounds)
    rows = []
    for ranks in arguments.ranks:
        for size in results[0][ranks][OURS]:
            row = [str(ranks), str(size)]
            ours = [result[ranks][OURS][size] for result in results]
            row.append(spread([seconds * 1e6 for seconds in ours], ".1f"))
            for contender in contenders[1:]:
                theirs = [result[ranks][contender.name][size] for result in results]
                row.append(spread([seconds * 1e6 for seconds in theirs], ".1f"))
                row.append(spread([b / a for a, b in zip(ours, theirs)], ".2f"))
            rows.append(row)
    heading = ["ranks", "bytes", f"{OURS} us"]
    for contender in contenders[1:]:
        heading += [f"{contender.name} us", "ratio"]
    print_table(heading, rows)
    write_json(arguments.json, [
        {"round": number + 1, "ranks": ranks, "seconds": taken}
        for number, result in enumerate(results) for ranks, taken in result.items()
    ])


# --- Command line -------------------------------------------------------------------------------


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--rounds", type=int, default=5)
    common.add_argument("--json", help="write every round's results to this file")
    common.add_argument(
        "--build", type=Path, default=HERE.parent.parent / "build/release/bin/benchmarks",
        help="folder of the benchmark programs (default: build/release/bin/benchmarks)",
    )
    commands = parser.add_subparsers(required=True, metavar="step|all_reduce")

    step = commands.add_parser("step", parents=[common])
    step.add_argument("--models", type=lambda text: text.split(","), default=["mlp", "mlp_big"])
    step.add_argument("--workers", type=numbers, default=[1, 2, 4, 8])
    step.add_argument("--steps", type=int, default=0, help="steps of a measurement; 0: by model")
    step.add_argument(
        "--python", action="append", help="an interpreter that has PyTorch; may be repeated"
    )
    step.set_defaults(run=compare_steps)

    all_reduce = commands.add_parser("all_reduce", parents=[common])
    all_reduce.add_argument("--ranks", type=numbers, default=[2, 4, 8])
    all_reduce.add_argument("--min", default="4KiB")
    all_reduce.add_argument("--max", default="64MiB")
    all_reduce.add_argument("--factor", type=int, default=4)
    all_reduce.set_defaults(run=compare_all_reduce)

    arguments = parser.parse_args()
    if arguments.run is compare_steps:
        arguments.python = arguments.python or ["/usr/bin/python3"]
    arguments.run(arguments)


if __name__ == "__main__":
    main()
