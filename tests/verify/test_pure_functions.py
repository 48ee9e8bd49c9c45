"""The functions that count as pure are so by torch's own declarations of them."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

from torchperf_lint.knowledge.pure_functions import PURE, PURE_UNLESS_IN_PLACE

WRITTEN_TO_IF_GIVEN = {"max_norm", "running_mean", "inplace"}
TAKES_FUNCTIONS = "distance_function"


def parameters(name: str) -> set[str]:
    """The names of a function's parameters; empty where it is none of Python's."""
    try:
        return set(inspect.signature(functools.reduce(getattr, name.split(".")[1:], torch)).parameters)
    except ValueError:
        return set()


def writes(name: str) -> list[str]:
    """The overloads of torch's operator of that name that write to an argument other than `out`."""
    stem = name.rpartition(".")[2]
    space = "linalg_" if ".linalg." in name else ""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{space}{stem}")
    return [
        str(schema)
        for schema in schemas
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write and not argument.is_out
        if "Tensor" in str(argument.type) and not str(argument.type).startswith("List")
    ]


@pytest.mark.parametrize("name", sorted(PURE))
def test_a_pure_function_writes_to_nothing_and_calls_nothing(name):
    assert not parameters(name) & (WRITTEN_TO_IF_GIVEN | {TAKES_FUNCTIONS})
    assert writes(name) == []


@pytest.mark.parametrize("name", sorted(PURE_UNLESS_IN_PLACE))
def test_a_function_that_may_write_has_the_word_for_it(name):
    assert parameters(name) & WRITTEN_TO_IF_GIVEN == {"inplace"}


@pytest.mark.parametrize("name", ["torch.relu_", "torch.index_add_", "torch.swapaxes_", "torch.embedding_renorm_"])
def test_the_declarations_tell_what_writes(name):
    assert writes(name)
