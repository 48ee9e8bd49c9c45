"""What TPL110 writes for several reads through one mask chooses what the mask chooses, also in graphs."""

from __future__ import annotations

import pytest
import torch

_SHAPES = ((), (1,), (5,), (0,), (3, 4), (2, 0))


def _by_places(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x[mask.nonzero(as_tuple=True) if mask.dim() else mask]


@pytest.mark.parametrize("shape", _SHAPES, ids=str)
@pytest.mark.parametrize("more", [(), (2,)], ids=str)
def test_places_choose_what_the_mask_chooses(shape: tuple[int, ...], more: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    for truth in (True, False, None):
        mask = torch.rand(shape) > 0.5 if truth is None else torch.full(shape, truth)
        mine, other = (torch.arange(6.0).repeat(10)[: 2 * 12].clone() for _ in range(2))
        size = int(torch.Size((*shape, *more)).numel())
        mine, other = (each[:size].reshape((*shape, *more)).requires_grad_() for each in (mine, other))
        one, two = mine[mask], _by_places(other, mask)
        assert torch.equal(one, two)
        assert one.stride() == two.stride()
        (one * 3).sum().backward()
        (two * 3).sum().backward()
        assert torch.equal(mine.grad, other.grad)  # type: ignore[arg-type]
        mine, other = mine.detach(), other.detach()
        mine[mask] = -1
        other[mask.nonzero(as_tuple=True) if mask.dim() else mask] = -1
        assert torch.equal(mine, other)


@pytest.mark.filterwarnings("ignore")
def test_a_traced_graph_finds_the_places_of_other_masks() -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        return _by_places(x, x > 0)

    graph = torch.jit.trace(read, (torch.tensor([1.0, -1.0, 2.0]),))
    other = torch.tensor([-1.0, 3.0, 4.0, 5.0])
    assert torch.equal(graph(other), other[other > 0])


class _Read(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _by_places(x, x > 0)


@pytest.mark.slow
def test_an_exported_graph_finds_the_places_of_other_masks() -> None:
    exported = torch.export.export(_Read(), (torch.tensor([1.0, -1.0, 2.0, 0.0]),))
    other = torch.tensor([-1.0, 3.0, 4.0, 5.0])
    assert torch.equal(exported.module()(other), other[other > 0])
