#!/usr/bin/env python3
"""Writes reference_values.h: outputs and gradients of every operation as PyTorch computes them.

Run once, with Debian's python3-torch; the result is committed, so that the tests
need no Python.
Everything is float64. The gradients are those of sum(output * weight).

    /usr/bin/python3 make_reference.py > reference_values.h
"""
import torch
import torch.nn.functional as F

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)


def normal(*shape):
    return torch.randn(*shape)


def positive(*shape):
    return torch.rand(*shape) + 0.5


TARGETS = torch.tensor([2, 0, -100, 3, 2])
RUNNING_MEAN = torch.tensor([0.5, -1.0, 0.25])
RUNNING_VARIANCE = torch.tensor([1.0, 0.5, 2.0])


def cross_entropy(**options):
    return lambda x: F.cross_entropy(x, TARGETS, reduction="sum", **options)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def linear(activation):
    return lambda x, w, b: activation(F.linear(x, w, b))


def batch_norm(training):
    return lambda x, w, b: F.batch_norm(x, RUNNING_MEAN.clone(), RUNNING_VARIANCE.clone(), w, b, training)


# Name, function, inputs. Names are matched by reference_test.cpp.
CASES = [
    ("add", torch.add, [normal(2, 3), normal(3)]),
    ("subtract", torch.sub, [normal(2, 1, 3), normal(4, 1)]),
    ("multiply", torch.mul, [normal(2, 3), normal(2, 1)]),
    ("divide", torch.div, [normal(2, 3), positive(2, 3)]),
    ("divide_broadcast", torch.div, [normal(3), positive(2, 1)]),
    ("scale", lambda x: x * -2.5, [normal(2, 3)]),
    ("relu", F.relu, [normal(3, 4)]),
    ("gelu", F.gelu, [2 * normal(3, 4)]),
    ("tanh", torch.tanh, [normal(3, 4)]),
    ("sigmoid", torch.sigmoid, [3 * normal(3, 4)]),
    ("exp", torch.exp, [normal(3, 4)]),
    ("log", torch.log, [positive(3, 4)]),
    ("matmul", torch.matmul, [normal(3, 4), normal(4, 2)]),
    ("matmul_batched", torch.matmul, [normal(2, 1, 3, 4), normal(3, 4, 2)]),
    ("matmul_one_matrix", torch.matmul, [normal(2, 3, 4), normal(4, 2)]),
    ("linear", lambda x, w, b: F.linear(x, w, b), [normal(3, 4), normal(5, 4), normal(5)]),
    ("linear_no_bias", F.linear, [normal(2, 3, 4), normal(5, 4)]),
    ("linear_relu", linear(F.relu), [normal(3, 4), normal(5, 4), normal(5)]),
    ("linear_gelu", linear(F.gelu), [normal(2, 2, 3), normal(4, 3), normal(4)]),
    ("linear_tanh", linear(torch.tanh), [normal(3, 2), normal(4, 2), normal(4)]),
    ("linear_sigmoid", linear(torch.sigmoid), [normal(3, 2), normal(4, 2), normal(4)]),
    ("sum_all", torch.sum, [normal(2, 3)]),
    ("sum_axes", lambda x: x.sum(dim=(0, 2)), [normal(2, 3, 4)]),
    ("sum_keep", lambda x: x.sum(dim=-1, keepdim=True), [normal(2, 3, 4)]),
    ("mean_all", torch.mean, [normal(2, 3)]),
    ("mean_axis", lambda x: x.mean(dim=1), [normal(2, 3, 4)]),
    ("softmax", lambda x: F.softmax(x, dim=-1), [3 * normal(3, 5)]),
    ("log_softmax", lambda x: F.log_softmax(x, dim=-1), [3 * normal(3, 5)]),
    ("cross_entropy", cross_entropy(), [2 * normal(5, 4)]),
    ("cross_entropy_smooth", cross_entropy(label_smoothing=0.1), [2 * normal(5, 4)]),
    ("squared_error", lambda x, y: F.mse_loss(x, y, reduction="sum"), [normal(3, 2), normal(3, 2)]),
    ("mse", F.mse_loss, [normal(3, 2), normal(3, 2)]),
    ("reshape", lambda x: x.reshape(4, 3), [normal(2, 3, 2)]),
    ("transpose", lambda x: x.transpose(0, 2), [normal(2, 3, 2)]),
    ("slice", lambda x: x[:, 1:3], [normal(2, 4)]),
    ("concat", lambda x, y: torch.cat([x, y], dim=1), [normal(2, 2), normal(2, 3)]),
    ("batch_norm", batch_norm(True), [normal(5, 3), normal(3), normal(3)]),
    ("batch_norm_inference", batch_norm(False), [normal(5, 3), normal(3), normal(3)]),
    ("gelu_tanh", gelu_tanh, [2 * normal(3, 4)]),
    ("linear_gelu_tanh", linear(gelu_tanh), [normal(2, 2, 3), normal(4, 3), normal(4)]),
]


def tensor(x):
    shape = ", ".join(str(n) for n in x.shape)
    values = ", ".join(repr(v) for v in x.detach().reshape(-1).tolist())
    return "{{%s}, {%s}}" % (shape, values)


def tensors(xs):
    return "{%s}" % ",\n      ".join(tensor(x) for x in xs)


def main():
    print("// Written by make_reference.py with PyTorch %s; do not edit.\n#pragma once\n" % torch.__version__)
    print('#include "tests/framework/ops/reference/reference_case.h"\n')
    print("namespace lockstep::ops {\n\n// clang-format off\ninline const ReferenceCase reference_cases[] = {")
    for name, function, inputs in CASES:
        leaves = [x.clone().requires_grad_() for x in inputs]
        output = function(*leaves)
        weight = torch.randn(output.shape)
        output.backward(weight)
        gradients = [x.grad for x in leaves]
        print('    {"%s",\n     %s,\n     %s,\n     %s,\n     %s},'
              % (name, tensors(inputs), tensor(weight), tensor(output), tensors(gradients)))
    print("};\n// clang-format on\n\n}  // namespace lockstep::ops")


main()
