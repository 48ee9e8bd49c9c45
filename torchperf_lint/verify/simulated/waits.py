"""The waits inside kernels, in a table: no smaller operator shows them.

Most waits need no row here: a read is an `item`, a copy is a `copy_`, and both are recorded where they happen.
A row is needed where a CUDA kernel itself copies something to the host or to the device.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated import releases
from torchperf_lint.verify.simulated.journal import note
from torchperf_lint.verify.simulated.names import on_device

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MASKS = (torch.bool, torch.uint8)


class Provenance(enum.Enum):
    """Where a row comes from."""

    SOURCE = "source"
    """The kernel's source code."""

    DOCUMENTED = "doc"
    """PyTorch's documentation, or its own test of the synchronisation debug mode."""

    MEASURED = "measured"
    """A run on a GPU."""


Arguments = dict[str, Any]


class Wait(NamedTuple):
    """A host event of some operators; `times` computes its count from the arguments."""

    operators: str
    kind: Kind
    times: Callable[[Arguments], int]
    provenance: Provenance
    torch: str
    why: str
    staged_in_pinned_memory: bool = False  # the copy is asynchronous and the host goes on


# ---- how often


def once(arguments: Arguments) -> int:
    """One event whatever the arguments."""
    return 1


def twice(arguments: Arguments) -> int:
    """Two events whatever the arguments."""
    return 2


def thrice(arguments: Arguments) -> int:
    """Three events whatever the arguments."""
    return 3


def not_evidently_equal_or_different(arguments: Arguments) -> int:
    """One, unless sizes differ, there is nothing to compare, or both are views of the same elements."""
    one, other = arguments["self"], arguments["other"]
    if one.shape != other.shape or not one.numel():
        return 0
    views = [(each.data_ptr(), each.stride(), each.dtype, each.is_conj(), each.is_neg()) for each in (one, other)]
    return int(views[0] != views[1])


def per_device_mask(arguments: Arguments) -> int:
    """One for each mask on the device, unless the assignment is one that is done as `masked_fill_`."""
    return 0 if _is_masked_fill(arguments) else sum(map(_is_device_mask, arguments["indices"]))


def per_host_mask(arguments: Arguments) -> int:
    """One for each mask on the host, with the same exception."""
    indices = [] if _is_masked_fill(arguments) else arguments["indices"]
    return sum(each is not None and not on_device(each) and each.dtype in _MASKS for each in indices)


def per_host_index(arguments: Arguments) -> int:
    """One for each tensor of indices, not a mask, on the host."""
    return sum(each is not None and not on_device(each) and each.dtype not in _MASKS for each in arguments["indices"])


def host_value(arguments: Arguments) -> int:
    """One if the value assigned lies on the host, unless the assignment is done as `masked_fill_`."""
    return int(not _is_masked_fill(arguments) and not on_device(arguments["values"]))


def device_value(arguments: Arguments) -> int:
    """One if the value to fill in is a tensor on the device."""
    value = arguments.get("value")
    return int(isinstance(value, torch.Tensor) and on_device(value))


def without_output_size(arguments: Arguments) -> int:
    """Two if the size of the result is not given."""
    return 2 if arguments.get("output_size") is None else 0


def elements_to_bound(arguments: Arguments) -> int:
    """The smallest and the largest element, but bytes cannot be negative, and without elements nothing is read."""
    counted = arguments["self"]
    if not counted.numel():
        return 0
    return 1 if counted.dtype == torch.uint8 else 2


def without_range(arguments: Arguments) -> int:
    """Two if the range is to be found in the data."""
    return 2 if arguments.get("min", 0) == arguments.get("max", 0) else 0


def deviations_to_check(arguments: Arguments) -> int:
    """Two if the standard deviation is a tensor with elements, but one if the result is written into `out`."""
    deviation = arguments.get("std")
    checked = isinstance(deviation, torch.Tensor) and deviation.numel() > 0
    return int(checked) if "out" in arguments else 2 * checked


def host_choices(arguments: Arguments) -> int:
    """One for each tensor on the host that a condition on the device chooses from."""
    choices = [arguments.get("self"), arguments.get("other")]
    return sum(isinstance(each, torch.Tensor) and not on_device(each) for each in choices)


def matrix_with_elements(arguments: Arguments) -> int:
    """One, unless the matrix is empty."""
    return int(bool(next(iter(arguments.values())).numel()))


