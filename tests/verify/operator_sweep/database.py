"""Torch's own database of operators: each with sample inputs, and with the function that a program would call."""

from __future__ import annotations

import functools
import itertools
import sys
import types
import unittest
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 0


class Operator(NamedTuple):
    """An entry of the database."""

    name: str
    info: Any
    function: Callable[..., Any]

    def samples(self, dtype: torch.dtype, *, requires_grad: bool, at_most: int | None) -> Iterator[Any]:
        """Its first sample inputs, on the host; the same in every run."""
        torch.manual_seed(SEED)
        made = self.info.sample_inputs("cpu", dtype, requires_grad=requires_grad, set_seed=False)
        return itertools.islice(made, at_most)

    def dtypes(self, *, backward: bool = False) -> set[torch.dtype]:
        """The dtypes that it takes on the host."""
        if backward and not self.info.supports_autograd:
            return set()
        taken: set[torch.dtype] = set(self.info.supported_dtypes("cpu"))
        return taken & set(self.info.supported_backward_dtypes("cpu")) if backward else taken


def load(install: Callable[[], None]) -> list[Operator]:
    """Read the database, make the device, and return the operators as programs find them on that device.

    The database takes functions out of torch while it is imported, and asks of a device what the simulated one
    refuses: so it is read first, and the functions that then have another face are looked up again.
    """
    infos = _read()
    found_in_torch = {_full_name(info) for info in infos if _look_up(info.name) is info.op}
    install()
    return [
        Operator(name, info, _look_up(info.name) if name in found_in_torch else info.op)
        for info in infos
        for name in [_full_name(info)]
    ]


def _read() -> list[Any]:
    if "expecttest" not in sys.modules:  # torch's tests need it; the database does not
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def _full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def _look_up(name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), torch)
    except AttributeError:
        return None
