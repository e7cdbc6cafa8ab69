"""One rank of benchmarks/slow_link.cpp's training in PyTorch: DistributedDataParallel on Gloo.

Started by slow_link.py. Rank 0 prints one JSON object with the keys of the other program, as far as
there are such figures: medians, in seconds.
"""

import argparse
import json
import os
import statistics
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, kind, default in (
        ("rank", int, 0), ("ranks", int, 2), ("store", str, "127.0.0.1"), ("port", int, 29621),
        ("interface", str, "lo"), ("layers", int, 8), ("width", int, 1024), ("rows", int, 1024),
        ("bucket-mib", float, 4), ("steps", int, 8),
    ):
        parser.add_argument("--" + name, type=kind, default=default)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    os.environ["GLOO_SOCKET_IFNAME"] = arguments.interface
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://{arguments.store}:{arguments.port}", rank=arguments.rank,
        world_size=arguments.ranks,
    )
    torch.manual_seed(1)
    features = torch.randn(arguments.rows, arguments.width)
    labels = torch.randint(10, (arguments.rows,))
    loss_function = torch.nn.CrossEntropyLoss()

    def make_model():
        layers = []
        for _ in range(arguments.layers - 1):
            layers += [torch.nn.Linear(arguments.width, arguments.width), torch.nn.ReLU()]
        layers.append(torch.nn.Linear(arguments.width, 10))
        return torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*layers), bucket_cap_mb=arguments.bucket_mib,
            gradient_as_bucket_view=True,
        )

    def series(model, on_backward=lambda: None):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        steps, backwards = [], []
        # DDP lays out its buckets anew in the second step.
        for step in range(arguments.steps + 2):
            dist.barrier()
            begin = time.monotonic()
            optimizer.zero_grad(set_to_none=False)
            loss = loss_function(model(features), labels)
            on_backward()
            backward_begin = time.monotonic()
            loss.backward()
            backward_end = time.monotonic()
            optimizer.step()
            if step >= 2:
                steps.append(time.monotonic() - begin)
                backwards.append(backward_end - backward_begin)
        return statistics.median(steps), statistics.median(backwards)

    step, _ = series(make_model())

    # When the first bucket is ready, and how large the buckets are, only a hook can tell.
    times, sizes, started = [], {}, [0.0]

    def start():
        started[0] = time.monotonic()

    def hook(state, bucket):
        if bucket.index() == 0:
            times.append(time.monotonic() - started[0])
        sizes[bucket.index()] = bucket.buffer().numel()
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda future: future.value()[0]
        )

    hooked = make_model()
    hooked.register_comm_hook(None, hook)
    series(hooked, start)

    alone = make_model()
    with alone.no_sync():
        compute, backward = series(alone)

    buffers = [torch.zeros(size) for size in sizes.values()]
    reductions = []
    for _ in range(arguments.steps + 1):
        dist.barrier()
        begin = time.monotonic()
        for buffer in buffers:
            dist.all_reduce(buffer)
        reductions.append(time.monotonic() - begin)
    dist.barrier()
    if arguments.rank == 0:
        print(json.dumps({
            "program": "PyTorch " + torch.__version__.split("+")[0], "step": step, "compute": compute,
            "backward": backward, "all_reduces": statistics.median(reductions[1:]),
            "first_ready": statistics.median(times[2:]), "buckets": len(buffers),
        }))
    dist.barrier()


if __name__ == "__main__":
    main()
