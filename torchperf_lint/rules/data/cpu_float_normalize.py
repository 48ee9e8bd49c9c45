"""`Compose([ToTensor(), Normalize(...)])` before a loader: each image becomes floats on the host, then is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms import placing
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data.pipelines import fed_loader, move_of_images
from torchperf_lint.knowledge import transforms
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.data.pipelines import Fed
    from torchperf_lint.model import Model, Site

_FLOATS = ("torch.float32", "torch.float")


@rule(
    code="TPL407",
    name="cpu-float-normalize",
    category=Category.DATA,
    summary="each image is made into floating-point numbers and normalised on the host",
    message="`{convert}` and `{normalize}` make floats of each image on the host: four times the bytes to copy",
    severity=Severity.NOTE,
    rate=Rate.ELEMENT,
    default=False,  # it pays only where steps wait for the workers or the copies
    fix=Safety.SHOWN,
    triggers=("torchvision", "Compose", "Normalize", ("ToTensor", "ConvertImageDtype", "ToDtype")),
    cpu_only_too=True,  # another file may move the batches
)
def cpu_float_normalize(model: Model) -> Iterator[Finding]:
    """Pipelines of a loader for an accelerator that end in a conversion to floats and a normalisation."""
    for site in model.calls(*transforms.PIPELINES):
        call = site.node
        if len(call.args) != 1 or not isinstance(call.args[0].value, cst.List) or model.in_test(site):
            continue
        steps = [element.value for element in call.args[0].value.elements]
        names = [_name(model, step) for step in steps]
        first = next((place for place, step in enumerate(steps) if _makes_floats(model, step, names[place])), None)
        if first is None or None in names or not _only_chosen_from(names[first + 1 :]):
            continue
        fed = fed_loader(model, site)
        if fed is not None:
            convert = model.site(steps[first])
            fields = {"convert": model.brief(convert.node), "normalize": "Normalize(...)"}
            yield Finding(convert, fed.because, _on_device(model, site, steps, first, fed), fields)


def _name(model: Model, step: cst.BaseExpression) -> str | None:
    """The name of a torchvision transform; None for others, and for one that calls a function of the program."""
    if isinstance(step, cst.Call):
        value = model.value(step.func)
        known = value.kind is Kind.LIBRARY
    else:
        value = model.value(step)
        known = value.kind in (Kind.INSTANCE, Kind.MODULE)
    if not known or not (value.ref or "").startswith("torchvision.transforms."):
        return None
    name = (value.ref or "").rpartition(".")[2]
    return None if name == "Lambda" else name


def _makes_floats(model: Model, step: cst.BaseExpression, name: str | None) -> bool:
    """Whether the step converts integers to floats between 0 and 1."""
    if not isinstance(step, cst.Call):
        return False
    if name == "ToTensor":
        return not step.args
    dtype = given(model, step, "dtype", 0)
    written = None if dtype is None or dtype.node is None else model.value(dtype.node).ref or shape.dotted(dtype.node)
    if name == "ConvertImageDtype":
        return dtype is not None and (dtype.absent or written in _FLOATS)
    scale = given(model, step, "scale", 1)
    return name == "ToDtype" and written in _FLOATS and scale is not None and scale.is_constant(True)


def _only_chosen_from(names: list[str | None]) -> bool:
    """Whether the last step normalises and those before it only select pixels, which works on integers, too."""
    return names[-1:] == ["Normalize"] and all(name in transforms.CROPS | transforms.FLIPS for name in names[:-1])


def _on_device(model: Model, site: Site, steps: list[cst.BaseExpression], first: int, fed: Fed) -> Fix | None:
    """Return bytes, and convert and normalise the batch on the device."""
    move = move_of_images(model, fed.loader)
    normalize = steps[-1]
    torch = None if move is None else model.name_of("torch", move.site)
    if move is None or torch is None or not isinstance(normalize, cst.Call):
        return None
    mean, std = given(model, normalize, "mean", 0), given(model, normalize, "std", 1)
    numbers = [
        each.node for each in (mean, std) if each is not None and each.node and _is_known(model, each.node, move.site)
    ]
    if len(numbers) != 2 or any(model.binds(name, move.site) for name in ("mean", "std")):
        return None
    made = [f"{torch}.tensor({_text(model, each)}, device={move.device}).view(-1, 1, 1)" for each in numbers]
    scaled = f"{move.name} = {move.name}.float().div_(255).sub_(mean).div_(std)"
    changed = edits.together(
        _hand_out_bytes(model, site, steps, first),
        edits.drop_element(site.tree, steps, len(steps) - 1),
        placing.beside(model, move.loop, (f"mean = {made[0]}", f"std = {made[1]}"), behind=False),
        placing.beside(model, move.statement, (scaled,), behind=True),
    )
    title = "hand out bytes, and convert and normalise each batch on the device"
    return None if changed is None else Fix(title, Safety.SHOWN, changed)


def _is_known(model: Model, node: cst.BaseExpression, site: Site) -> bool:
    """Whether the numbers are literals, or a name with the same meaning at the other site."""
    if isinstance(node, cst.Name):
        return model.named(node.value, site).kind is Kind.CONTAINER and not model.binds(node.value, model.site(node))
    return isinstance(node, (cst.Tuple, cst.List))


def _text(model: Model, node: cst.BaseExpression) -> str:
    text = model.text(node)
    return f"({text})" if isinstance(node, cst.Tuple) else text


def _hand_out_bytes(model: Model, site: Site, steps: list[cst.BaseExpression], first: int) -> Edit | None:
    """Replace the conversion by one to an integer tensor, or remove it."""
    step = steps[first]
    if not isinstance(step, cst.Call):
        return None
    if shape.method_name(step) != "ToTensor":
        return edits.drop_element(site.tree, steps, first)
    return edits.replace(site.tree, step.func.attr, "PILToTensor") if isinstance(step.func, cst.Attribute) else None
