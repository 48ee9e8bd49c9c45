"""The exact deferral of TPL102 with torch's own numbers: unfixed and fixed programs give the same, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchperf_lint.engine import registry
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

HEADER = """\
import torch
import torch.nn.functional as F


@torch.no_grad()
def run(model, loader, device=torch.device("cuda"), show=print):
"""

PROGRAMS = {
    "sum": """\
    total = 0.0
    for x, y in loader:
        total += F.mse_loss(model(x.to(device)), y.to(device)).item()
    return total
""",
    "weights": """\
    total, first, halved, tenth = 0.0, 0.0, 0.0, 0.0
    for x, y in loader:
        loss = F.l1_loss(model(x.to(device)), y.to(device))
        total += loss.item() * x.size(0)
        first += len(x) * float(loss)
        halved += loss.detach().cpu().item() / 2
        tenth += 0.1 * loss.item() * x.size(0)
    return total, first, halved, tenth
""",
    "sum from a whole number": """\
    total = 0
    for x, y in loader:
        total += F.mse_loss(model(x.to(device)), y.to(device)).item()
    total /= 3
    show(f"{total:.17f}")
""",
    "counts": """\
    hits, share, highest, difference = 0, 0.0, 0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        hits += (model(x) > y).sum().item()
        share += (model(x) > y).sum().item()
        highest += ((model(x) > y).byte() * 200).max().item()
        difference += 3 * ((model(x) > 0).int() - (y > 0).int()).sum().item()
    return hits, share, highest, difference
""",
    "throttled reads": """\
    total, window = 0.0, 0.0
    for step, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        total += loss.item()
        window += loss.item()
        if step % 6 == 0:
            show(total, f"{window:.17f}")
            window = 0.0
    return total, window
""",
    "epochs": """\
    total = 0.0
    for epoch in range(3):
        in_epoch = 0.0
        for x, y in loader:
            loss = F.mse_loss(model(x.to(device)), y.to(device))
            total += loss.item()
            in_epoch += loss.item()
        show(total, in_epoch)
    return total
""",
    "lists": """\
    losses, again, flags, counts = [], [], [], []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.mse_loss(model(x), y)
        losses.append(loss.item())
        again.append(F.mse_loss(model(x), y).item())
        flags.append((model(x) > y).any().item())
        counts.append((model(x) > y).sum().item())
        loss.mul_(0)
    return losses, again, flags, counts
""",
}

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class Reads(TorchDispatchMode):
    """Counts the reads of single numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def _fixed(source: str) -> str:
    rules = (registry.find_rule("item-accumulation"),)
    return fix_source("program.py", source.encode(), rules, Target(None, None), Hints(), False).data.decode()  # type: ignore[arg-type]


def _outcome(source: str, dtype: torch.dtype, batches: int) -> tuple[list[str], int]:
    """All that the program shows and returns, to the last bit and with its types, and how many numbers were read."""
    generator = torch.Generator().manual_seed(batches)
    rows = torch.randint(1, 9, (batches,), generator=generator)
    loader = [tuple(3 * torch.randn(2, int(n), 5, generator=generator, dtype=torch.float64).to(dtype)) for n in rows]
    seen: list[Any] = []
    namespace: dict[str, Any] = {}
    exec(compile(source, "program.py", "exec"), namespace)
    with Reads() as reads:
        seen.append(namespace["run"](torch.tanh, loader, torch.device("cpu"), lambda *shown: seen.extend(shown)))
    return [repr(value) for value in seen], reads.count


@pytest.mark.parametrize("batches", [0, 1, 50])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_changes_but_the_reads(program: str, dtype: torch.dtype, batches: int) -> None:
    source = HEADER + PROGRAMS[program]
    fixed = _fixed(source)
    assert ".item()" not in fixed, "a read is left that the fix should have deferred"
    before, reads_before = _outcome(source, dtype, batches)
    after, reads_after = _outcome(fixed, dtype, batches)
    assert after == before, fixed
    if batches == 50:
        assert reads_after < reads_before / 2


def test_single_precision_would_not_do() -> None:
    source = HEADER + PROGRAMS["sum"]
    shorter = _fixed(source).replace(".double()", "")
    assert _outcome(source, torch.float32, 50)[0] != _outcome(shorter, torch.float32, 50)[0]


def test_small_integers_would_run_over() -> None:
    source = HEADER + PROGRAMS["counts"]
    shorter = _fixed(source).replace(".long()", "")
    assert _outcome(source, torch.float32, 50)[0] != _outcome(shorter, torch.float32, 50)[0]


def test_a_list_of_shared_tensors_would_change() -> None:
    source = HEADER + PROGRAMS["lists"]
    shared = _fixed(source).replace(".clone()", "")
    assert _outcome(source, torch.float32, 50)[0] != _outcome(shared, torch.float32, 50)[0]
