"""`Compose([ToTensor(), ..., ToPILImage(), Resize(224), ToTensor()])`: the tensor was there, and Resize takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, NoFix, Rate, Severity
from torchperf_lint.idioms.data.imagetrips import trips_in_calls, trips_in_pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL413",
    name="image-round-trip",
    category=Category.DATA,
    summary="a tensor is made into an image of PIL, and that into a tensor again",
    message="`{there}` makes an image of a tensor, and `{back}` a tensor of the image, {where}",
    severity=Severity.WARNING,
    rate=Rate.ELEMENT,
    triggers=(
        "torchvision",
        ("to_pil_image", "ToPILImage"),
        ("to_tensor", "pil_to_tensor", "to_image", "ToTensor", "ToImage"),
    ),
    cpu_only_too=True,  # samples are made on the host
)
def image_round_trip(model: Model) -> Iterator[Finding]:
    """Conversions of a tensor to an image and back, with nothing in between that could not work on the tensor."""
    for trip in (*trips_in_pipelines(model), *trips_in_calls(model)):
        if not model.in_test(trip.there):
            fields = {"there": model.brief(trip.there.node), "back": model.brief(trip.back), "where": trip.where}
            yield Finding(trip.there, trip.because, NoFix.FORM, fields)
