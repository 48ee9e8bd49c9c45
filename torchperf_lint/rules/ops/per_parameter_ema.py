"""`for p, q in zip(...): q.mul_(m).add_(p, alpha=1 - m)`: two small kernels per parameter, in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms.compute.averages import averages, in_place_of_loop, names_live_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.compute.averages import Average
    from torchperf_lint.model import Model, Site

_LIST = "averages"
_UPDATES = (".mul_(", ".copy_(", ".lerp_(", ".data", "*=", "load_state_dict")


@rule(
    code="TPL803",
    name="per-parameter-ema",
    category=Category.OPS,
    summary="a moving average of a model is updated one parameter after the other in every step",
    message="this loop launches a few small kernels for each parameter {where}; a `torch._foreach` function takes all",
    severity=Severity.WARNING,
    rate=Rate.SEVERAL,
    fix=Safety.UNSAFE,
    assumes="both lists are equally long, the weight is a number, and the last digits may differ",
    triggers=(("zip(", "named_parameters", ".items("), ("param", "state_dict"), _UPDATES),
    asks=("torch",),
)
def per_parameter_ema(model: Model) -> Iterator[Finding]:
    """Hot loops over two lists or dicts of parameters that update one as the moving average of the other."""
    for site, average in averages(model):
        hot_path = model.hot_path(site)
        if hot_path is not None and not model.in_test(site):
            yield Finding(site, hot_path.because, _all_at_once(model, site, average), {"where": hot_path.where})


def _all_at_once(model: Model, site: Site, average: Average) -> Fix | None:
    torch = model.name_of("torch", site)
    if torch is None or average.weight is None or not site.tree.lossless or names_live_on(model, site, average.loop):
        return None
    targets = _listed(average.average, average.target, average.targets)
    sources = _listed(average.parameter, average.source, average.sources)
    if average.decay is None:
        if model.target.torch_is("<2.0"):
            return None
        lines = [f"{torch}._foreach_lerp_({targets}, {sources}, {average.weight})"]
    else:
        if model.code.names(_LIST):
            return None
        lines = [
            f"{_LIST} = {targets}",
            f"{torch}._foreach_mul_({_LIST}, {average.decay})",
            f"{torch}._foreach_add_({_LIST}, {sources}, alpha={average.weight})",
        ]
    edit = in_place_of_loop(model, average.loop, lines)
    return None if edit is None else Fix("update all parameters at once", Safety.UNSAFE, (edit,))


def _listed(each: str, name: str, walked: str) -> str:
    return f"list({walked})" if each == name else f"[{each} for {name} in {walked}]"
