"""`torch.from_numpy(np.exp(x.cpu().numpy())).to(device)`: NumPy does on the host what torch does on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms.sync.numpywork import numpy_trips

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL208",
    name="numpy-round-trip",
    category=Category.TRANSFER,
    summary="tensors are fetched from the device for NumPy, and the result is sent back",
    message="`{back}` sends back to the device what NumPy has made of a tensor from there{instead}, {where}",
    severity=Severity.ERROR,
    triggers=(".numpy(", ("from_numpy", "tensor(", "asarray(", "Tensor("), (".to(", ".cuda(", ".type_as(", "device=")),
)
def numpy_round_trip(model: Model) -> Iterator[Finding]:
    """Moves to the device, in every step, of arrays computed from device tensors by functions that torch has."""
    for trip in numpy_trips(model):
        used = [name for name, _ in trip.work.functions]
        twins = [twin for _, twin in trip.work.functions]
        fields = {
            "back": model.brief(trip.site.node),
            "instead": f", though torch has {_listed(twins)} for {_listed(used)}" if used else "",
            "where": trip.hot_path.where,
        }
        yield Finding(trip.site, (*trip.because, *trip.hot_path.because), None, fields)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))
