"""TorchScript: whether it may compile a function, in a project that makes TorchScript of some."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from torchperf_lint.engine.findings import NoFix, Safety
from torchperf_lint.knowledge.tensor_methods import TENSOR_METHODS
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate

    from torchperf_lint.engine.findings import Fix
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, ClassInfo, FunctionInfo


class _Placed(Protocol):
    """A read, or anything else that has a site."""

    @property
    def site(self) -> Site:
        """Where it stands."""


_Read = TypeVar("_Read", bound=_Placed)
_Others = ParamSpec("_Others")

_REFUSED = (
    *(ast.Try, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.Import, ast.ImportFrom, ast.ClassDef),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Set, ast.SetComp, ast.NamedExpr, ast.Global, ast.Nonlocal, ast.Match),
)
"""What TorchScript refuses in any place of a function, also where it is never run."""
_MARKS = frozenset({"script", "script_if_tracing", "script_method", "export", "compile_mode"})
_LEAVES_OUT = ("torch.jit.unused", "torch.jit.ignore")
_DEPTH = 3
"""How many calls above a function may lead to one that is marked."""
_ASSUMES = "TorchScript does not compile this function"


def may_be_scripted(model: Model, function: FunctionInfo) -> bool:
    """Whether the project makes TorchScript, and could do so of this function."""
    if not model.may_be_scripted or model.remember(("not scripted", function), lambda: _is_refused(model, function)):
        return False
    return model.scripts_values or is_scripted(model, function)


def is_perhaps_scripted(model: Model, site: Site) -> bool:
    """The same for the function around a site."""
    return may_be_scripted(model, model.function_of(site))


def is_scripted(model: Model, function: FunctionInfo) -> bool:
    """Whether the code shows that TorchScript compiles the function: it, its class or a caller is marked or given."""
    return model.may_be_scripted and model.remember(
        ("scripted", function), lambda: _is_shown(model, function, frozenset())
    )


def is_scripted_at(model: Model, site: Site) -> bool:
    """The same for the function around a site."""
    return is_scripted(model, model.function_of(site))


def runs_as_script(model: Model, function: FunctionInfo) -> bool:
    """Whether the function never runs as Python: `torch.jit.script` decorates it."""
    return any(
        (dotted(each) or "").endswith("jit.script") or _is_script(model, function, each) for each in function.decorators
    )


def judged(model: Model, function: FunctionInfo, fix: Fix | NoFix) -> Fix | NoFix:
    """A fix whose code TorchScript does not take: none for what it compiles, unsafe for what it may compile."""
    if isinstance(fix, NoFix) or not may_be_scripted(model, function):
        return fix
    if is_scripted(model, function):
        return NoFix.SCRIPTED
    if fix.safety is Safety.SAFE:
        return fix._replace(safety=Safety.UNSAFE, assumes=_ASSUMES)
    return fix if _ASSUMES in (fix.assumes, fix.besides) else fix._replace(besides=_ASSUMES)


def judged_at(model: Model, site: Site, fix: Fix | NoFix) -> Fix | NoFix:
    """The same for a fix at a site."""
    return judged(model, model.function_of(site), fix)


def outside_torchscript(
    make: Callable[Concatenate[Model, _Read, _Others], Fix | NoFix],
) -> Callable[Concatenate[Model, _Read, _Others], Fix | NoFix]:
    """Decorate what makes such fixes of a read."""

    @functools.wraps(make)
    def made(model: Model, read: _Read, /, *args: _Others.args, **kwargs: _Others.kwargs) -> Fix | NoFix:
        return judged_at(model, read.site, make(model, read, *args, **kwargs))

    return made


def _is_shown(model: Model, function: FunctionInfo, asked: frozenset[FunctionInfo]) -> bool:
    if any(isinstance(each, ast.Attribute) and each.attr == "is_scripting" for each in function.nodes):
        return True
    if any(_marks(each) or _is_script(model, function, each) for each in function.decorators):
        return True
    if function.cls is not None and _is_marked(model, function.cls):
        return True
    if any(_is_given(model, function, each) for near in model.with_neighbours for each in near.calls_named("script")):
        return True
    above = [each.function for each in model.callers(function)] if len(asked) < _DEPTH else []
    return any(_is_shown(model, each, asked | {function}) for each in above if each not in asked)


def _marks(decorator: ast.expr) -> bool:
    """`@torch.jit.script`, `@torch.jit.export`, `@compile_mode("script")`."""
    return last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in _MARKS


def _is_script(model: Model, function: FunctionInfo, decorator: ast.expr) -> bool:
    """Whether a name at the top of the file is `torch.jit.script`: `@compiled`."""
    return isinstance(decorator, ast.Name) and model.home(function).value_at_top(decorator.id).ref == "torch.jit.script"


def _is_marked(model: Model, cls: ClassInfo) -> bool:
    """Whether a class or a method of it is marked: one that is left out tells that the others are not."""
    lineage = model.lineage(cls)
    if any(base.rpartition(".")[2] == "ScriptModule" for each in lineage for base in model.library_bases(each)):
        return True
    marks = (
        mark
        for each in lineage
        for mark in (*each.decorators, *(one for method in each.methods.values() for one in method.decorators))
    )
    return any(_marks(mark) or (dotted(mark) or "").startswith(_LEAVES_OUT) for mark in marks)


def _is_given(model: Model, function: FunctionInfo, record: CallRecord) -> bool:
    """Whether a call of `torch.jit.script` gets the function, or an object or a class whose method it is."""
    if not record.call.args:
        return False
    given = model.home(record.function).value_in(record.function, record.call.args[0])
    if given.function is function:
        return True
    if given.cls is None or function.cls is None:
        return False
    # What a module has as its parts, TorchScript compiles as well.
    both_modules = model.makes_modules(given.cls) and model.makes_modules(function.cls)
    return both_modules or function.cls in model.lineage(given.cls)


def _is_refused(model: Model, function: FunctionInfo) -> bool:
    """Whether the function is none that TorchScript compiles, by its form alone."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or node.args.vararg is not None or node.args.kwarg is not None:
        return True
    inside = [each for statement in node.body for each in subtree(statement)]
    if any(map(_is_refused_form, inside)):
        return True
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1
    header = map(model.source.line, range(node.lineno, node.body[1 if is_text else 0].lineno + 1))
    return not any("# type:" in line for line in header) and _is_no_tensor(function, node, inside)


