"""`self.encoder(x, mask)` in every step: torch compares the mask with a causal one, and the host waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms import scripting, surroundings
from torchperf_lint.idioms.sync import causal_masks, transformers
from torchperf_lint.idioms.sync.causal_masks import Shown
from torchperf_lint.knowledge.transformer_api import CHECKS, DECODERS_SINCE, ENCODER, PARTS, Check
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_KEEPS = "the mask keeps the values and the size that it is made with"
_LAYERS = "the mask is as long as the sequence"


class _Checked(NamedTuple):
    """A mask on the device that a call gives without saying whether it is causal."""

    check: Check
    mask: cst.BaseExpression
    because: tuple[Because, ...]


@rule(
    code="TPL120",
    name="causal-mask-check",
    category=Category.SYNC,
    summary="a transformer compares its mask with a causal one in every step, and the host waits",
    message="`{call}` compares {masks} with a causal mask on the device and waits for the answer {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the mask is not causal, or has the dtype of the input and the last bits may change",
    torch=">=2.0",
    triggers=("Transformer",),
    asks=("torch",),
)
def causal_mask_check(model: Model) -> Iterator[Finding]:
    """Calls of torch's transformers, encoders and decoders with a mask on the device and without `is_causal`."""
    for site in _calls(model):
        module, own = transformers.called(model, site.node)
        checked = list(_checked(model, site, module))
        hot_path = model.hot_path(site) if checked else None
        if hot_path is None or scripting.is_scripted_at(model, site):
            continue
        masks = " and ".join(f"`{each.check.mask}`" for each in checked)
        fields = {"call": model.brief(site.node), "masks": masks, "where": hot_path.where}
        because = (*dict.fromkeys(step for each in checked for step in each.because), *hot_path.because)
        yield Finding(site, because, _told(model, site, checked, own), fields)


def _calls(model: Model) -> Iterator[Site]:
    """Calls of modules in every step, and of what a whole transformer has as its parts."""
    yield from model.calls_of_kind(Kind.MODULE, "__call__", "forward", hot=True)
    for site in model.method_calls(*PARTS, hot=True):
        if model.value(site.node.func).kind is Kind.METHOD:
            yield site


def _checked(model: Model, site: Site, module: str) -> Iterator[_Checked]:
    """The masks that the call makes torch compare."""
    if module != ENCODER and model.target.torch_is(DECODERS_SINCE) is False:
        return
    for check in CHECKS.get(module, ()):
        mask = shape.argument(site.node, check.mask, check.place)
        hint = shape.argument(site.node, check.hint, check.hint_place)
        if not isinstance(mask, cst.BaseExpression) or hint is not None:
            continue
        because = model.on_device(mask)
        value = model.value(mask)
        if because is None or value.scalar or value.vector or not causal_masks.may_be_compared(model, site, mask):
            continue
        yield _Checked(check, mask, because)


def _told(model: Model, site: Site, checked: list[_Checked], own: bool) -> Fix | NoFix:
    """The call with `is_causal=True` for masks that are shown to be causal, and `is_causal=False` for others."""
    told, assumed = [], list[str]()
    for each in checked:
        shown = causal_masks.shown_causal(model, site, each.mask)
        told.append(f"{each.check.hint}={shown is not None}")
        if shown is None:
            assumed.append("")
        elif shown is Shown.BY_CLASS:
            assumed.append(_KEEPS)
        elif not own or surroundings.may_be_caught(model, site):
            assumed.append(_LAYERS)
    changed = edits.add_argument(site.tree, site.node, ", ".join(told))
    if changed is None:
        return NoFix.NO_ROOM
    assumes = list(dict.fromkeys(sorted(assumed)))
    safety = Safety.UNSAFE if assumes else Safety.SAFE
    besides = assumes[1] if len(assumes) > 1 else ""
    return Fix("say whether the mask is causal", safety, changed, assumes[0] if assumes else "", besides)
