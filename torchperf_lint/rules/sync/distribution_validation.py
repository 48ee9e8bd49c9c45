"""`Categorical(logits=model(x))` in every step: each parameter is checked, and the host waits for the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge.distributions_api import (
    CHECK_THEIR_VALUE,
    CHECKED,
    CHECKS_BY_DEFAULT,
    DRAWS_WITH_A_TEST,
    NORMAL,
    VALIDATE,
)
from torchperf_lint.model.domain.values import UNKNOWN, Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site, Value


@rule(
    code="TPL114",
    name="distribution-validation",
    category=Category.SYNC,
    summary="a distribution checks its parameters in every step, and the host waits for the answer",
    message="`{call}` checks {what} on the device and waits for the answer {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="all parameters and samples are valid",
    torch=CHECKS_BY_DEFAULT,
    triggers=(("distributions", "normal(", *(f".{name}" for name in CHECK_THEIR_VALUE), ".sample("),),
)
def distribution_validation(model: Model) -> Iterator[Finding]:
    """Distributions over device tensors that check what they get, and draws that check their deviation."""
    if model.checks_distributions:
        yield from _made(model)
        yield from _asked(model)
    yield from _drawn(model)


def _made(model: Model) -> Iterator[Finding]:
    """Distributions that are made in every step, and that check their parameters."""
    for site in model.calls(*CHECKED, hot=True):
        asked = _asked_for(site, CHECKED[model.value(site.node.func).ref or ""])
        because = _parameter_on_device(model, site)
        if asked is None or because is None or surroundings.may_be_caught(model, site):
            continue
        minor = None if asked is True else Because(site.rows[0], "the check is asked for")
        yield from _finding(model, site, because, "its parameters", _left_out(site, asked), minor)


def _left_out(site: Site, asked: bool | cst.BaseExpression) -> Fix | None:
    """The distribution without the check; only shown where an argument asks for it."""
    if isinstance(asked, bool):
        changed = edits.add_argument(site.tree, site.node, f"{VALIDATE}=False")
        return None if changed is None else Fix("leave the check out", Safety.UNSAFE, changed)
    edit = edits.replace(site.tree, asked, "False")
    return None if edit is None else Fix("leave the check out", Safety.SHOWN, (edit,))


def _asked_for(site: Site, position: int) -> bool | cst.BaseExpression | None:
    """True if the check is made by default, the argument that asks for it, or None where it may be left out."""
    argument = shape.argument(site.node, VALIDATE, position)
    if argument is None:
        return True
    return argument if isinstance(argument, cst.BaseExpression) and shape.is_literal(argument, "True") else None


def _asked(model: Model) -> Iterator[Finding]:
    """`dist.log_prob(x)` of a distribution that is made with the check on: it checks x each time."""
    for site in model.method_calls(*CHECK_THEIR_VALUE, hot=True):
        distribution = _distribution(model, site)
        because = None if distribution.created is None else model.on_device(site.node)
        if distribution.created is None or because is None or surroundings.may_be_caught(model, site):
            continue
        made = model.creation(distribution)
        if made is not None and made.node is shape.receiver(site.node):
            continue  # `Normal(0.0, s).log_prob(x)` is reported where it is made
        if model.is_checked(distribution):
            if made is None:
                yield from _finding(model, site, because, "its argument", None)
                continue
            asked = _asked_for(made, CHECKED[distribution.ref or ""])
            fix = None if asked is None else _left_out(made, asked)
            says = Because(made.rows[0], "made here, with the check on")
            yield from _finding(model, site, (says, *because), "its argument", fix)


def _drawn(model: Model) -> Iterator[Finding]:
    """`Normal(...).sample()` and `torch.normal(mean, std)`: no deviation may be negative."""
    for site in model.method_calls("sample", hot=True):
        name = (_distribution(model, site).ref or "").rpartition(".")[2]
        because = model.on_device(site.node) if name in DRAWS_WITH_A_TEST else None
        if because is not None:
            receiver = shape.receiver(site.node)
            text = "" if receiver is None else edits.postfix(site.tree, receiver)
            drawn = f"{text}.rsample({', '.join(edits.text_of(site.tree, each) for each in site.node.args)}).detach()"
            edit = edits.replace(site.tree, site.node, drawn)
            fix = None if edit is None else Fix("draw without the test: other numbers", Safety.SHOWN, (edit,))
            yield from _finding(model, site, because, "the deviation's sign", fix)
    for site in model.calls(NORMAL, hot=True):
        deviation = given(model, site.node, "std", 1)
        value = UNKNOWN if deviation is None or deviation.node is None else model.value(deviation.node)
        if deviation is not None and deviation.node is not None and value.kind is Kind.TENSOR and not value.mixed:
            because = model.on_device(deviation.node)
            if because is not None:
                yield from _finding(model, site, because, "the deviation's sign", None)


def _distribution(model: Model, site: Site) -> Value:
    """The distribution whose method is called; UNKNOWN if it is none of torch's."""
    receiver = shape.receiver(site.node)
    value = UNKNOWN if receiver is None else model.value(receiver)
    return value if value.kind is Kind.INSTANCE and value.ref in CHECKED else UNKNOWN


def _finding(
    model: Model,
    site: Site,
    because: tuple[Because, ...],
    what: str,
    fix: Fix | NoFix | None,
    minor: Because | None = None,
) -> Iterator[Finding]:
    hot_path = model.hot_path(site)
    if hot_path is not None:
        fields = {"call": model.brief(site.node), "what": what, "where": hot_path.where}
        yield Finding(site, (*because, *hot_path.because), fix, fields, minor)


def _parameter_on_device(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that a parameter is on the device; other parameters are moved there before the check."""
    shown = (model.on_device(argument.value) for argument in site.node.args)
    return next((because for because in shown if because is not None), None)
