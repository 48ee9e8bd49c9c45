"""`Compose([ToTensor(), RandomCrop(224)])`: the whole image is converted, and most of the result is discarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data.composed import pipelines
from torchperf_lint.idioms.data.handed import handed_only_to
from torchperf_lint.knowledge import transforms
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.data.composed import Branch, Element
    from torchperf_lint.model import Model, Site


@rule(
    code="TPL406",
    name="late-crop",
    category=Category.DATA,
    summary="an image is cropped or made smaller only after it has been converted",
    message="`{crop}` comes after `{convert}`, which works on the whole image, pixels and all that the crop drops",
    severity=Severity.WARNING,
    rate=Rate.ELEMENT,
    fix=Safety.SAFE,
    assumes="the pipeline gets images of PIL, and pixels at a border or after resizing may differ slightly",
    triggers=("torchvision", "Compose", transforms.CONVERSIONS, transforms.SHRINKING),
    cpu_only_too=True,  # transforms run on the host
)
def late_crop(model: Model) -> Iterator[Finding]:
    """Pipelines in which a step that keeps part of the image follows a pixelwise conversion."""
    found: dict[int, Finding] = {}
    for site, elements, movable in pipelines(model):
        if model.in_test(site):
            continue
        steps = [_step(model, element) for element in elements]
        first = next((place for place, step in enumerate(steps) if step is not None and step.pixelwise), None)
        if first is None:
            continue
        photos = handed_only_to(model, site, "transform", transforms.PHOTO_DATASETS, without="loader")
        last = _last_shrinking(steps, first, photos)
        if last is None:
            continue
        known = [step for step in steps[first : last + 1] if step is not None]
        converts = [step for step in known if step.pixelwise]
        fields = {"crop": known[-1].text, "convert": converts[0].text}
        fix = _in_front(model, site, known, steps[:first]) if movable else None
        crop = model.site(known[-1].node)
        if fix is not None or crop.start not in found:  # nested pipelines are visited twice
            found[crop.start] = Finding(crop, (), fix, fields)
    yield from (found[start] for start in sorted(found))


class _Step(NamedTuple):
    node: cst.Call
    name: str
    text: str
    pixelwise: bool  # each pixel of the result depends on one pixel
    normalizes: bool  # and does not map zero to zero
    branch: Branch

    def follows(self, other: _Step) -> bool:
        """Whether this step never runs without the other one."""
        return self.branch[: len(other.branch)] == other.branch


def _step(model: Model, element: Element) -> _Step | None:
    """A pipeline step, or None if it is not understood."""
    node = element.node
    if not isinstance(node, cst.Call):
        return None
    ref = model.value(node.func).ref or ""
    name = ref.removeprefix("torchvision.transforms.v2.").removeprefix("torchvision.transforms.")
    if model.value(node.func).kind is not Kind.LIBRARY or name not in transforms.PIXELWISE | transforms.GEOMETRIC:
        return None
    text = f"{name}(...)" if node.args else f"{name}()"
    return _Step(node, name, text, name in transforms.PIXELWISE, name == "Normalize", element.branch)


def _last_shrinking(steps: list[_Step | None], first: int, photos: bool) -> int | None:
    """The index of the last step that shrinks the image, while all steps from `first` on are understood.

    Whether a resizing step shrinks is known for `photos` alone: other images may be smaller than the requested size.
    """
    last, start = None, steps[first]
    assert start is not None
    converted = False
    for place in range(first, len(steps)):
        step = steps[place]
        if step is None:
            break
        converted = converted or step.name in transforms.TO_FLOAT
        # Integer tensors of `v2.ToImage` are resized as fast as PIL images.
        if step.name in transforms.RESIZES and not (photos and converted):
            break
        if step.name in transforms.CROPS | transforms.RESIZES and step.follows(start):
            last = place
    return last


def _in_front(model: Model, site: Site, steps: list[_Step], before: list[_Step | None]) -> Fix | None:
    """Move the geometric steps before the pixelwise ones; each kind keeps its order."""
    if not all(_can_change_places(model, step) for step in steps) or _knows_places(model):
        return None
    moved = [step for step in steps if not step.pixelwise]
    order = [*moved, *(step for step in steps if step.pixelwise)]
    texts = [model.text(step.node) for step in order]
    tree = model.site(steps[0].node).tree
    changed = edits.together(
        *(
            edits.replace(tree, step.node, text)
            for step, text in zip(steps, texts, strict=True)
            if model.text(step.node) != text
        )
    )
    if changed is None or any(edits.has_comment(tree, step.node) for step in steps):
        return None
    exact = all(_is_exact(model, steps, step) for step in moved) and _gets_images(model, site, before)
    grade = Safety.SAFE if exact else Safety.UNSAFE
    return Fix("crop first, and convert what is left", grade, changed)


_PLAIN = frozenset(f"builtins.{name}" for name in "float int len list max min round tuple".split())


def _knows_places(model: Model) -> bool:
    """Whether the file accesses a step by index: `pipeline.transforms[0]`, `pipeline.transforms.insert(...)`."""
    return model.code.takes_items("transforms") or model.code.names("transforms.insert", "transforms.pop")


def _can_change_places(model: Model, step: _Step) -> bool:
    """Whether the arguments have the same value at any time: they bind nothing and call nothing."""
    calls = [call for each in step.node.args for call in shape.calls_in(each)]
    return not shape.binds_or_defers(step.node) and all(model.value(call.func).ref in _PLAIN for call in calls)


def _is_exact(model: Model, steps: list[_Step], step: _Step) -> bool:
    """Whether the step gives the same pixels before the conversions as after them."""
    if step.name in transforms.FLIPS:
        return True
    if step.name in transforms.RESIZES:
        return False
    normalized = any(each.normalizes for each in steps[: steps.index(step)])
    if step.name == "CenterCrop":
        return not normalized  # it pads smaller images with zeros
    fill, mode = given(model, step.node, "fill", 3), given(model, step.node, "padding_mode", 4)
    pads = [given(model, step.node, "padding", 1), given(model, step.node, "pad_if_needed", 2)]
    if fill is None or mode is None or not fill.absent or any(each is None for each in pads):
        return False
    if not mode.absent:
        return mode.value is not None and mode.value.constant in ("reflect", "edge", "symmetric")
    return not normalized or all(each is not None and each.absent for each in pads)


def _gets_images(model: Model, site: Site, before: list[_Step | None]) -> bool:
    """Whether the pipeline receives PIL images: from a torchvision dataset or from an earlier step."""
    if any(step is None for step in before) or model.code.calls(".transform"):
        return False  # the file's dataset may pass arrays to the pipeline
    return handed_only_to(model, site, "transform", transforms.PIL_DATASETS, without="loader")
