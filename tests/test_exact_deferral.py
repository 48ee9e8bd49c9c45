"""The exact deferral of TPL102, executed: before and after `--fix` programs give the same, bit for bit.

The tensors are a stand-in that rounds as its dtype does, adds in place as torch does, and divides as a GPU does.
"""

from __future__ import annotations

import random
import struct
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_lint.engine import registry
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from typing_extensions import Self

HEADER = """\
import torch
import torch.nn.functional as F


"""

PROGRAMS = {
    "sum": """\
def run(model, loader, optimizer, show):
    total = 0.0
    for x, y in loader:
        total += F.mse_loss(model(x.cuda()), y.cuda()).item()
    return total
""",
    "weighted": """\
def run(model, loader, optimizer, show):
    total, seen = 0.0, 0
    for x, y in loader:
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        total += loss.item() * x.size(0)
        seen += x.size(0)
    return total / max(seen, 1)
""",
    "weight first": """\
def run(model, loader, optimizer, show):
    total = 0.0
    for x, y in loader:
        total += len(x) * F.mse_loss(model(x.cuda()), y.cuda()).item()
    return total
""",
    "a power of two": """\
def run(model, loader, optimizer, show):
    total = 0.0
    for x, y in loader:
        total += F.mse_loss(model(x.cuda()), y.cuda()).item() / 8
    return total
""",
    "whole start": """\
def run(model, loader, optimizer, show):
    total = 0
    for x, y in loader:
        total += F.mse_loss(model(x.cuda()), y.cuda()).item()
    total /= 3
    return f"{total:.12f}"
""",
    "count": """\
def run(model, loader, optimizer, show):
    correct = 0
    for x, y in loader:
        correct += (model(x.cuda()) == y.cuda()).sum().item()
    return correct
""",
    "bytes": """\
def run(model, loader, optimizer, show):
    highest = 0
    for x, y in loader:
        highest += (model(x.cuda()) == y.cuda()).byte().max().item()
    return highest
""",
    "count into a float": """\
def run(model, loader, optimizer, show):
    correct = 0.0
    for x, y in loader:
        correct += (model(x.cuda()) == y.cuda()).sum().item()
    return correct
""",
    "throttled reads and resets": """\
def run(model, loader, optimizer, show):
    window = 0.0
    for step, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        window += loss.item()
        if step % 6 == 0:
            show(window, f"{window:.9f}")
            kept = window
            window = 0.0
    return window
""",
    "epochs": """\
def run(model, loader, optimizer, show):
    total = 0.0
    for epoch in range(3):
        show(total)
        epoch_total = 0.0
        for x, y in loader:
            loss = F.mse_loss(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            total += loss.item()
            epoch_total += loss.detach().cpu().item()
        show(epoch_total, total)
    return total
""",
    "only ever seen in the loop": """\
def run(model, loader, optimizer, show):
    for epoch in range(2):
        total = 0.0
        for step, (x, y) in enumerate(loader):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            total += float(loss)
            if step % 4 == 1:
                show(total)
""",
    "broken off": """\
def run(model, loader, optimizer, show):
    total = 0.0
    for step, (x, y) in enumerate(loader):
        total += F.mse_loss(model(x.cuda()), y.cuda()).item()
        if step == 4:
            break
    return total
""",
    "while": """\
def run(model, loader, optimizer, show):
    total, batches = 0.0, list(loader)
    while batches:
        x, y = batches.pop()
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        total += loss.data.item()
    return total
""",
    "list": """\
def run(model, loader, optimizer, show):
    losses = []
    for x, y in loader:
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
""",
    "list of a tensor that changes": """\
def run(model, loader, optimizer, show):
    losses = []
    for x, y in loader:
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        loss.mul_(0)
    return losses
""",
}

INEXACT = """\
def run(model, loader, optimizer, show):
    total = 0.0
    for x, y in loader:
        total += F.mse_loss(model(x.cuda()), y.cuda()).item() / 3
    return total
"""


def _bfloat16(number: float) -> float:
    """Round to the nearest float with eight significant bits, ties to even."""
    bits = struct.unpack("I", struct.pack("f", number))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    result: float = struct.unpack("f", struct.pack("I", bits & 0xFFFF0000))[0]
    return result


ROUND = {
    "float64": float,
    "float32": lambda number: struct.unpack("f", struct.pack("f", number))[0],
    "bfloat16": _bfloat16,
    "int64": int,
    "uint8": lambda number: int(number) % 256,
    "bool": bool,
}


