"""Where a registry is looked up: the expressions that may give a class or a function that a decorator adds to it."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import trees
from torchperf_lint.model.callgraph.registries import meaning_of, registries_of
from torchperf_lint.model.project.exports import Variable
from torchperf_lint.model.syntax.index import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ProjectQuestions
    from torchperf_lint.model.domain.values import Registry
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, Index


def lookups(program: ProjectQuestions | None, added: ClassInfo | FunctionInfo) -> Iterator[tuple[ast.expr, Index]]:
    """`METERS[name]` and `METERS.get(name)` of a dict that a decorator of the class or function fills."""
    if program is None or not added.decorators or _are_many(added):
        return
    for registry, home in registries_of(program, added).items():
        if not isinstance(registry.made, tuple):
            continue
        name = registry.made[1]
        yield from _asked_in(home, name, registry)
        for file in program.importing(name, home):
            meant = meaning_of(program, file.index, ast.Name(name, ast.Load()))
            if isinstance(meant, Variable) and meant.home is home and meant.name == name:
                yield from _asked_in(file.index, name, registry)


def _asked_in(index: Index, name: str, registry: Registry) -> Iterator[tuple[ast.expr, Index]]:
    """The lookups in one file, where the registry has this name."""
    tables = trees.upside_down(index)
    for use in tables.names.get(name, ()):
        parent = tables.parents.get(use)
        call = tables.parents.get(parent) if isinstance(parent, ast.Attribute) and parent.attr == "get" else None
        if isinstance(parent, ast.Subscript) and parent.value is use and isinstance(parent.ctx, ast.Load):
            if _may_ask(parent.slice, registry):
                yield parent, index
        elif isinstance(call, ast.Call) and call.func is parent and call.args and _may_ask(call.args[0], registry):
            yield call, index


def given(program: ProjectQuestions | None, function: FunctionInfo) -> Iterator[tuple[ast.expr, Index]]:
    """The lookups that may give a registered function, but for those that call it at once.

    `HANDLERS[event](x)` calls another function for each event, or type; which one is not known.
    """
    for looked_up, index in lookups(program, function):
        parent = trees.upside_down(index).parents.get(looked_up)
        if not (isinstance(parent, ast.Call) and parent.func is looked_up):
            yield looked_up, index


def builds(program: ProjectQuestions | None, cls: ClassInfo) -> Iterator[tuple[ast.Call, Index]]:
    """The calls that may make an object of a registered class: `METERS[name](...)`, `cls = METERS[name]; cls(...)`."""
    for looked_up, index in lookups(program, cls):
        tables = trees.upside_down(index)
        parent, named = tables.parents.get(looked_up), [looked_up]
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            owner, uses = trees.owner_of(parent, index), tables.names.get(parent.targets[0].id, ())
            named = [each for each in uses if trees.owner_of(each, index) is owner]
        for each in named:
            call = tables.parents.get(each)
            if isinstance(call, ast.Call) and call.func is each:
                yield call, index


def _are_many(added: ClassInfo | FunctionInfo) -> bool:
    """Whether the file decorates many classes or functions in the same way: any one is hardly the one that is meant."""
    uses = added.index.by_name("uses of decorators", lambda: _uses_of_decorators(added.index))
    names = {_name_of(each) or "" for each in added.decorators}
    return any(uses.get(name, 0) > bounds.MOST_REGISTERED for name in names)


def _uses_of_decorators(index: Index) -> Counter[str]:
    """How many classes and functions of a file a decorator of each name stands above; "" for one without a name."""
    decorated: list[ClassInfo | FunctionInfo] = [*index.classes, *index.functions]
    return Counter(name for each in decorated for name in {_name_of(decorator) or "" for decorator in each.decorators})


def _name_of(decorator: ast.expr) -> str | None:
    return last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)


def _may_ask(key: ast.expr, registry: Registry) -> bool:
    """Whether a lookup by this key may give what is registered under a name; not for a literal that is another one."""
    return not isinstance(key, ast.Constant) or registry.asked in (None, key.value)