def if_errors_are_checked(arguments: Arguments) -> int:
    """One if the outcome is asked for."""
    return int(bool(arguments.get("check_errors")))


def order_to_bound(arguments: Arguments) -> int:
    """Two if the order of the boundaries is given and has elements: its smallest and its largest one."""
    order = arguments.get("sorter")
    return 2 if order is not None and order.numel() else 0


def sorted_search(arguments: Arguments) -> int:
    """Three where so many elements are searched for that both tensors are sorted; torch's own bound decides."""
    searched, wanted = arguments["elements"], arguments["test_elements"]
    if not isinstance(searched, torch.Tensor) or not isinstance(wanted, torch.Tensor) or arguments.get("assume_unique"):
        return 0
    return 3 if searched.numel() and wanted.numel() >= int(10 * searched.numel() ** 0.145) else 0


def lengths_to_check(arguments: Arguments) -> int:
    """Two if lengths are given: none may be negative, and they must add up."""
    return 2 if arguments.get("lengths") is not None and not arguments.get("unsafe") else 0


def _is_device_mask(index: torch.Tensor | None) -> bool:
    return index is not None and on_device(index) and index.dtype in _MASKS


def _is_masked_fill(arguments: Arguments) -> bool:
    """Whether an assignment through one mask on the device takes one number from the host: then it fills."""
    value = arguments.get("values")
    if value is None or on_device(value) or value.numel() != 1:
        return False
    indices = [each for each in arguments["indices"] if each is not None]
    return len(indices) == 1 and _is_device_mask(indices[0])


# ---- the table

_INDEXING = "index index_put index_put_ _index_put_impl_ _unsafe_index"
_ASSIGNMENT = "index_put index_put_ _index_put_impl_"

