"""The functions `_deferred` and `_settled` that fixes write into files: what is no float of a GPU is read as before."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchperf_lint.idioms.written_helpers import DEFERRED, SETTLED


class Counted:
    """An object with an `item` of its own."""

    def item(self) -> str:
        return "read by its own method"


class OnGpu(torch.Tensor):
    """A tensor of another class that says it is on a GPU."""

    is_cuda = True  # type: ignore[assignment]


def _helpers() -> tuple[Any, Any]:
    space: dict[str, Any] = {"torch": torch}
    for helper in (DEFERRED, SETTLED):
        exec("\n".join(line.format(torch="torch") for line in helper.lines), space)
    return space[DEFERRED.name], space[SETTLED.name]


@pytest.mark.parametrize("value", [1.5, 3, True, 2 + 1j])
def test_numbers_of_the_host_are_read_at_once(value: complex) -> None:
    deferred, _ = _helpers()
    number = deferred(torch.tensor([value]))
    assert number == value
    assert type(number) is type(value)


def test_other_objects_are_read_by_their_own_method() -> None:
    deferred, _ = _helpers()
    assert deferred(Counted()) == "read by its own method"
    assert deferred(torch.tensor(2.5).as_subclass(OnGpu)) == 2.5


def test_more_than_one_element_is_the_same_error() -> None:
    deferred, _ = _helpers()
    with pytest.raises(RuntimeError):
        deferred(torch.zeros(2))


def test_a_sum_is_read_once_and_a_number_stays() -> None:
    _, settled = _helpers()
    assert settled(0) == 0
    assert type(settled(0)) is int
    assert settled(torch.tensor(0.1, dtype=torch.float64)) == 0.1
