"""Run operators on the host and on the device from the same inputs and seeds, and say where they differ."""

from __future__ import annotations

import contextlib
import enum
import faulthandler
import json
import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from operator_sweep.comparing import Difference, first_difference
from operator_sweep.database import SEED, Operator, load
from torchperf_lint.verify.events import Recorder
from torchperf_lint.verify.simulated import NotSimulated, install

if TYPE_CHECKING:
    from collections.abc import Iterator


class Use(enum.Enum):
    """How an operator is called."""

    FORWARD = "forward"
    IN_PLACE = "in place"
    OUT = "out="
    BACKWARD = "backward"


class Part(NamedTuple):
    """A part of the sweep: every operator that can be used so, with its first samples of a dtype."""

    use: Use
    dtype: torch.dtype = torch.float32
    samples: int = 12

    @property
    def name(self) -> str:
        kind = "" if self.dtype is torch.float32 else f" {str(self.dtype).removeprefix('torch.')}"
        return self.use.value + kind

    def operators(self, known: list[Operator]) -> Iterator[Operator]:
        for each in known:
            if self.dtype in each.dtypes(backward=self.use is Use.BACKWARD) and (
                (self.use is not Use.IN_PLACE or each.info.inplace_variant)
                and (self.use is not Use.OUT or each.info.supports_out)
            ):
                yield each


PROCESSES = {
    "without gradients": (
        Part(Use.FORWARD),
        Part(Use.IN_PLACE),
        Part(Use.OUT, samples=4),
        *(Part(Use.FORWARD, dtype, 2) for dtype in (torch.complex64, torch.int64, torch.bool, torch.bfloat16)),
    ),
    "with gradients": (Part(Use.BACKWARD), Part(Use.BACKWARD, torch.complex64, 2)),
}


class Outcome(NamedTuple):
    """What became of an operator: how many samples ran on the host, and every difference that the device made."""

    part: str
    operator: str
    ran: int
    differences: list[Difference]


def try_operator(operator: Operator, part: Part) -> Outcome:
    """Run the samples of an operator on both sides."""
    ran = 0
    differences = []
    with _memory_filled(operator):
        for sample in operator.samples(part.dtype, requires_grad=part.use is Use.BACKWARD, at_most=part.samples):
            expected = _attempt(operator, sample, part.use, "cpu")
            found = _attempt(operator, sample, part.use, "cuda")
            ran += not isinstance(expected, Exception)
            difference = _judge(found, expected, _expected_device(sample))
            differences += [difference] if difference else []
    return Outcome(part.name, operator.name, ran, differences)


def use_on_device(operator: Operator, part: Part) -> None:
    """Run the samples of an operator on the device alone, whatever becomes of them."""
    for sample in operator.samples(part.dtype, requires_grad=part.use is Use.BACKWARD, at_most=part.samples):
        _attempt(operator, sample, part.use, "cuda")


@contextlib.contextmanager
def _memory_filled(operator: Operator) -> Iterator[None]:
    """Let tensors that nobody initialised hold NaN, for the operators that make such."""
    if not operator.name.startswith(("empty", "new_empty")):
        yield
        return
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


# ---- one call


def _attempt(operator: Operator, sample: Any, use: Use, device: str) -> Any:
    """The results of a sample, or the exception that it raised."""
    torch.manual_seed(SEED)
    try:
        return _call(operator, sample, use, device)
    except Exception as error:
        return error


def _call(operator: Operator, sample: Any, use: Use, device: str) -> Any:
    first, arguments, keywords = tree_map(
        lambda value: _place(value, device), (sample.input, sample.args, sample.kwargs)
    )
    if "device" in keywords:
        keywords["device"] = device
    if use is Use.IN_PLACE:
        return _in_place(operator, first, arguments, keywords)
    result = operator.function(first, *arguments, **keywords)
    if use is Use.OUT:
        return _into(operator, result, first, arguments, keywords)
    if use is Use.BACKWARD:
        return _gradients(sample.output_process_fn_grad(result), (first, arguments, keywords))
    return result


