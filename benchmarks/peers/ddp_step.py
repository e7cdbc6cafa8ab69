"""Times the training steps of benchmarks/train_step.cpp in PyTorch: DistributedDataParallel on Gloo,
or with --device cuda on NCCL and a GPU for each worker.

Starts one process for each worker, each with one thread, and prints one JSON object with the keys of
train_step's. The definition of every figure is that program's: rank 0's times from the end of one
step to the end of the next; "compute" is the mean, on the slowest rank, of the same steps under
no_sync(); the start is that of the slowest rank, counted from the start of this program, the memory
that of the largest.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WORKLOADS = {  # hidden widths, global batch, steps that count, warm-up
    "mlp": ((512, 256), 256, 200, 40),
    "mlp_big": ((2048, 2048), 512, 20, 5),
}
FEATURES, CLASSES = 784, 10


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=sorted(WORKLOADS), default="mlp")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=0, help="steps that count; 0: by model")
    parser.add_argument("--warmup", type=int, default=0, help="steps before them; 0: by model")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rendezvous", help=argparse.SUPPRESS)
    parser.add_argument("--started-at", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.rank is None:
        sys.exit(launch(arguments, process_start()))
    run_rank(arguments)


def process_start():
    """When this process began, on the monotonic clock (which all processes of the host share)."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age


def launch(arguments, started_at):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, __file__, *sys.argv[1:],
            "--rendezvous", os.path.join(folder, "store"), "--started-at", repr(started_at),
        ]
        ranks = [
            subprocess.Popen([*command, "--rank", str(rank)], env=environment)
            for rank in range(arguments.workers)
        ]
        codes = [rank.wait() for rank in ranks]
    return next((1 for code in codes if code != 0), 0)


def proportional_set_size():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def run_rank(arguments):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    on_gpu = arguments.device == "cuda"
    device = torch.device("cuda", arguments.rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method="file://" + arguments.rendezvous,
        rank=arguments.rank,
        world_size=arguments.workers,
    )
    torch.manual_seed(1)
    hidden, batch, steps, warmup = WORKLOADS[arguments.model]
    steps, warmup = arguments.steps or steps, arguments.warmup or warmup
    model = make_model(torch, hidden, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_function = torch.nn.CrossEntropyLoss()
    first = batch * arguments.rank // arguments.workers
    rows = batch * (arguments.rank + 1) // arguments.workers - first
    features = torch.randn(rows, FEATURES, device=device)
    labels = torch.randint(CLASSES, (rows,), device=device)

    def take_step():
        optimizer.zero_grad(set_to_none=True)
        loss_function(model(features), labels).backward()
        optimizer.step()
        if on_gpu:
            torch.cuda.synchronize()

    def largest(value):
        tensor = torch.tensor([value], dtype=torch.float64, device=device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.item()

    seconds, first_step_end = time_steps(take_step, steps, warmup)
    start = largest(first_step_end - arguments.started_at)
    memory = largest(proportional_set_size())
    with model.no_sync():
        compute, _ = time_steps(take_step, steps, warmup)
    compute = largest(statistics.fmean(compute))
    if arguments.rank == 0:
        q1, median, q3 = statistics.quantiles(seconds, n=4, method="inclusive")
        print(json.dumps({
            "benchmark": "ddp_step", "version": torch.__version__, "model": arguments.model,
            "batch": batch, "device": arguments.device, "workers": arguments.workers, "steps": steps, "median": median,
            "q1": q1, "q3": q3, "mean": statistics.fmean(seconds), "compute": compute,
            "samples_per_second": batch / median, "pss_bytes": memory, "start": start,
        }))
    dist.barrier()


def make_model(torch, hidden, device):
    widths = [FEATURES, *hidden]
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    layers.append(torch.nn.Linear(widths[-1], CLASSES))
    # With views there is no copy between gradients and buckets: the faster of the two settings.
    return torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).to(device), gradient_as_bucket_view=True
    )


def time_steps(take_step, steps, warmup):
    """Seconds of each step that counts, and when the first of all ended."""
    seconds = []
    first_step_end = None
    before = time.monotonic()
    for step in range(warmup + steps):
        take_step()
        now = time.monotonic()
        first_step_end = first_step_end or now
        if step >= warmup:
            seconds.append(now - before)
        before = now
    return seconds, first_step_end


if __name__ == "__main__":
    main()
