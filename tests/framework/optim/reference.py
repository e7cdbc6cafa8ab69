"""Writes optimizer_reference.h: trajectories of torch.optim in float64, the reference of optimizer_test.

Run with PyTorch (the stored values are from 1.13): python3 reference.py > optimizer_reference.h
"""

import torch

STEPS, COUNT = 6, 7

CASES = {
    "sgd": (torch.optim.SGD, {}),
    "sgd_decay": (torch.optim.SGD, dict(weight_decay=0.05)),
    "sgd_momentum": (torch.optim.SGD, dict(momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": (torch.optim.SGD, dict(momentum=0.8, weight_decay=0.01, nesterov=True)),
    "adam": (torch.optim.Adam, {}),
    "adam_decay": (torch.optim.Adam, dict(betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "adamw": (torch.optim.AdamW, dict(betas=(0.9, 0.98), weight_decay=0.1)),
}


def cpp(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


def table(name, rows):
    body = ",\n    ".join(cpp(row) for row in rows)
    return f"inline constexpr Trajectory {name} = {{{{\n    {body},\n}}}};\n"


def main():
    torch.manual_seed(1)
    initial = torch.randn(COUNT, dtype=torch.float64)
    gradients = torch.randn(STEPS, COUNT, dtype=torch.float64) * torch.logspace(-3, 2, COUNT, dtype=torch.float64)
    rates = [0.1, 0.1, 0.05, 0.2, 0.01, 0.03]

    print("// Written by reference.py with PyTorch", torch.__version__, "in float64; not edited by hand.")
    print("#pragma once\n\n#include <array>\n")
    print("namespace lockstep::optim::reference {\n")
    print(f"inline constexpr int steps = {STEPS};\ninline constexpr int count = {COUNT};")
    print("using Values = std::array<double, count>;")
    print("using Trajectory = std::array<Values, steps>;  // after each step\n")
    print(f"inline constexpr Values initial = {{{cpp(initial)}}};")
    print(f"inline constexpr std::array<double, steps> rates = {cpp(rates)};")
    print(table("gradients", gradients))
    for name, (optimizer_class, options) in CASES.items():
        parameter = initial.clone().requires_grad_()
        optimizer = optimizer_class([parameter], lr=1.0, **options)
        rows = []
        for gradient, rate in zip(gradients, rates):
            optimizer.param_groups[0]["lr"] = rate
            parameter.grad = gradient.clone()
            optimizer.step()
            rows.append(parameter.detach().clone())
        print(table(name, rows))
    print("}  // namespace lockstep::optim::reference")


if __name__ == "__main__":
    main()
