"""Random programs of views, in-place operations, indexing and mixed operands, drawn from a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 8


class Step(NamedTuple):
    """One operation, on tensors that are drawn once, so that both runs take the same."""

    text: str
    run: Callable[[Run], None]
    mixes: bool = False  # an operand lies on the host on either device
    refused: bool = False  # CUDA does not take that operand


class Run:
    """A run of a program on one device: its tensors, all made on the host from the same seed."""

    def __init__(self, seed: int, device: str) -> None:
        self.device = device
        self._generator = torch.Generator().manual_seed(seed)
        self.tensors = [self.fresh(4, 3), self.fresh(3, 4).t(), self.fresh(2, 3, 4)]

    def fresh(self, *shape: int) -> torch.Tensor:
        """Small whole numbers, so that sums are exact and values often equal."""
        return torch.randint(-4, 5, shape, generator=self._generator).float().to(self.device)

    def on_host(self, *shape: int) -> torch.Tensor:
        """Numbers that stay on the host on either device."""
        return torch.randint(-4, 5, shape, generator=self._generator).float()


def draw(seed: int) -> list[Step]:
    """A program."""
    choose = random.Random(seed)
    return [choose.choice(MAKERS)(choose) for _ in range(LENGTH)]


# ---- steps


def _view(choose: random.Random) -> Step:
    index = choose.randrange(1 << 16)
    name, view = choose.choice(
        [
            ("transpose(0, -1)", lambda t: t.transpose(0, -1)),
            ("[1:]", lambda t: t[1:]),
            ("[..., ::2]", lambda t: t[..., ::2]),
            ("[0]", lambda t: t[0]),
            ("unsqueeze(0)", lambda t: t.unsqueeze(0)),
            ("unsqueeze(-1).expand(2)", lambda t: t.unsqueeze(-1).expand(*t.shape, 2)),
            ("reshape(-1)", lambda t: t.reshape(-1)),
            ("view(-1)", lambda t: t.view(-1)),
            ("diagonal()", lambda t: t.diagonal()),
            ("unfold(0, 2, 1)", lambda t: t.unfold(0, 2, 1)),
            ("chunk(2)[-1]", lambda t: t.chunk(2)[-1]),
            ("flip(0)", lambda t: t.flip(0)),
            ("contiguous()", lambda t: t.contiguous()),
            ("as_strided", lambda t: t.as_strided((2,), (1,), t.storage_offset())),
            ("detach()", lambda t: t.detach()),
            ("swapaxes and select", lambda t: t.swapaxes(0, -1).select(0, 1)),
        ]
    )

    def step(run: Run) -> None:
        run.tensors.append(view(_pick(run, index)))

    return Step(f"#{index} {name}", step)


def _in_place(choose: random.Random) -> Step:
    one, other = choose.randrange(1 << 16), choose.randrange(1 << 16)
    name = choose.choice(["add_", "sub_", "mul_", "copy_", "logical_and_", "clamp_min_", "maximum into itself"])

    def step(run: Run) -> None:
        a, b = _pick(run, one), _pick(run, other)
        if name == "maximum into itself":
            torch.maximum(a, b, out=a)
        else:
            getattr(a, name)(b)

    return Step(f"#{one}.{name}(#{other})", step)


def _change(choose: random.Random) -> Step:
    index = choose.randrange(1 << 16)
    name, change = choose.choice(
        [
            ("zero_()", lambda t: t.zero_()),
            ("add_(1)", lambda t: t.add_(1)),
            ("relu_()", lambda t: t.relu_()),
            ("[0] = 7", lambda t: t.__setitem__(0, 7)),
            ("[..., -1] = t[..., 0]", lambda t: t.__setitem__((..., -1), t[..., 0])),
            ("t_()", lambda t: t.t_()),
            ("squeeze_()", lambda t: t.squeeze_()),
            ("[t > 0] = 2.0", lambda t: t.__setitem__(t > 0, 2.0)),
            ("[t < 0] *= 2", lambda t: t.__setitem__(t < 0, t[t < 0] * 2)),
            ("masked_fill_(t == 0, 5)", lambda t: t.masked_fill_(t == 0, 5)),
            ("cumsum_(0)", lambda t: t.cumsum_(0)),
            ("resize_(2, 2)", lambda t: t.resize_(2, 2) if t.numel() >= 4 else t),
        ]
    )

    def step(run: Run) -> None:
        change(_pick(run, index))

    return Step(f"#{index} {name}", step)


def _index(choose: random.Random) -> Step:
    index = choose.randrange(1 << 16)
    rows = [choose.randrange(3) for _ in range(choose.randrange(1, 4))]
    name, pick = choose.choice(
        [
            (f"[{rows}]", lambda t: t[rows]),
            ("[rows on the host]", lambda t: t[torch.tensor(rows)]),
            ("[rows on its device]", lambda t: t[torch.tensor(rows).to(t.device)]),
            ("[host mask]", lambda t: t[(t > 0).cpu()]),
            ("[mask]", lambda t: t[t > 0]),
            ("index_select", lambda t: t.index_select(0, torch.tensor(rows).to(t.device))),
            ("nonzero()", lambda t: t.nonzero().float()),
            ("where(t > 0)", lambda t: torch.where(t > 0)[0].float()),
            ("sort()", lambda t: t.sort(0, stable=True)[0]),
            ("unique()", lambda t: t.unique()),
            ("take_along_dim", lambda t: t.take_along_dim(t.argmax(0, keepdim=True), 0)),
        ]
    )

    def step(run: Run) -> None:
        run.tensors.append(pick(_pick(run, index)))

    return Step(f"#{index} {name}", step)


def _combine(choose: random.Random) -> Step:
    one, other = choose.randrange(1 << 16), choose.randrange(1 << 16)
    name, combine = choose.choice(
        [
            ("+", lambda a, b: a + b),
            ("@", lambda a, b: a @ b),
            ("where", lambda a, b: torch.where(a > b, a, b)),
            ("cat", lambda a, b: torch.cat([a, b])),
            ("sum() *", lambda a, b: a.sum() * b),
            ("minimum", torch.minimum),
            ("- mean", lambda a, b: a - b.sum(0)),
        ]
    )

    def step(run: Run) -> None:
        run.tensors.append(combine(_pick(run, one), _pick(run, other)))

    return Step(f"#{one} {name} #{other}", step)


def _mix(choose: random.Random) -> Step:
    """An operand on the host: CUDA takes it without dimensions in some places, with dimensions in a few."""
    index, shape = choose.randrange(1 << 16), choose.choice([(), (), (), (4,)])
    never, zero_dim, always = -1, 0, 1
    name, mix, dimensions = choose.choice(
        [
            ("t + host", lambda t, host: t + host, zero_dim),
            ("host * t", lambda t, host: host * t, zero_dim),
            ("t.add_(host)", lambda t, host: t.add_(host), zero_dim),
            ("host.add_(t)", lambda t, host: host.add_(t), never),
            ("t[0] = host", lambda t, host: t.__setitem__(0, host), always),
            ("t[t > 0] = host", lambda t, host: t.__setitem__(t > 0, host), always),
            ("where(t > 0, t, host)", lambda t, host: torch.where(t > 0, t, host), zero_dim),
            ("stack([t[0], host])", lambda t, host: torch.stack([t.flatten()[0], host]), never),
            ("cat([t, host])", lambda t, host: torch.cat([t.flatten(), host.flatten()]), never),
            ("t.fill_(host)", lambda t, host: t.fill_(host), zero_dim),
            ("masked_fill(t > 0, host)", lambda t, host: t.masked_fill(t > 0, host), zero_dim),
            ("maximum(t, host)", torch.maximum, zero_dim),
            ("t.copy_(host)", lambda t, host: t.copy_(host), always),
            ("t @ host", lambda t, host: t @ host, never),
            ("addcmul(t, t, host)", lambda t, host: torch.addcmul(t, t, host), zero_dim),
            ("index_select by host rows", lambda t, host: t.index_select(0, host.flatten().abs().long()), never),
            ("gather by a host index", lambda t, host: t.gather(0, host.abs().long()), never),
        ]
    )

    def step(run: Run) -> None:
        mixed = mix(_pick(run, index), run.on_host(*shape))
        if isinstance(mixed, torch.Tensor):
            run.tensors.append(mixed)

    return Step(f"#{index} {name} of shape {list(shape)}", step, mixes=True, refused=len(shape) > dimensions)


MAKERS = (_view, _view, _in_place, _change, _index, _combine, _mix)


def _pick(run: Run, index: int) -> torch.Tensor:
    return run.tensors[index % len(run.tensors)]