def _place(value: Any, device: str) -> Any:
    """The same value on a device: tensors with the layout that they have in their memory."""
    if isinstance(value, torch.device) or value in _devices_by_name(value):
        return torch.device(device)
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided:
        return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)
    memory = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
    placed = memory.to(device, copy=True).as_strided(value.shape, value.stride(), value.storage_offset())
    return (placed.conj() if value.is_conj() else placed).detach().requires_grad_(value.requires_grad)


def _devices_by_name(value: Any) -> tuple[str, ...]:
    return ("cpu", "cuda", "cuda:0") if isinstance(value, str) else ()


def _in_place(operator: Operator, first: Any, arguments: Any, keywords: Any) -> Any:
    result = operator.info.inplace_variant(first, *arguments, **keywords)
    return result, result is first


def _into(operator: Operator, shape: Any, first: Any, arguments: Any, keywords: Any) -> Any:
    """What the operator writes to `out=`: to tensors of the right shape, and to empty ones that it has to resize."""
    results = []
    for make in (_full_of_ones, _empty):
        out = tree_map(make, shape)
        out = tuple(out) if isinstance(out, (tuple, list)) else out
        returned = operator.function(first, *arguments, **keywords, out=out)
        written = tree_leaves(out)
        is_out = returned is None or all(a is b for a, b in zip(tree_leaves(returned), written, strict=True))
        results.append((written, is_out))
    return results


def _full_of_ones(value: Any) -> Any:
    return torch.full_like(value, 1) if isinstance(value, torch.Tensor) else value


def _empty(value: Any) -> Any:
    return value.new_empty(0) if isinstance(value, torch.Tensor) else value


def _gradients(result: Any, inputs: Any) -> Any:
    outputs = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor) and each.requires_grad]
    leaves = [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor) and each.requires_grad]
    generator = torch.Generator().manual_seed(SEED)
    weights = [torch.randn(each.shape, generator=generator).to(each.dtype).to(each.device) for each in outputs]
    return torch.autograd.grad(outputs, leaves, weights, allow_unused=True)


# ---- judging it


def _expected_device(sample: Any) -> str:
    """Where the results must lie: an operator that is given no tensor and no device makes host tensors."""
    values = tree_leaves((sample.input, sample.args, sample.kwargs))
    named = "device" in sample.kwargs or any(isinstance(each, torch.device) for each in values)
    return "cuda" if named or any(isinstance(each, torch.Tensor) for each in values) else "cpu"


def _judge(found: Any, expected: Any, device: str) -> Difference | None:
    if isinstance(found, Exception):
        if isinstance(expected, Exception) and isinstance(found, (NotSimulated, type(expected))):
            return None
        if isinstance(found, NotSimulated):
            return Difference("not simulated", str(found))
        return Difference("raises", f"{type(found).__name__}: {found}")
    if isinstance(expected, Exception):
        return Difference("does not raise", f"{type(expected).__name__}: {expected}")
    return first_difference(found, expected, device)


# ---- a process of its own for a few parts


def main(process: str, *names: str) -> None:
    """Run some parts, for all operators or those named, and print each outcome; a crash leaves a line without one."""
    faulthandler.enable()
    known = load(lambda: install(Recorder()))
    _let_seeds_agree()
    warnings.simplefilter("ignore")
    for part in PROCESSES[process]:
        for operator in part.operators(known):
            if not names or operator.name in names:
                print(json.dumps([part.name, operator.name]), flush=True)
                print(json.dumps(try_operator(operator, part)), flush=True)


def _let_seeds_agree() -> None:
    """Let the device draw from the host's stream for the same seed, which otherwise differs on purpose."""
    from torchperf_lint.verify.simulated import randomness

    randomness._SALT = 0


if __name__ == "__main__":
    main(*sys.argv[1:])
