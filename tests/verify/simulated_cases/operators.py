"""Every operator that torch has samples for: the device gives the host's results and gradients."""

from __future__ import annotations

import itertools
import sys
import types
import unittest
import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from simulated_cases.harness import assert_same

SAMPLES = 2

# Operator: why it is left out.
EXCEPTIONS = {
    "as_strided_partial_views": "its samples reach beyond the memory that a copy of them has",
    "tensor_split": "indices on the device are refused, as on CUDA",
    "sparse_sampled_addmm": "sparse tensors are not simulated",
    "sparse_mm_reduce": "sparse tensors are not simulated",
    "to_sparse": "sparse tensors are not simulated",
}
RANDOM = """
    rand dropout normal bernoulli multinomial uniform exponential cauchy geometric empty fractional lowrank rrelu gumbel
    scaled_dot_product_attention multi_head_attention
    """.split()


def operators():
    stand_in = types.ModuleType("expecttest")  # torch's samples import it, and do not need it
    stand_in.TestCase = unittest.TestCase
    sys.modules.setdefault("expecttest", stand_in)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [each for each in op_db if torch.float32 in each.dtypes and each.formatted_name not in EXCEPTIONS]


def on_device(values):
    return tree_map_only(torch.Tensor, lambda t: t.detach().clone().to("cuda").requires_grad_(t.requires_grad), values)


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def gradients(results, inputs):
    wanted = [each for each in tensors(inputs) if each.requires_grad]
    sums = [(each.abs() if each.is_complex() else each).sum() for each in tensors(results) if each.requires_grad]
    return torch.autograd.grad(sums, wanted, allow_unused=True) if sums and wanted else ()


def compare(operator, sample) -> bool:
    """Compare one sample; False where the host has no result either."""
    inputs = (sample.input, sample.args, sample.kwargs)
    try:
        on_host = operator.op(inputs[0], *inputs[1], **inputs[2])
    except Exception:
        return False
    moved = on_device(inputs)
    if "device" in moved[2]:
        moved[2]["device"] = "cuda"
    found = operator.op(moved[0], *moved[1], **moved[2])
    pairs = [(tensors(found), tensors(on_host))]
    if operator.supports_autograd:
        pairs.append((gradients(found, moved), gradients(on_host, inputs)))
    for ours, theirs in pairs:
        assert [each is None for each in ours] == [each is None for each in theirs]
        assert [each.shape for each in ours if each is not None] == [each.shape for each in theirs if each is not None]
        if not any(word in operator.formatted_name for word in RANDOM):
            for a, b in zip(ours, theirs, strict=True):
                if b is not None:
                    assert_same(a, b, within=1e-5)
    return True


def check_samples_of_every_operator() -> None:
    wrong, compared = {}, 0
    for operator in operators():
        try:
            samples = list(
                itertools.islice(
                    operator.sample_inputs("cpu", torch.float32, requires_grad=operator.supports_autograd), SAMPLES
                )
            )
        except Exception:
            continue
        for sample in samples:
            torch.manual_seed(0)
            try:
                compared += compare(operator, sample)
            except Exception as error:
                wrong[operator.formatted_name] = f"{type(error).__name__}: {error}"[:300]
    assert not wrong, wrong
    assert compared > 1000, compared