class Storage:
    """The memory of a tensor, which views and `detach()` share."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Tensor:
    """A scalar on a pretended device; `reads` counts how often the host looked at one."""

    reads = 0

    def __init__(self, value: Any, dtype: str, storage: Storage | None = None) -> None:
        self.dtype = dtype
        self.storage = storage or Storage(ROUND[dtype](value))

    def _with(self, other: Any, compute: Any) -> Tensor:
        if isinstance(other, Tensor):
            number = other.storage.value
            order = list(ROUND)
            dtype = min(self.dtype, other.dtype, key=order.index)
        else:
            number = other
            whole = self.dtype in ("int64", "uint8", "bool")
            dtype = "float32" if whole and isinstance(other, float) else "int64" if self.dtype == "bool" else self.dtype
        return Tensor(compute(self.storage.value, number), dtype)

    def __add__(self, other: Any) -> Tensor:
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Self:
        self.storage.value = ROUND[self.dtype]((self + other).storage.value)
        return self

    def __mul__(self, other: Any) -> Tensor:
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Tensor:
        return Tensor(self.storage.value * (1.0 / other), self.dtype)

    def mul_(self, other: float) -> Tensor:
        self.storage.value = ROUND[self.dtype](self.storage.value * other)
        return self

    def detach(self) -> Tensor:
        return Tensor(None, self.dtype, self.storage)

    data = property(detach)
    cpu = flatten = sum = max = detach

    def clone(self) -> Tensor:
        return Tensor(self.storage.value, self.dtype)

    def double(self) -> Tensor:
        return self if self.dtype == "float64" else Tensor(self.storage.value, "float64")

    def long(self) -> Tensor:
        return self if self.dtype == "int64" else Tensor(self.storage.value, "int64")

    def item(self) -> Any:
        Tensor.reads += 1
        return self.storage.value

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def backward(self) -> None:
        """Gradients are of no account here."""


class Counted(Tensor):
    """What a comparison gives: its `sum()` is a count, its `byte().max()` a uint8."""

    def __init__(self, count: int) -> None:
        super().__init__(count, "int64")

    def sum(self) -> Tensor:  # type: ignore[override]
        return Tensor(self.storage.value, "int64")

    def byte(self) -> Tensor:
        return Tensor(200, "uint8")


class Stacked:
    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    def flatten(self) -> Stacked:
        return self

    def tolist(self) -> list[Any]:
        Tensor.reads += 1
        return [tensor.storage.value for tensor in self.tensors]


class Batch:
    """Inputs that know the loss, and the count, that the program will compute from them."""

    def __init__(self, loss: float, dtype: str, size: int) -> None:
        self.loss, self.dtype, self.length = loss, dtype, size

    def cuda(self) -> Batch:
        return self

    def size(self, dim: int) -> int:
        return self.length

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> Any:
        return Counted(self.length)

    __hash__ = None  # type: ignore[assignment]


def _fake_torch() -> dict[str, types.ModuleType]:
    torch, nn, functional = (types.ModuleType(name) for name in ("torch", "torch.nn", "torch.nn.functional"))
    torch.nn, nn.functional, torch.stack = nn, functional, Stacked  # type: ignore[attr-defined]
    functional.mse_loss = lambda out, y: Tensor(out.loss, out.dtype)  # type: ignore[attr-defined]
    return {"torch": torch, "torch.nn": nn, "torch.nn.functional": functional}


def _fixed(source: str, *, unsafe: bool = False) -> str:
    rules = (registry.find_rule("item-accumulation"),)
    return fix_source("program.py", source.encode(), rules, Target(None, None), Hints(), unsafe).data.decode()  # type: ignore[arg-type]


def _outcome(source: str, dtype: str, batches: int) -> tuple[list[str], int]:
    """Everything that the program shows and returns, to the last bit and with its types, and the number of reads."""
    generator = random.Random(batches)
    loader = [(Batch(generator.uniform(0.001, 9.0), dtype, generator.randint(1, 99)),) * 2 for _ in range(batches)]
    seen: list[Any] = []
    namespace: dict[str, Any] = {}
    exec(compile(source, "program.py", "exec"), namespace)
    optimizer = types.SimpleNamespace(step=lambda: None)
    Tensor.reads = 0
    seen.append(namespace["run"](lambda batch: batch, loader, optimizer, lambda *shown: seen.extend(shown)))
    return [repr(value) for value in seen], Tensor.reads


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in _fake_torch().items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [0, 1, 2, 13])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_changes_but_the_reads(program: str, dtype: str, batches: int) -> None:
    source = HEADER + PROGRAMS[program]
    fixed = _fixed(source)
    assert fixed != source, "the fix is not safe here, or there is none"
    before, reads_before = _outcome(source, dtype, batches)
    after, reads_after = _outcome(fixed, dtype, batches)
    assert after == before, fixed
    if batches == 13:
        assert reads_after < reads_before


def test_division_is_not_exact_and_not_done_without_asking() -> None:
    source = HEADER + INEXACT
    assert _fixed(source) == source
    unsafe = _fixed(source, unsafe=True)
    assert unsafe != source
    before, _ = _outcome(source, "float32", 13)
    after, _ = _outcome(unsafe, "float32", 13)
    assert after != before, "the stand-in divides as Python does, so that nothing is tested"


def test_the_stand_in_tells_single_from_double_precision() -> None:
    source = HEADER + PROGRAMS["sum"]
    shorter = _fixed(source).replace(".double()", "")
    assert _outcome(source, "float32", 13)[0] != _outcome(shorter, "float32", 13)[0]


def test_the_stand_in_sees_tensors_that_are_shared() -> None:
    source = HEADER + PROGRAMS["list of a tensor that changes"]
    shared = _fixed(source).replace(".clone()", "")
    assert _outcome(source, "float32", 13)[0] != _outcome(shared, "float32", 13)[0]
