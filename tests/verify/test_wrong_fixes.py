"""Fixes that are broken on purpose, each in a program of its rule: the verification rejects every one, and says why."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch", "2.13", reason="the device is simulated for torch 2.13")

from torchperf_lint.verify import pairs
from torchperf_lint.verify.pairs import Case
from torchperf_lint.verify.workloads import fixtures_root, read_workload

RULES = fixtures_root() / "rules"

TYPES = "transfer/chained_transfer/run_host_types"
TERMS = "transfer/python_data_to_cuda/run_loss_terms"
MASK = "transfer/cpu_construct_then_move/run_attention_mask"
PIXELS = "transfer/cast_side_of_transfer/run_pixels"
WRITTEN = "transfer/blocking_h2d_copy/run_written_batches"
EPOCHS = "sync/item_accumulation/run_train_and_validate"
BOUNDS = "sync/implicit_tensor_bool/run_bounds"
COUNTS = "sync/item_accumulation/run_counts"

WRONG = [
    (TYPES, "argmax(-1).long()", "argmax(-1).int()", "dtype torch.int64 became torch.int32"),
    (TERMS, "(), len(features), device", "(), float(len(features)), device", "dtype torch.int64 became torch.float32"),
    (MASK, "arange(length, device", "arange(length, dtype=torch.int32, device", "dtype torch.int64 became torch.int32"),
    (PIXELS, "permute(0, 2, 1).to", "permute(0, 2, 1).contiguous().to", "strides [16, 1, 4] became [16, 4, 1]"),
    (WRITTEN, "whole = images.to(device)", "whole = images.to(device, non_blocking=True)", "before the copy is done"),
    (EPOCHS, ".double()", ".float()", " became "),
    (BOUNDS, "hits.sum())", "hits.sum()).float()", "dtype torch.int64 became torch.float32"),
    (COUNTS, 'far", int(hits)', 'far", str(int(hits))', "of print is given str, str, int, str, int, int before"),
]
"""The program, what its safe fix says there, what a wrong one would say, and the objection to that."""


@functools.cache
def case_of(program: str) -> Case:
    return Case(read_workload(RULES / f"{program}.py"), None)


@functools.cache
def run_of(program: str, text: bytes) -> pairs.Run:
    with tempfile.TemporaryDirectory() as folder:
        return pairs.run_variant(Path(folder), case_of(program), text, "sim", ())


@pytest.mark.parametrize(("program", "right", "wrong", "said"), WRONG, ids=[each[2] for each in WRONG])
def test_a_wrong_fix_is_rejected(program, right, wrong, said):
    case, fixed = case_of(program), (RULES / f"{program}.fixed.py").read_bytes()
    assert right.encode() in fixed
    before, after = run_of(program, case.workload.data), run_of(program, fixed.replace(right.encode(), wrong.encode()))
    found = pairs.objections(before, after, case.workload.agreement, safe=True)
    assert any(said in each for each in found), found
