"""Classes derived from a library's data loader: the call in their constructor that builds it, and who chooses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.syntax.names import last_name, positional_of

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
_BEFORE_OPTIONS = min(place for name, place in torch_api.LOADER_POSITIONS.items() if name in _OPTIONS)
"""How many arguments of a loader by position say nothing of its options."""
_TAKE_ONE = frozenset({"get", "pop"})
"""Methods of a dict that read or take out one of its keys."""


def loader_class(inference: ValueQuestions, cls: ClassInfo) -> str | None:
    """The library's loader that the class descends from, by its qualified name."""
    return next((base for base in inference.library_bases(cls) if base in torch_api.LOADERS), None)


def building_call(inference: ValueQuestions, cls: ClassInfo) -> CallRecord | None:
    """The `super().__init__(...)` that runs the library's constructor for objects of the class; None if not known."""
    if loader_class(inference, cls) is None:
        return None
    constructors = [each.methods["__init__"] for each in inference.lineage(cls) if "__init__" in each.methods]
    built = [each for each in constructors[-1].calls_made if _is_of_super(each)] if constructors else []
    if len(built) != 1 or any(map(_chooses_otherwise, inference.lineage(cls))):
        return None
    return built[0]


def options_from_caller(inference: ValueQuestions, cls: ClassInfo) -> FunctionInfo | None:
    """The constructor that hands what its caller says of the loader's options to the library; None if it may choose.

    `super().__init__(data, **kwargs)`: then a call of the class is what says of workers and of pinned memory.
    """
    built, made = building_call(inference, cls), inference.method(cls, "__init__")
    if built is None or made is None or built.function is not made or not _hands_dataset_on(built):
        return None
    handed = _kwargs_handed_on(built)
    return None if handed is None or _chooses_itself(built, handed) else made


def collate_of(
    inference: ValueQuestions, loader: ast.Call, function: FunctionInfo, cls: ClassInfo | None
) -> tuple[ast.expr, FunctionInfo] | None:
    """The `collate_fn` of the loader that a call in the function builds, and the function where it is written.

    Of a class of the program, it is what the constructor hands to the library, by itself or from its parameters.
    """
    position = torch_api.LOADER_POSITIONS["collate_fn"]
    built = None if cls is None else building_call(inference, cls)
    chosen = None if built is None else _argument(built.call, "collate_fn", position)
    if built is None or chosen is None:
        given = _argument(loader, "collate_fn", position if cls is None else None)
        return None if given is None else (given, function)
    made = built.function
    is_parameter = isinstance(chosen, ast.Name) and chosen.id in made.parameter_names
    if not isinstance(chosen, ast.Name) or not is_parameter or made.bound_names.count(chosen.id) > 1:
        return chosen, made
    given = _argument(loader, chosen.id, maker_position(made, chosen.id))
    return None if given is None else (given, function)


def _argument(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    by_name = next((each.value for each in call.keywords if each.arg == name), None)
    return by_name or (None if position is None else next(iter(call.args[position : position + 1]), None))


def maker_position(made: FunctionInfo, name: str) -> int | None:
    """The 0-based position of an option among the arguments of a call of the class; None if it is given by name."""
    positional = positional_of(made.arguments)[1:]
    return positional.index(name) if name in positional else None


def _hands_dataset_on(built: CallRecord) -> bool:
    """Whether the first argument of the constructor is the library's dataset."""
    by_name = [each.value for each in built.call.keywords if each.arg == "dataset"]
    read = next(iter([*built.call.args, *by_name]), None)
    return isinstance(read, ast.Name) and maker_position(built.function, read.id) == 0


def _kwargs_handed_on(built: CallRecord) -> ast.Name | None:
    """The constructor's own `**kwargs`, where the call spreads them and no other dictionary."""
    arguments = built.function.arguments
    spread = [each.value for each in built.call.keywords if each.arg is None]
    if arguments is None or arguments.kwarg is None or len(spread) != 1:
        return None
    handed = spread[0]
    return handed if isinstance(handed, ast.Name) and handed.id == arguments.kwarg.arg else None


def _chooses_itself(built: CallRecord, handed: ast.Name) -> bool:
    """Whether the constructor may give an option of the loader another value than its caller says.

    Or it has a default of its own for the function that makes the batches: what that does is not known.
    """
    call, made = built.call, built.function
    collating = (each.value for each in call.keywords if each.arg == "collate_fn")
    defaults = [made.defaults.get(each.id) for each in collating if isinstance(each, ast.Name)]
    if not all(each is None or isinstance(each, ast.Constant) for each in defaults):
        return True
    if any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > _BEFORE_OPTIONS:
        return True
    if not all(_is_handed_on(made, each) for each in call.keywords if each.arg in _OPTIONS):
        return True
    named = (each for each in made.nodes if isinstance(each, ast.Name) and each.id == handed.id)
    return not all(each is handed or _is_about_others(made, each) for each in named)


def _is_handed_on(made: FunctionInfo, option: ast.keyword) -> bool:
    """Whether an option is the constructor's parameter of that name with the same default, and not bound again."""
    assert option.arg is not None
    default, usual = made.defaults.get(option.arg), _OPTIONS[option.arg]
    is_default = isinstance(default, ast.Constant) and type(default.value) is type(usual) and default.value == usual
    is_named = isinstance(option.value, ast.Name) and option.value.id == option.arg
    return is_default and is_named and made.bound_names.count(option.arg) == 1


def _is_about_others(made: FunctionInfo, node: ast.Name) -> bool:
    """Whether a constructor reads or takes out another of its `**kwargs` than an option: `kwargs.pop("collate_fn")`."""
    around = made.parents.get(node)
    key: ast.AST | None = None
    if isinstance(around, ast.Subscript) and around.value is node and not isinstance(around.ctx, ast.Store):
        key = around.slice
    elif (
        isinstance(around, ast.Compare)
        and around.comparators == [node]
        and isinstance(around.ops[0], (ast.In, ast.NotIn))
    ):
        key = around.left
    elif isinstance(around, ast.Attribute) and around.attr in _TAKE_ONE:
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