WAITS = (
    Wait(
        "nonzero masked_select",
        Kind.READ,
        once,
        Provenance.DOCUMENTED,
        ">=1.13",
        "the number of elements found is the size of the result",
    ),
    Wait(
        "_unique _unique2 unique_dim unique_consecutive unique_dim_consecutive",
        Kind.READ,
        once,
        Provenance.SOURCE,
        ">=1.13",
        "the number of different elements is the size of the result",
    ),
    Wait(
        "is_nonzero",
        Kind.READ,
        once,
        Provenance.SOURCE,
        ">=1.13",
        "the result is a Python truth value",
    ),
    Wait(
        "equal",
        Kind.READ,
        not_evidently_equal_or_different,
        Provenance.SOURCE,
        ">=1.13",
        "the result is a Python truth value",
    ),
    Wait(
        "_linalg_eigh linalg_eig _linalg_svd",
        Kind.READ,
        once,
        Provenance.SOURCE,
        ">=1.13",
        "the solver's report on each matrix is checked on the host; at least once",
    ),
    Wait(
        "linalg_matrix_exp",
        Kind.READ,
        once,
        Provenance.SOURCE,
        ">=1.13",
        "the matrices are sorted by their norms through nonzero; at least once",
    ),
    Wait(
        _INDEXING,
        Kind.READ,
        per_device_mask,
        Provenance.DOCUMENTED,
        ">=1.13",
        "a mask becomes indices through nonzero",
    ),
    Wait(
        _INDEXING,
        Kind.TO_DEVICE,
        per_host_mask,
        Provenance.DOCUMENTED,
        ">=2.11",
        "nonzero runs on the host, and its result is brought over through pinned memory",
        staged_in_pinned_memory=True,
    ),
    Wait(
        _INDEXING,
        Kind.TO_DEVICE,
        per_host_index,
        Provenance.DOCUMENTED,
        ">=1.13",
        "indices on the host are brought over by a blocking copy",
    ),
    Wait(
        _ASSIGNMENT,
        Kind.TO_DEVICE,
        host_value,
        Provenance.SOURCE,
        ">=1.13",
        "a value on the host is brought over by a blocking copy",
    ),
    Wait(
        "masked_fill masked_fill_ index_fill index_fill_",
        Kind.READ,
        device_value,
        Provenance.SOURCE,
        ">=1.13",
        "the value is read on the host",
    ),
    Wait(
        "repeat_interleave",
        Kind.READ,
        without_output_size,
        Provenance.SOURCE,
        ">=2.1",
        "the sum of the repeats is the size of the result, and none may be negative",
    ),
    Wait(
        "bincount",
        Kind.READ,
        elements_to_bound,
        Provenance.SOURCE,
        ">=1.13",
        "no element may be negative, and the largest is the size of the result",
    ),
    Wait(
        "histc",
        Kind.READ,
        without_range,
        Provenance.SOURCE,
        ">=1.13",
        "the range is the smallest and the largest element",
    ),
    Wait(
        "normal normal_functional",
        Kind.READ,
        deviations_to_check,
        Provenance.SOURCE,
        ">=1.13",
        "no standard deviation may be negative, which two functions check one after the other",
    ),
    Wait(
        "where",
        Kind.TO_DEVICE,
        host_choices,
        Provenance.MEASURED,
        ">=1.13",
        "a tensor without dimensions on the host is brought over by a blocking copy",
    ),
    Wait(
        "multinomial",
        Kind.READ,
        twice,
        Provenance.SOURCE,
        "<2.5",
        "the weights are checked on the host",
    ),
    Wait(
        "_ctc_loss _ctc_loss_backward",
        Kind.TO_DEVICE,
        thrice,
        Provenance.SOURCE,
        ">=1.13",
        "the lengths of inputs and targets and the offsets are brought over",
    ),
    Wait(
        "_ctc_loss",
        Kind.READ,
        twice,
        Provenance.MEASURED,
        ">=2.11",
        "two copies to the host come before it",
    ),
    Wait(
        "_linalg_svd _linalg_eigh cholesky linalg_lstsq",
        Kind.READ,
        matrix_with_elements,
        Provenance.SOURCE,
        ">=1.13",
        "the kernel ends with a look at whether the decomposition succeeded",
    ),
    Wait(
        "linalg_inv_ex linalg_cholesky_ex linalg_lu_factor_ex linalg_ldl_factor_ex _linalg_solve_ex",
        Kind.READ,
        if_errors_are_checked,
        Provenance.SOURCE,
        ">=1.13",
        "the outcome is checked in the kernel if the call asks for it",
    ),
    Wait(
        "linalg_eig",
        Kind.READ,
        twice,
        Provenance.SOURCE,
        ">=1.13",
        "the matrix must be finite, and then the outcome is checked",
    ),
    Wait(
        "_linalg_eigvals linalg_eigvals",
        Kind.READ,
        once,
        Provenance.SOURCE,
        ">=1.13",
        "the outcome is checked",
    ),
    Wait(
        "linalg_ldl_solve",
        Kind.SYNCHRONIZE,
        once,
        Provenance.SOURCE,
        ">=1.13",
        "the host waits for the whole device",
    ),
    Wait(
        "searchsorted",
        Kind.READ,
        order_to_bound,
        Provenance.SOURCE,
        ">=1.13",
        "the given order of the boundaries must point into them",
    ),
    Wait(
        "isin",
        Kind.READ,
        sorted_search,
        Provenance.MEASURED,
        ">=2.11",
        "the different elements of both tensors are sorted; few elements are compared one by one",
    ),
    Wait(
        "segment_reduce",
        Kind.READ,
        lengths_to_check,
        Provenance.SOURCE,
        ">=1.13",
        "the lengths of the segments are checked",
    ),
)


# ---- looking it up

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {">=": operator.ge, "<": operator.lt}


def _holds(torch_range: str) -> bool:
    comparison, major, minor = re.fullmatch(r"(>=|<)(\d+)\.(\d+)", torch_range).groups()  # type: ignore[union-attr]
    return _COMPARISONS[comparison](releases.installed(), (int(major), int(minor)))


@functools.cache
def _waits_by_operator() -> Mapping[str, tuple[Wait, ...]]:
    waits: dict[str, tuple[Wait, ...]] = {}
    for wait in WAITS:
        if _holds(wait.torch):
            for name in wait.operators.split():
                waits[name] = (*waits.get(name, ()), wait)
    return waits


def waits_of(name: str) -> tuple[Wait, ...]:
    """The rows of the table for an operator of torch itself, by its name without overload."""
    return _waits_by_operator().get(name, ())


def note_waits(name: str, waits: tuple[Wait, ...], arguments: Arguments) -> None:
    """Record what the rows say of this call."""
    for wait in waits:
        for _ in range(wait.times(arguments)):
            note(
                wait.kind,
                name,
                waits=not wait.staged_in_pinned_memory,
                pinned=wait.staged_in_pinned_memory,
                asynchronous=wait.staged_in_pinned_memory,
            )
