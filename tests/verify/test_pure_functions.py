"""The functions that count as pure are so by torch's own declarations of them."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

from torchperf_lint.knowledge.pure_functions import MAY_GIVE_ITS_ARGUMENT, PURE, PURE_NUMPY, PURE_UNLESS_IN_PLACE

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


@pytest.mark.parametrize("name", sorted(PURE_NUMPY))
def test_a_function_of_numpy_takes_no_output_among_its_first_arguments(name):
    numpy = pytest.importorskip("numpy")
    function = functools.reduce(lambda owner, part: getattr(owner, part, None), name.split(".")[1:], numpy)
    if function is None:
        pytest.skip("this release does not have it")
    if isinstance(function, numpy.ufunc):
        assert PURE_NUMPY[name] <= function.nin
    else:
        assert "out" not in list(inspect.signature(function).parameters)[: PURE_NUMPY[name]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 1), (4, 4), (4, 1, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_a_pure_function_that_gives_a_view_is_named(shape, dtype):
    """The functions of one tensor that share its memory, found by running them."""
    x = torch.ones(shape, dtype=dtype)
    sharing = set()
    for name in PURE | PURE_UNLESS_IN_PLACE:
        try:
            made = functools.reduce(getattr, name.split(".")[1:], torch)(x)
        except (TypeError, RuntimeError, IndexError, ValueError, AttributeError):
            continue
        several = made if isinstance(made, (tuple, list)) else [made]
        tensors = [each for each in several if isinstance(each, torch.Tensor)]
        if any(each.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for each in tensors):
            sharing.add(name.rpartition(".")[2])
    assert "ravel" in sharing
    assert sharing <= MAY_GIVE_ITS_ARGUMENT
