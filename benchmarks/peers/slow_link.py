#!/usr/bin/env python3
"""How much of the communication is hidden on a slow network, here and in PyTorch.

Makes two hosts out of network namespaces, joined by a link of a given rate, trains the same model
over Gloo on both with either program in turns, and takes the hosts away again. Needs root, iproute2
and nsenter; PyTorch where --python has it.

    hideable = min(communication, backward pass that is left when the first bucket is ready)
    hidden   = compute-only step + communication - step

Communication is that of the stand-alone all-reduces of the program's own buckets on the same link.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PORTS = iter(range(29620, 29990))


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


@contextmanager
def slow_hosts(rate):
    """Names of two network namespaces, 10.78.0.1 and .2, that reach each other at `rate`."""
    names = [f"lockstep-slow-{os.getpid()}-{i}" for i in range(2)]
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", "eth0", "netns", names[0], "type", "veth",
            "peer", "name", "eth0", "netns", names[1])
        for i, name in enumerate(names):
            run("ip", "-n", name, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            # A burst of several segments that the kernel sends as one, or TCP loses half the rate.
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                "burst", "256kb", "latency", "50ms")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def measure(hosts, program, arguments):
    """Starts one rank on each host and returns what rank 0 printed."""
    port = next(PORTS)
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(name, None)
    ranks = [
        subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{host}", *map(str, program), "--rank", str(rank),
             "--ranks", "2", "--store", "10.78.0.1", "--port", str(port), "--interface", "eth0",
             *arguments],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for rank, host in enumerate(hosts)
    ]
    try:
        output = ranks[0].communicate(timeout=110)[0]
        if any(rank.wait(timeout=20) != 0 for rank in ranks):
            sys.exit(f"{program[0]}: a rank failed")
    finally:
        for rank in ranks:
            rank.kill()
    return json.loads(output.splitlines()[-1])


def share(figures):
    hideable = min(figures["all_reduces"], figures["backward"] - figures["first_ready"])
    hidden = figures["compute"] + figures["all_reduces"] - figures["step"]
    return hidden / hideable


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", default="1gbit", help="of the link, each way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", action="append", default=[],
                        help="an interpreter that has PyTorch; may be repeated")
    parser.add_argument("--layers", default="8")
    parser.add_argument("--width", default="1024")
    parser.add_argument("--rows", default="1024", help="of each rank")
    parser.add_argument("--steps", default="8")
    parser.add_argument("--bucket-mib", default="4")
    parser.add_argument("--json", help="write every round's figures to this file")
    parser.add_argument(
        "--build", type=Path, default=HERE.parent.parent / "build/release/bin/benchmarks",
        help="folder of the benchmark programs (default: build/release/bin/benchmarks)",
    )
    arguments = parser.parse_args()
    programs = [[arguments.build / "slow_link"]]
    programs += [[python, HERE / "ddp_slow_link.py"] for python in arguments.python]
    common = []
    for name in ("layers", "width", "rows", "steps", "bucket_mib"):
        common += ["--" + name.replace("_", "-"), getattr(arguments, name)]
    results = {}
    with slow_hosts(arguments.rate) as hosts:
        for number in range(arguments.rounds):
            for program in programs:
                figures = measure(hosts, program, common)
                figures["share"] = share(figures)
                results.setdefault(figures["program"], []).append(figures)
                print(f"round {number + 1}: {json.dumps(figures)}", file=sys.stderr)
    columns = ["step", "compute", "backward", "first_ready", "all_reduces"]
    print("| program | " + " | ".join(f"{c.replace('_', ' ')} ms" for c in columns)
          + " | hidden share of the hideable |")
    print("|" + " --- |" * (len(columns) + 2))
    for name, rounds in results.items():
        cells = [f"{1e3 * statistics.median(r[c] for r in rounds):.1f}" for c in columns]
        shares = [r["share"] for r in rounds]
        cells.append(f"{statistics.median(shares):.2f} [{min(shares):.2f}..{max(shares):.2f}]")
        print(f"| {name} | " + " | ".join(cells) + " |")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
