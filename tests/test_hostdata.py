"""What is data of the host by its form alone, and what only a value can tell."""

from __future__ import annotations

import ast

import pytest

from torchperf_lint.model.syntax.hostdata import is_host_data

HOST = """
1
"text"
f"{len(x)} of {x.shape[0]}"
x.shape
x.shape[-1] * 2
x.size(0) == y.numel()
-x.ndim
len(batch) > 1 and isinstance(x, T)
self.training
x.dtype in (torch.float16, torch.bfloat16)
x.dtype == torch.float64
torch.jit.is_scripting()
torch.is_tensor(x)
1 if x.is_cuda else 2
""".strip().splitlines()

OPEN = """
x
self.flag
x > 1
f"{loss}"
x.sum()
x.data
x.shape[0] * scale
torch.is_nonzero(x)
self.is_done(x)
compute(x)
len
x if x.ndim else 0
(x.shape, x)
x.dtype in kinds
x.grad_fn
str(loss)
f"{repr(loss)}"
tracker.size(loss)
tracker.size(value=loss)
tracker.names
f"{x.ndim:{loss}}"
""".strip().splitlines()


def expression(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize("text", HOST)
def test_host_data(text):
    assert is_host_data(expression(text))


@pytest.mark.parametrize("text", OPEN)
def test_what_may_be_a_tensor(text):
    assert not is_host_data(expression(text))
