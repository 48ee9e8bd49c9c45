"""Classes derived from a library's data loader: the call in their constructor that builds it, and who chooses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo

_OPTIONS: dict[str, object] = {
    "pin_memory": False,
    "num_workers": 0,
    "persistent_workers": False,
    "prefetch_factor": None,
}
"""Options of a loader that are attributes of it, and what they are by default."""
_READ_ONE = frozenset({"get", "pop", "setdefault"})
"""Methods of a dict about one of its keys."""


def loader_class(inference: ValueQuestions, cls: ClassInfo) -> str | None:
    """The library's loader that the class descends from, by its qualified name."""
    return next((base for base in inference.library_bases(cls) if base in torch_api.LOADERS), None)


def building_call(inference: ValueQuestions, cls: ClassInfo) -> CallRecord | None:
    """The `super().__init__(...)` that runs the library's constructor for objects of the class; None if not known."""
    constructors = [each.methods["__init__"] for each in inference.lineage(cls) if "__init__" in each.methods]
    if not constructors or loader_class(inference, cls) is None:
        return None
    built = [each for each in constructors[-1].calls_made if _is_of_super(each)]
    if len(built) != 1 or any(map(_chooses_otherwise, inference.lineage(cls))):
        return None
    return built[0]


def opened_by_maker(inference: ValueQuestions, cls: ClassInfo) -> FunctionInfo | None:
    """The constructor that hands what its caller says of the loader's options to the library; None if it may choose.

    `super().__init__(data, **kwargs)`: then a call of the class is what says of workers and of pinned memory.
    """
    built, made = building_call(inference, cls), inference.method(cls, "__init__")
    if built is None or made is None or built.function is not made or made.arguments is None:
        return None
    rest = None if made.arguments.kwarg is None else made.arguments.kwarg.arg
    spread = [each.value for each in built.call.keywords if each.arg is None]
    if rest is None or len(spread) != 1 or not isinstance(spread[0], ast.Name) or spread[0].id != rest:
        return None
    if any(isinstance(each, ast.Starred) for each in built.call.args) or len(built.call.args) >= _position():
        return None
    by_name = [each.value for each in built.call.keywords if each.arg == "dataset"]
    read = next(iter([*built.call.args, *by_name]), None)
    if not isinstance(read, ast.Name) or maker_position(made, read.id) != 0:
        return None
    chosen = [each for each in built.call.keywords if each.arg in _OPTIONS]
    if not all(_is_handed_on(made, each) for each in chosen):
        return None
    named = (each for each in made.nodes if isinstance(each, ast.Name) and each.id == rest)
    return made if all(each is spread[0] or _is_about_others(made, each) for each in named) else None


def maker_position(made: FunctionInfo, name: str) -> int | None:
    """The 0-based position of an option among the arguments of a call of the class; None if it is given by name."""
    assert made.arguments is not None
    positional = [each.arg for each in (*made.arguments.posonlyargs, *made.arguments.args)][1:]
    return positional.index(name) if name in positional else None


def _position() -> int:
    """How many arguments by position leave all options to keywords."""
    return min(torch_api.LOADER_POSITIONS[name] for name in _OPTIONS if name in torch_api.LOADER_POSITIONS)


def _is_handed_on(made: FunctionInfo, option: ast.keyword) -> bool:
    """Whether an option is the constructor's parameter of that name with the same default, and not bound again."""
    assert option.arg is not None
    default = made.defaults.get(option.arg)
    is_default = isinstance(default, ast.Constant) and default.value is _OPTIONS[option.arg]
    is_named = isinstance(option.value, ast.Name) and option.value.id == option.arg
    return is_default and is_named and made.bound_names.count(option.arg) == 1


def _is_about_others(made: FunctionInfo, node: ast.Name) -> bool:
    """Whether a constructor takes or sets another of its `**kwargs` than an option: `kwargs.pop("collate_fn")`."""
    around = made.parents.get(node)
    key: ast.AST | None = None
    if isinstance(around, ast.Subscript) and around.value is node:
        key = around.slice
    elif (
        isinstance(around, ast.Compare)
        and around.comparators == [node]
        and isinstance(around.ops[0], (ast.In, ast.NotIn))
    ):
        key = around.left
    elif isinstance(around, ast.Attribute) and around.attr in _READ_ONE:
        call = made.parents.get(around)
        key = call.args[0] if isinstance(call, ast.Call) and call.func is around and call.args else None
    return isinstance(key, ast.Constant) and key.value not in _OPTIONS


def _chooses_otherwise(cls: ClassInfo) -> bool:
    """Whether the class sets an option of the loader as an attribute, or pins what it gives by itself."""
    iterated = cls.methods.get("__iter__")
    called = () if iterated is None else (last_name(each.call.func) for each in iterated.calls_made)
    return not _OPTIONS.keys().isdisjoint(cls.attributes) or "pin_memory" in called


def _is_of_super(record: CallRecord) -> bool:
    func = record.call.func
    if not isinstance(func, ast.Attribute) or func.attr != "__init__" or not isinstance(func.value, ast.Call):
        return False
    return last_name(func.value.func) == "super"
