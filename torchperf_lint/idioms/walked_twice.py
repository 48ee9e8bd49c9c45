"""What a comprehension may walk and compute before a loop does it again: the same data, without a wait or an effect."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Safety
from torchperf_lint.idioms import evaluating
from torchperf_lint.idioms.sync.passes import Condition
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.idioms.sync.passes import Clause, Passes
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

VIEWS = frozenset({"items", "keys", "values"})
"""Methods of dicts that give their keys, values or both."""
OF_MODULES = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})
"""Methods of modules that walk their tensors."""
_WALKS = frozenset({"builtins.enumerate", "builtins.reversed", "builtins.zip"})
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)
_LAY_OUT = frozenset(f"builtins.{name}" for name in ("list", "tuple", "dict", "sorted", "range"))
_SEQUENCES = frozenset({"list", "List", "tuple", "Tuple", "Sequence", "dict", "Dict", "Mapping", "Tensor", "ndarray"})
_ASKS = frozenset({"builtins.isinstance", "builtins.len", "torch.is_tensor"})
_READ = frozenset({"item", "tolist", "cpu", "numpy", "float", "int", "bool"})
DRAWS = frozenset(
    "bernoulli multinomial normal poisson dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout "
    "gumbel_softmax rrelu scaled_dot_product_attention fractional_max_pool2d fractional_max_pool3d rand randn randint "
    "randperm rand_like randn_like randint_like".split()
)


def computes(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the expression writes to nothing, draws nothing and runs none of the project's code that is known."""
    if isinstance(node, ast.BoolOp):
        return all(computes(model, function, each) for each in node.values)
    if isinstance(node, ast.UnaryOp):
        return computes(model, function, node.operand)
    if isinstance(node, ast.Call) and model.value_in(function, node.func).ref in _ASKS:
        return not node.keywords and all(computes(model, function, each) for each in node.args)
    calls = (each for each in subtree(node) if isinstance(each, ast.Call))
    if any(last_name(each.func) in DRAWS for each in calls):
        return False
    return evaluating.only_computes(model, function, node)


def walked_twice(model: Model, function: FunctionInfo, passes: Passes) -> Safety | None:
    """The grade of walking the clauses once more; None if that may give something else, wait, or run code."""
    grades = [_clause_twice(model, function, each) for each in passes.clauses]
    if not all(computes(model, function, each) for each in passes.names.values()):
        return None
    calls = (each for whole in passes.expressions for each in subtree(whole) if isinstance(each, ast.Call))
    if any(last_name(each.func) in _READ or _is_sized_by_data(each) for each in calls):
        return None
    return None if None in grades else worst(grades)


def _is_sized_by_data(call: ast.Call) -> bool:
    """Whether the size of what a call gives is in the data, which is another wait: `x.nonzero()`, `torch.where(x)`."""
    name = last_name(call.func)
    return len(call.args) == 1 if name == "where" else name in torch_api.SIZED_BY_DATA


def _clause_twice(model: Model, function: FunctionInfo, clause: Clause) -> Safety | None:
    if not isinstance(clause, Condition):
        return there(model, function, clause.iter)
    is_asked = any(model.value_in(function, each).is_tensor for each in _operands(clause.test))
    return None if is_asked or not computes(model, function, clause.test) else Safety.SAFE


def _operands(test: ast.expr) -> list[ast.expr]:
    """What a test asks for true or false."""
    if isinstance(test, ast.BoolOp):
        return [part for each in test.values for part in _operands(each)]
    return _operands(test.operand) if isinstance(test, ast.UnaryOp) else [test]


def worst(grades: Sequence[Safety | None]) -> Safety:
    """The grade of several parts together, each of which has one."""
    return Safety.UNSAFE if Safety.UNSAFE in grades else Safety.SAFE


def there(model: Model, function: FunctionInfo, node: ast.expr) -> Safety | None:
    """The grade of walking an iterable twice; None if it may be an iterator or a loader, which gives its items once."""
    if isinstance(node, ast.Call):
        return _call_there(model, function, node)
    if isinstance(node, (ast.List, ast.Tuple)):
        return Safety.SAFE if all(computes(model, function, each) for each in node.elts) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and computes(model, function, node):
        return there(model, function, node.value)
    if not evaluating.only_computes(model, function, node):
        return None
    if model.value_in(function, node).holds_tensors:
        return Safety.SAFE
    if not isinstance(node, ast.Name):
        return None
    if _is_declared(function, node.id):
        return Safety.SAFE
    made = model.all_bindings(function, node.id)
    if made and all(_is_laid_out(model, function, each) for each in made):
        return Safety.SAFE
    return Safety.UNSAFE if _is_taken_by_index(function, node.id) else None


def _call_there(model: Model, function: FunctionInfo, call: ast.Call) -> Safety | None:
    called, given = model.value_in(function, call.func), [*call.args, *(each.value for each in call.keywords)]
    if called.ref in _WALKS and not call.keywords:
        grades = [there(model, function, each) for each in call.args]
        return None if None in grades else worst(grades)
    if called.ref == "builtins.range":
        return Safety.SAFE if all(computes(model, function, each) for each in given) else None
    if called.ref in _LAY_OUT:
        named = all(computes(model, function, each.value) for each in call.keywords if each.arg != "key")
        grades = [there(model, function, each) for each in call.args]
        plain = named and not any(each.arg == "key" for each in call.keywords)
        return None if None in grades or not plain else worst(grades)
    if not isinstance(call.func, ast.Attribute) or given or called.function is not None:
        return None
    owner = call.func.value
    if isinstance(owner, ast.Call) and call.func.attr in VIEWS:
        return _call_there(model, function, owner)
    if call.func.attr not in VIEWS | OF_MODULES or not evaluating.only_computes(model, function, owner):
        return None
    value = model.value_in(function, owner)
    holds = value.kind in (Kind.CONTAINER, Kind.PYTREE) and value.cls is None
    return Safety.SAFE if holds or call.func.attr in OF_MODULES else Safety.UNSAFE


def _is_laid_out(model: Model, function: FunctionInfo, made: ast.expr) -> bool:
    if isinstance(made, _DISPLAYS):
        return True
    if not isinstance(made, ast.Call):
        return False
    called = model.value_in(function, made.func)
    lists = isinstance(made.func, ast.Attribute) and made.func.attr == "tolist" and called.function is None
    return lists or called.ref in _LAY_OUT


def _is_declared(function: FunctionInfo, name: str) -> bool:
    """Whether the function declares a parameter, which it does not bind again, as what can be walked again."""
    given = function.node.args if isinstance(function.node, ast.FunctionDef) else None
    if given is None or name in function.bound_names:
        return False
    declared = [each.annotation for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg == name]
    text = ast.unparse(declared[0]) if declared and declared[0] is not None else ""
    return (text.partition("[")[0]).rpartition(".")[2] in _SEQUENCES


def _is_taken_by_index(function: FunctionInfo, name: str) -> bool:
    """Whether the function takes an element or the length of what the name holds, which no iterator has."""
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    return any(_asks_for_elements(function.parents[each], each) for each in uses)


def _asks_for_elements(parent: ast.AST | None, node: ast.Name) -> bool:
    if isinstance(parent, ast.Subscript):
        return parent.value is node
    return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"
