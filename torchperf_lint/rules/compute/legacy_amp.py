"""`torch.cuda.amp.autocast()`: the old names of automatic mixed precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import conditions
from torchperf_lint.knowledge import amp_api
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL604",
    name="legacy-amp",
    category=Category.COMPUTE,
    summary="mixed precision uses names that torch has deprecated",
    message="`{call}` {state}; `torch.amp.{name}` takes its place",
    severity=Severity.NOTE,
    costs=False,
    fix=Safety.SAFE,
    assumes="the installed torch has the new name, and nothing asks whether an object is of the old class",
    default=False,
    torch=amp_api.DEPRECATED,
    triggers=(("cuda.amp", "cuda import amp", "apex"), ("autocast", "GradScaler", "initialize")),
    asks=("torch",),
)
def legacy_amp(model: Model) -> Iterator[Finding]:
    """Calls of torch.cuda.amp and of Apex's amp that are not fallbacks for older releases."""
    for site in model.calls(*amp_api.LEGACY):
        if conditions.has_fallback(model, site):
            continue
        name, _ = amp_api.LEGACY[model.value(site.node.func).ref or ""]
        fields = {"call": model.brief(site.node), "state": "is deprecated and warns of it", "name": name}
        yield Finding(site, model.target_evidence("torch"), _renewed(model, site), fields)
    for site in model.calls(*amp_api.APEX):
        if not conditions.has_fallback(model, site):
            fields = {
                "call": f"{model.text(site.node.func)}(...)",
                "state": "is no longer developed",
                "name": "autocast",
            }
            yield Finding(site, (), None, fields)


def _is_of_object(call: cst.Call) -> bool:
    """`self.autocast()`, which a derived class may override."""
    root = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    return isinstance(root, cst.Name) and root.value in ("self", "cls")


def _renewed(model: Model, site: Site) -> Fix | None:
    """The same call by its new name, with the device first and reordered parameters by keyword."""
    call = site.node
    assert isinstance(call, cst.Call)
    name, positional = amp_api.LEGACY[model.value(call.func).ref or ""]
    torch = model.name_of("torch", site)
    if _is_of_object(call) or torch is None or any(argument.star for argument in call.args):
        return None
    arguments: list[str] = ['"cuda"']
    for place, argument in enumerate(call.args):
        text = edits.text_of(site.tree, argument.value)
        if argument.value.lpar:
            text = f"({text})"
        if argument.keyword is not None:
            text = f"{argument.keyword.value}={text}"
        elif positional:
            text = f"{positional[place]}={text}"
        arguments.append(text)
    if positional and not any(each.startswith("dtype=") for each in arguments) and "enabled=False" not in arguments:
        arguments.append(f"dtype={torch}.float16")  # the new name uses the currently set autocast dtype
    edit = edits.replace(site.tree, call, f"{torch}.amp.{name}({', '.join(arguments)})")
    known = model.target.torch_is(amp_api.SINCE[name])
    if edit is None or known is False:
        return None
    asks = model.code.calls_plainly("isinstance", "issubclass", "type") or model.code.names(".__class__")
    same = not asks or (bool(positional) and not model.code.hands_over("autocast"))
    return Fix("call it by its new name", Safety.SAFE if known and same else Safety.UNSAFE, (edit,))