def _is_refused_form(node: ast.AST) -> bool:
    if isinstance(node, ast.comprehension):
        return bool(node.ifs)
    if isinstance(node, ast.FormattedValue):
        return node.format_spec is not None or node.conversion != -1
    if isinstance(node, ast.For):
        return bool(node.orelse)
    return isinstance(node, _REFUSED) or (isinstance(node, ast.keyword) and node.arg is None)


def _is_no_tensor(function: FunctionInfo, node: ast.FunctionDef, inside: list[ast.AST]) -> bool:
    """Whether a parameter without annotation, for TorchScript a tensor, or an item of one, is used as none.

    It has keys (`target["boxes"]`) or a method that tensors lack (`optimizer.step()`). TorchScript leaves out what
    stands behind `not torch.jit.is_scripting()`.
    """
    if any(isinstance(each, ast.Attribute) and each.attr == "is_scripting" for each in inside):
        return False
    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    named = {each.arg for each in given if each.annotation is None and each.arg != function.self_name}
    tensors = {name for name in named - set(function.defaults) if function.bound_names.count(name) == 1}
    for each in inside:
        if isinstance(each, (ast.For, ast.comprehension)) and isinstance(each.iter, ast.Name):
            tensors |= {each.target.id} if each.iter.id in tensors and isinstance(each.target, ast.Name) else set()
    return any(isinstance(part := _used_otherwise(each), ast.Name) and part.id in tensors for each in inside)


def _used_otherwise(node: ast.AST) -> ast.expr | None:
    """`x` of `x["key"]` and of `x.step()`, which no tensor has."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return None if node.func.attr in TENSOR_METHODS else node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.value
    return None
