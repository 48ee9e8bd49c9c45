"""The function `_items` that fixes write: it gives what `item()` of each tensor gives, whatever the tensors are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchperf_lint.idioms.written_helpers import ITEMS


@pytest.fixture(scope="module")
def items() -> Any:
    scope: dict[str, Any] = {"torch": torch}
    exec("\n".join(each.format(torch="torch") for each in ITEMS.lines), scope)
    return scope[ITEMS.name]


class Doubled(torch.Tensor):
    """A tensor whose number is not that of its elements."""

    def item(self) -> float:
        return 2 * float(self.as_subclass(torch.Tensor))


PLAIN = [torch.tensor(0.1), torch.tensor([0.2]), torch.tensor([[0.3]])]
OTHERS = {
    "dtype": torch.tensor(3),
    "half": torch.tensor(0.1, dtype=torch.bfloat16),
    "truth": torch.tensor(True),
    "complex": torch.tensor(1j),
    "sparse": torch.tensor([4.0]).to_sparse(),
    "subclass": torch.tensor(5.0).as_subclass(Doubled),
    "graph": torch.tensor(0.5, requires_grad=True) * 2,
    "parameter": torch.nn.Parameter(torch.tensor(0.25)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_each_number_is_that_of_item(items: Any, other: torch.Tensor, place: int) -> None:
    tensors = [*PLAIN[:place], other, *PLAIN[place:]]
    wanted = [each.item() for each in tensors]
    given = items(tensors)
    assert given == wanted
    assert list(map(type, given)) == list(map(type, wanted))
    assert items(dict(enumerate(tensors))) == dict(enumerate(wanted))


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_one_or_none(items: Any, other: torch.Tensor) -> None:
    assert items([other]) == [other.item()]
    assert (items([]), items({})) == ([], {})


def test_no_graph_is_kept(items: Any) -> None:
    assert items([PLAIN[0], OTHERS["graph"]]) == [PLAIN[0].item(), 1.0]


@pytest.mark.parametrize("size", [0, 2])
def test_what_has_no_number_is_the_same_error(items: Any, size: int) -> None:
    for tensors in ([torch.ones(size)], [*PLAIN, torch.ones(size)], [torch.ones(size), torch.ones(size)]):
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            items(tensors)
