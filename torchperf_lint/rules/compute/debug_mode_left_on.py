"""`torch.autograd.set_detect_anomaly(True)` and similar debugging aids, left on in a training program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.idioms import conditions, habits, placing, surroundings
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.compute import settings
from torchperf_lint.knowledge import debug_modes
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_TESTS_GRADIENTS = "waits for the device after every operation of the backward pass, to test its gradient for NaN"
_OFF = "switch the debugging aid off"


@rule(
    code="TPL609",
    name="debug-mode-left-on",
    category=Category.COMPUTE,
    summary="a debugging aid that slows every step down is left on",
    message="`{call}` {does}",
    severity=Severity.WARNING,
    fix=Safety.UNSAFE,
    assumes="no run depends on what the mode reports, or stops at",
    triggers=(
        (
            "detect_anomaly",
            "emit_nvtx",
            "emit_itt",
            "sync_debug_mode",
            "rofile(",
            "profiler=",
            *debug_modes.ENVIRONMENT,
        ),
    ),
)
def debug_mode_left_on(model: Model) -> Iterator[Finding]:
    """Debugging aids that are enabled in every run and never disabled."""
    if not habits.steps_an_optimizer(model.code) and not _trains_elsewhere(model):
        return
    for site, name, value in settings.environment_set(model, *debug_modes.ENVIRONMENT):
        on, does = debug_modes.ENVIRONMENT[name]
        if value == on and _stays_on(model, site):
            edit = placing.removed(model, site)
            yield Finding(site, (), _fix(edit), {"call": f"{name}={value}", "does": does})
    if not model.code.gives("detect_anomaly", False) and not model.code.gives("set_detect_anomaly", False):
        yield from _anomaly(model)
    yield from _profiled(model)
    yield from _counted(model)
    if not model.code.gives("set_sync_debug_mode", 0, "default"):
        for site in model.calls(*debug_modes.SYNC_DEBUG):
            mode = given(model, site.node, "debug_mode", 0)
            if mode is None or mode.value is None or mode.value.constant not in (1, 2, "warn", "error"):
                continue
            if isinstance(model.parent(site.node), cst.Expr) and _stays_on(model, site):
                does = "has every operation looked at by the runtime, and warns of each wait or stops at it"
                yield Finding(
                    site, (), _fix(placing.removed(model, site)), {"call": model.brief(site.node), "does": does}
                )


def _trains_elsewhere(model: Model) -> bool:
    """`backward(...)`, `learner.fit(...)`, `model.train()`, `pretrain(...)`."""
    return model.code.calls("backward", ".fit") or model.code.calls_ending_in("train")


def _stays_on(model: Model, site: Site) -> bool:
    return not model.in_test(site) and conditions.in_every_run(model, site)


def _fix(edit: Edit | None) -> Fix | None:
    return None if edit is None else Fix(_OFF, Safety.UNSAFE, (edit,))


def _anomaly(model: Model) -> Iterator[Finding]:
    for site in model.calls(*debug_modes.ANOMALY):
        mode = given(model, site.node, "mode", 0)
        if mode is not None and mode.node is not None and mode.is_constant(True) and _stays_on(model, site):
            edit = edits.replace(site.tree, mode.node, "False")
            yield Finding(site, (), _fix(edit), {"call": model.brief(site.node), "does": _TESTS_GRADIENTS})
    for site in model.calls(*debug_modes.ANOMALY_CONTEXTS):
        if not _stays_on(model, site):
            continue
        func = site.node.func
        plain = isinstance(func, cst.Attribute) and not site.node.args
        edit = (
            edits.replace(site.tree, site.node, f"{model.text(func.value)}.set_detect_anomaly(False)")
            if plain
            else None
        )
        yield Finding(site, (), _fix(edit), {"call": model.brief(site.node), "does": _TESTS_GRADIENTS})
    for site in model.calls(*debug_modes.TRAINERS):
        wanted = given(model, site.node, "detect_anomaly")
        if wanted is None or wanted.node is None or not wanted.is_constant(True) or not _stays_on(model, site):
            continue
        fields = {"call": f"{model.text(site.node.func)}(detect_anomaly=True)", "does": _TESTS_GRADIENTS}
        yield Finding(site, (), _fix(edits.replace(site.tree, wanted.node, "False")), fields)


def _profiled(model: Model) -> Iterator[Finding]:
    for site in model.calls(*debug_modes.RANGES, *debug_modes.PROFILERS):
        enabled = given(model, site.node, "enabled", 0)
        if enabled is None or not (enabled.absent or enabled.is_constant(True)):
            continue
        is_range = model.value(site.node.func).ref in debug_modes.RANGES
        if not is_range and shape.argument(site.node, "schedule", 1) is not None:
            continue
        if surroundings.holds_whole_training(model, site) and _stays_on(model, site):
            does = (
                "marks every operation of the whole training"
                if is_range
                else "notes every operation of the whole training"
            )
            yield Finding(site, (), None, {"call": f"{model.text(site.node.func)}(...)", "does": does})


def _counted(model: Model) -> Iterator[Finding]:
    """Lightning's trainer with the profiler that records every Python function call."""
    for site in model.calls(*debug_modes.TRAINERS):
        wanted = given(model, site.node, "profiler")
        ends_early = any(shape.argument(site.node, name) is not None for name in debug_modes.SHORT_RUNS)
        if wanted is None or wanted.node is None or ends_early or not _stays_on(model, site):
            continue
        by_name = isinstance(wanted.node, cst.SimpleString) and model.value(wanted.node).constant == "advanced"
        if not by_name and not _is_counting(model, wanted.node):
            continue
        edit = edits.replace(site.tree, wanted.node, "None") if by_name else None
        call = f"{model.text(site.node.func)}(profiler={model.brief(wanted.node)})"
        does = "has Python's profiler note every call of a function in every step"
        yield Finding(site, (), _fix(edit), {"call": call, "does": does})


def _is_counting(model: Model, node: cst.BaseExpression) -> bool:
    """Whether it is certainly such a profiler: created in place, or bound to a name in every run."""
    value = model.value(node)
    if value.ref not in debug_modes.COUNTING_PROFILERS:
        return False
    made = model.creation(value)
    if made is None or isinstance(node, cst.Call):
        return made is not None
    return isinstance(node, cst.Name) and isinstance(model.parent(made.node), cst.Assign) and _stays_on(model, made)
