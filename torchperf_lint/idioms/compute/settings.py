"""Process-wide settings: library attributes that a file assigns, and whether that file trains."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.frequency import Frequency
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import shape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_SEEDS = re.compile(r"seed|determin|reproduc|repeatab", re.IGNORECASE)


class Setting(NamedTuple):
    """`torch.backends.cudnn.benchmark = False`: the site of the value, the setting, and its value."""

    site: Site
    ref: str
    constant: object
    text: str


def settings(model: Model, refs: Collection[str]) -> Iterator[Setting]:
    """Plain assignments of literals to these attributes of a library, in source order."""
    for statement in model.statements:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
            continue
        for target in statement.targets:
            if not isinstance(target, ast.Attribute) or not any(ref.endswith(f".{target.attr}") for ref in refs):
                continue
            owner = model.value_in(model.place_of(statement).function, target.value)
            ref = f"{owner.ref}.{target.attr}"
            site = model.site_at(statement.value, statement) if owner.kind is Kind.LIBRARY and ref in refs else None
            if site is not None:
                yield Setting(site, ref, statement.value.value, ast.unparse(statement))


def environment_set(model: Model, *names: str) -> Iterator[tuple[Site, str, str]]:
    """Plain assignments `os.environ["NAME"] = "value"` for these names: the target's site, the name and the value."""
    for statement in model.statements:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
            continue
        for target in statement.targets:
            if not isinstance(target, ast.Subscript) or last_name(target.value) != "environ":
                continue
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            site = model.site_at(target, statement) if isinstance(key, str) and key in names else None
            if site is not None:
                yield site, str(key), str(statement.value.value)


def is_for_seeds(model: Model, site: Site) -> bool:
    """Whether the function around the site makes runs reproducible: by its name, or because it seeds generators."""
    function = model.function_of(site)
    names = [record.call.func for record in function.calls_made]
    return _SEEDS.search(function.name) is not None or any(_SEEDS.search(ast.unparse(name)) for name in names)


def training_call(model: Model) -> tuple[Site, HotPath] | None:
    """The first call that runs backward in a training loop of this file, which must be a script; None without."""
    if not model.code.speaks_of("cuda", "device", "gpu", "accelerator"):
        return None
    for site in model.method_calls("backward"):
        receiver = shape.receiver(site.node)
        if receiver is not None and model.value(receiver).cls is not None:
            continue  # an object of the project with a method of that name
        hot_path = model.hot_path(site)
        if hot_path is None or hot_path.frequency is not Frequency.TRAINING_LOOP or model.in_test(site):
            continue
        if model.code.states("__main__") or _runs_on_import(model, model.function_of(site)):
            return site, hot_path
    return None


def _runs_on_import(model: Model, function: FunctionInfo) -> bool:
    """Whether the file's top-level statements call the function: a script without a `__main__` guard."""
    pending, seen = [function], {function}
    while pending:
        current = pending.pop()
        if current is model.top:
            return True
        callers = {record.function for record in model.callers(current)}
        inside = {caller for caller in callers - seen if model.has(caller)}
        seen |= inside
        pending += inside
    return False
