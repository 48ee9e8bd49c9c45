"""float32 matrix products that do not use the tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import conditions, habits
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.compute.settings import is_for_seeds, settings, training_call
from torchperf_lint.knowledge import backend_flags
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_HIGH = "let float32 products use TF32"


@rule(
    code="TPL602",
    name="tf32-disabled",
    category=Category.COMPUTE,
    summary="products of float32 matrices do not use the tensor cores",
    message="`{code}` {says}",
    severity=Severity.NOTE,
    fix=Safety.SHOWN,
    default=False,
    torch=backend_flags.TF32_GATE,
    asks=("torch",),
    triggers=((*backend_flags.TF32_STEMS, "backward"),),
)
def tf32_disabled(model: Model) -> Iterator[Finding]:
    """Settings that disable TF32, and scripts that train in float32 without any such setting."""
    if habits.chooses_precision(model.code):
        return
    for setting in settings(model, backend_flags.TF32_SWITCHES):
        if setting.constant is False and _is_general(model, setting.site):
            yield _finding(setting.site, setting.text, "True")
    for site in model.calls(backend_flags.MATMUL_PRECISION):
        wanted = given(model, site.node, "precision", 0)
        if wanted is None or wanted.node is None or not _is_highest(wanted.value) or not _is_general(model, site):
            continue
        yield _finding(model.site(wanted.node), model.brief(site.node), '"high"')
    unsaid = not model.code.speaks_of(*backend_flags.TF32_STEMS, *backend_flags.PRECISION_ELSEWHERE)
    training = training_call(model) if unsaid else None
    if training is not None:
        site, hot_path = training
        says = "trains in float32, and nothing in this file lets matrix products use TF32"
        yield Finding(
            site,
            (*hot_path.because, *model.target_evidence("torch")),
            None,
            {"code": model.brief(site.node), "says": says},
        )


def _is_highest(value: object) -> bool:
    return getattr(value, "constant", None) == "highest"


def _is_general(model: Model, site: Site) -> bool:
    return not model.in_test(site) and conditions.in_every_run(model, site) and not is_for_seeds(model, site)


def _finding(site: Site, code: str, wanted: str) -> Finding:
    edit = edits.replace(site.tree, site.node, wanted)
    fix = None if edit is None else Fix(_HIGH, Safety.SHOWN, (edit,))
    return Finding(site, (), fix, {"code": code, "says": "keeps float32 products from the tensor cores"})
