"""`torch.full((), v, device=d)` for `torch.tensor(v, device=d)`: a kernel that receives the number as its argument."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms.scripting import is_perhaps_scripted
from torchperf_lint.idioms.sync.sizes import is_length
from torchperf_lint.idioms.transfer import magnitudes
from torchperf_lint.idioms.transfer.construction import FILLABLE
from torchperf_lint.idioms.transfer.pinned_copies import may_be_sent
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

FACTORIES = ("torch.tensor", "torch.as_tensor", "torch.asarray")
_DATA_ARGUMENT = "data"
_GIVE_INTEGERS = frozenset(f"math.{name}" for name in "floor ceil trunc gcd lcm comb perm factorial isqrt prod".split())
_WIDE_DTYPES = frozenset("float32 float64 int32 int64".split())


class Packing(NamedTuple):
    """A call that converts Python data to a tensor, and the other edits that its replacement needs."""

    site: Site
    call: cst.Call
    data: cst.BaseExpression
    hot_path: HotPath
    because: tuple[Because, ...]
    placing: tuple[Edit, ...]
    grade: Safety | NoFix  # the safest grade of `placing`, or why there can be no fix
    waits: str = " and waits"
    move: Move | None = None  # the call that copies what is packed, if it is another one

    @property
    def is_new_tensor(self) -> bool:
        """`x.new_tensor(v)`, which has the dtype of `x`."""
        return isinstance(self.call.func, cst.Attribute) and self.call.func.attr.value == "new_tensor"


class _Filled(NamedTuple):
    """The number that all elements have, and the sizes, as texts."""

    number: cst.BaseExpression
    sizes: tuple[str, ...]

    @property
    def size(self) -> str:
        return f"({self.sizes[0]},)" if len(self.sizes) == 1 else f"({', '.join(self.sizes)})"


def filled_there(model: Model, packing: Packing) -> Fix | NoFix:
    """The fix that fills the tensor on the device, if all its elements are one number."""
    call, tree = packing.call, packing.site.tree
    others = [
        argument
        for argument in call.args[1:]
        if argument.keyword is None or argument.keyword.value not in ("dtype", "device")
    ]
    first = call.args[0]
    if isinstance(packing.grade, NoFix):
        return packing.grade
    if others or (first.keyword is not None and first.keyword.value != _DATA_ARGUMENT) or first.star:
        return NoFix.FORM
    filled = _filled(model, packing, packing.data)
    if filled is None or model.value(filled.number).kind is not Kind.NUMBER:
        return NoFix.NOT_A_NUMBER
    number = filled.number
    dtype = FILLABLE.get(model.value(call.func).ref or "", "")
    if dtype.startswith("int") and model.value(number).dtype != "int":
        return NoFix.DTYPE_UNKNOWN  # a typed constructor cuts the fraction off, or not
    if _overflows(model, packing, number, dtype):
        return NoFix.DTYPE_UNKNOWN
    owner = _owner(model, packing)
    if owner is None or packing.data.lpar or number.lpar:
        return NoFix.NO_ROOM
    name, given = _made_by(model, packing, owner, number)
    changed = edits.together(
        packing.placing,
        edits.replace(tree, call.func, name),
        edits.replace(tree, packing.data if first.keyword is None else first, f"{filled.size}{given}"),
    )
    if changed is None:
        return NoFix.NO_ROOM
    grade = packing.grade.at_worst(_grade(model, packing, number))
    return Fix("fill the tensor on the device", grade, changed)


def _filled(model: Model, packing: Packing, data: cst.BaseExpression) -> _Filled | None:
    """`v`, `[v]`, `[[v]]`, `[0, 0]` and `[v] * n`; None where elements differ, or where there may be none.

    A list without elements has no number whose dtype a tensor could take.
    """
    if isinstance(data, cst.BinaryOperation) and isinstance(data.operator, cst.Multiply):
        return _repeated(model, packing, data)
    if not isinstance(data, cst.List):
        return _Filled(data, ())
    rows = [_filled(model, packing, each.value) for each in data.elements if isinstance(each, cst.Element)]
    inner = rows[0] if rows else None
    if inner is None or data.lpar or len(rows) != len(data.elements):
        return None
    if len(rows) > 1:
        texts = {None if row is None else (row.sizes, edits.text_of(packing.site.tree, row.number)) for row in rows}
        if len(texts) > 1 or not _stands_for_all(model, packing, inner.number):
            return None
    return _Filled(inner.number, (str(len(rows)), *inner.sizes))


def _repeated(model: Model, packing: Packing, data: cst.BinaryOperation) -> _Filled | None:
    """`[v] * n`, for an n above zero, or a length if the dtype is that of the call; a product of numbers is one."""
    listed, times = (data.left, data.right) if isinstance(data.left, cst.List) else (data.right, data.left)
    if not isinstance(listed, cst.List):
        return _Filled(data, ())
    inner, meaning = _filled(model, packing, listed), model.ast_of(times)
    if inner is None or len(inner.sizes) != 1 or meaning is None or data.lpar:
        return None
    if isinstance(times, cst.Integer):
        size = times.evaluated_value * int(inner.sizes[0])
        return _Filled(inner.number, (str(size),)) if size else None
    is_one = len(listed.elements) == 1 and _has_dtype_when_empty(model, packing, inner.number)
    if not is_one or not _stands_for_all(model, packing, inner.number):
        return None
    if not _is_count(model, model.function_of(packing.site), meaning):
        return None
    return _Filled(inner.number, (edits.text_of(packing.site.tree, times),))


def _has_dtype_when_empty(model: Model, packing: Packing, number: cst.BaseExpression) -> bool:
    """Whether a list without elements gives the dtype of the number: one that is asked for, or that of floats."""
    if model.value(packing.call.func).ref in FILLABLE or _asks_for_dtype(model, packing):
        return True
    return not packing.is_new_tensor and shape.argument(packing.call, "dtype") is None and _is_float(model, number)


def _is_count(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a number is a length, or a sum or product of such: never below zero."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        return _is_count(model, function, node.left) and _is_count(model, function, node.right)
    return is_length(model, function, node)


def _stands_for_all(model: Model, packing: Packing, number: cst.BaseExpression) -> bool:
    """Whether an expression, evaluated once and at another time, gives the number that each element has."""
    meaning = model.ast_of(number)
    is_plain = isinstance(_unsigned(number), cst.Name) or _is_written_out(model, number)
    return is_plain or (meaning is not None and is_length(model, model.function_of(packing.site), meaning))


def _owner(model: Model, packing: Packing) -> str | None:
    """Whose function fills: torch, or `x` of `x.new_tensor(v)`."""
    func = packing.call.func
    if packing.is_new_tensor and isinstance(func, cst.Attribute):
        return model.text(func.value)
    if model.value(func).ref not in FACTORIES and model.value(func).ref not in FILLABLE:
        return None
    return model.text(func.value) if isinstance(func, cst.Attribute) else model.name_of("torch", packing.site)


def _made_by(model: Model, packing: Packing, owner: str, number: cst.BaseExpression) -> tuple[str, str]:
    """The function, and what follows the size: `torch.full`, `x.new_full`, and `torch.ones` for `True`.

    With a truth value, `full` cannot be traced, and TorchScript's makes integers.
    """
    prefix = f"{owner}.new_" if packing.is_new_tensor else f"{owner}."
    if not _is_truth(model, packing, number):
        return f"{prefix}full", f", {model.text(number)}"
    has_dtype = packing.is_new_tensor or model.value(packing.call.func).ref in FILLABLE
    has_dtype = has_dtype or shape.argument(packing.call, "dtype") is not None
    name = "ones" if shape.is_literal(number, "True") else "zeros"
    return f"{prefix}{name}", "" if has_dtype else f", dtype={owner}.bool"


def _is_truth(model: Model, packing: Packing, number: cst.BaseExpression) -> bool:
    """`True` or `False`, in the dtype of truth values or in another one for certain: of None, `ones` makes floats."""
    is_literal = shape.is_literal(number, "True") or shape.is_literal(number, "False")
    return is_literal and (shape.argument(packing.call, "dtype") is None or _asks_for_dtype(model, packing))


def _asks_for_dtype(model: Model, packing: Packing) -> bool:
    """Whether the call is given a dtype, and never None: `torch.int64`, `x.dtype` of a tensor."""
    given = shape.argument(packing.call, "dtype")
    if isinstance(given, cst.Attribute) and model.value(given.value).is_tensor:
        return given.attr.value == "dtype"
    return isinstance(given, cst.BaseExpression) and model.value(given).dtype is not None


def _is_written_out(model: Model, number: cst.BaseExpression) -> bool:
    """A literal of a number, `float("inf")`, or a number of `math`."""
    node = _unsigned(number)
    if isinstance(node, cst.Attribute):
        return model.value(node.value).ref == "math"
    if isinstance(node, cst.Call):
        is_text = len(node.args) == 1 and isinstance(node.args[0].value, cst.SimpleString)
        return is_text and model.value(node.func).ref == "builtins.float"
    return isinstance(node, (cst.Integer, cst.Float))


def _grade(model: Model, packing: Packing, number: cst.BaseExpression) -> Safety:
    """SAFE for a certain Python number that the dtype can hold, also in graphs of `torch.jit`."""
    if not model.certain_number(number) or not _is_same_in_graphs(model, packing, number):
        return Safety.UNSAFE
    constant = model.value(_unsigned(number)).constant
    if isinstance(constant, (int, float)):
        if abs(constant) <= magnitudes.OF_FLOAT16:
            return Safety.SAFE
        return Safety.SAFE if abs(constant) == float("inf") else Safety.UNSAFE
    dtype = shape.argument(packing.call, "dtype")
    given = model.value(dtype).dtype if isinstance(dtype, cst.BaseExpression) else None
    if dtype is not None and given not in _WIDE_DTYPES:
        return Safety.UNSAFE
    is_wide = not packing.is_new_tensor or dtype is not None
    return Safety.SAFE if is_wide and _is_held(model, packing, number, given) else Safety.UNSAFE


def _unsigned(number: cst.BaseExpression) -> cst.BaseExpression:
    return number.expression if isinstance(number, cst.UnaryOperation) else number


def _is_same_in_graphs(model: Model, packing: Packing, number: cst.BaseExpression) -> bool:
    """Whether graphs have the same tensor of both: of literals and sizes, and of what is no truth value if traced."""
    scripted = is_perhaps_scripted(model, packing.site)
    if not scripted and not model.may_be_traced:
        return True
    meaning, function = model.ast_of(number), model.function_of(packing.site)
    is_known = _is_truth(model, packing, number) or _is_written_out(model, number)
    is_known = is_known or (meaning is not None and is_length(model, function, meaning))
    if not scripted:
        return is_known or model.value(number).dtype == "int" or _is_float(model, number)
    return is_known and (packing.move is None or may_be_sent(model, function, packing.move.device))


def _overflows(model: Model, packing: Packing, number: cst.BaseExpression, made: str) -> bool:
    """Whether the dtype is seen not to hold a literal: `torch.full` raises an error, where `tensor` gives infinity."""
    constant = model.value(_unsigned(number)).constant
    if not isinstance(constant, float) or not math.isfinite(constant):
        return False
    given = shape.argument(packing.call, "dtype")
    known = model.value(given).dtype if isinstance(given, cst.BaseExpression) else made or "float32"
    largest = {"float16": magnitudes.OF_FLOAT16, "float32": magnitudes.OF_FLOAT32, "bfloat16": magnitudes.OF_FLOAT32}
    return abs(constant) > largest.get(known or "", math.inf)


def _is_held(model: Model, packing: Packing, number: cst.BaseExpression, dtype: str | None) -> bool:
    """Whether the tensor's dtype holds the number, or both functions raise an error: `tensor` alone gives infinity."""
    value, made = model.value(number), FILLABLE.get(model.value(packing.call.func).ref or "", dtype)
    is_int = value.dtype in ("int", "bool")
    if (made or ("int" if is_int else "float")).startswith("int"):
        return True
    is_float = _is_float(model, number)
    if made == "float64" and is_float:
        return True
    bound = magnitudes.largest(model, number)
    return bound is not None and bound <= (magnitudes.OF_FLOAT32 if is_float else magnitudes.OF_INTEGERS)


def _is_float(model: Model, number: cst.BaseExpression) -> bool:
    ref = (model.value(number.func).ref or "") if isinstance(number, cst.Call) else ""
    return model.value(number).dtype == "float" or (ref.startswith("math.") and ref not in _GIVE_INTEGERS)
