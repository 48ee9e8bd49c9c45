"""Masks that are shown to be causal: no position sees a later one, and each sees all the others."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms import writes
from torchperf_lint.idioms.arguments import passed
from torchperf_lint.knowledge.torch_api import CAUSAL_MASK
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import assigned_to, dotted, last_name, named_device, names_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo
    from torchperf_lint.syntax import cst


class Shown(enum.Enum):
    """How well a mask is shown to be causal."""

    SURELY = "made in the function, and not written to"
    BY_CLASS = "made so where the class sets the attribute"


class _Fill(enum.Enum):
    """The value of a matrix where it is not zero or False."""

    TRUE = "True"
    ONE = "1"
    MINUS_INFINITY = "-inf"
    HIDES = "True or -inf"


class _Matrix(NamedTuple):
    """A square matrix: of one value everywhere, or above the diagonal alone."""

    fill: _Fill
    upper: bool = False


_KEEPS = frozenset({"detach", "contiguous", "clone", "cuda"})
_SAME_SHAPE = frozenset("detach contiguous clone cuda to bool float half double bfloat16 type_as type".split())
_RESHAPES = frozenset("expand repeat view reshape".split())
_FLOATS = frozenset({"float", "half", "double", "bfloat16"})
_HAVE_INFINITY = frozenset({"math", "torch", "numpy"})
_SIZES = frozenset({"size", "len", "int", "max", "min"})


def shown_causal(model: Model, site: Site, mask: cst.BaseExpression) -> Shown | None:
    """Whether an expression at the site is a causal mask; None if nothing shows it."""
    node, function = model.ast_of(mask), model.function_of(site)
    base = None if node is None else _cut_from(node)
    if isinstance(base, ast.Attribute):
        owner, _, name = (dotted(base) or "").rpartition(".")
        is_own = owner != "" and owner == function.self_name and function.cls is not None
        return Shown.BY_CLASS if is_own and _is_causal_attribute(model, function.cls, name) else None
    return Shown.SURELY if node is not None and _hides_later(model, function, node) else None


def may_be_compared(model: Model, site: Site, mask: cst.BaseExpression) -> bool:
    """Whether a mask may be a matrix, and one is given: not a parameter that is None in all calls that are known."""
    node, function = model.ast_of(mask), model.function_of(site)
    if node is None:
        return False
    made = model.only_binding(function, node.id) if isinstance(node, ast.Name) else node
    return not _has_more_dimensions(node if made is None else made) and _is_given(model, function, node)


def _has_more_dimensions(node: ast.expr) -> bool:
    """`mask.unsqueeze(0)`, `mask.expand(batch * heads, n, n)`, `mask[None]`, and casts of these."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_SHAPE:
        node = node.func.value
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return any(isinstance(each, ast.Constant) and each.value is None for each in parts)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "unsqueeze" or (node.func.attr in _RESHAPES and len(node.args) > 2)


def _is_given(model: Model, function: FunctionInfo, node: ast.expr, calls: int = 0) -> bool:
    """Whether an expression is a tensor in some call: not a parameter that nobody gives, or gives as None alone."""
    if not isinstance(node, ast.Name) or node.id not in function.parameter_names:
        return not (isinstance(node, ast.Constant) and node.value is None)
    name = node.id
    if any(name not in names_in(each) and _is_given(model, function, each) for each in model.bindings(function, name)):
        return True
    if calls >= bounds.MOST_CALLS_TO_MASK:
        return False
    callers = model.callers(function)
    for record in callers:
        given = passed(record.call, function, name)
        if given is not None and _is_given(model.home(record.function), record.function, given, calls + 1):
            return True
    default = function.defaults.get(name)
    return not callers and not (isinstance(default, ast.Constant) and default.value is None)


def _cut_from(node: ast.expr) -> ast.expr:
    """`mask` of `mask[:n, :n]`, the same for fewer positions."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple) or len(node.slice.elts) != 2:
        return node
    rows, columns = node.slice.elts
    is_square = _is_beginning(rows) and _is_beginning(columns) and ast.dump(rows) == ast.dump(columns)
    return node.value if is_square else node


def _is_beginning(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is None and part.step is None and part.upper is not None


def _is_causal_attribute(model: Model, cls: ClassInfo | None, name: str) -> bool:
    """Whether the only value that the class and its bases give to the attribute is a causal mask."""
    owners = [] if cls is None else model.lineage(cls)
    stores = [store for owner in owners for store in owner.attributes.get(name, ())]
    made: list[tuple[FunctionInfo, ast.expr | None]] = []
    for store in stores:
        target, function = store.target, store.function
        made.append((function, assigned_to(function.parents, target) if isinstance(target, ast.Attribute) else None))
    methods = [method for owner in owners for method in owner.methods.values()]
    made += [(method, given) for method in methods for given in _registered(method, name)]
    if len(made) != 1 or made[0][1] is None or any(_is_written_in(method, name) for method in methods):
        return False
    function, given = made[0]
    return given is not None and _hides_later(model.home(function), function, given)


def _registered(method: FunctionInfo, name: str) -> Iterator[ast.expr]:
    """What the method registers as the buffer: `self.register_buffer("name", value)`."""
    for call in (record.call for record in method.calls_made):
        is_buffer = isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer" and len(call.args) > 1
        if is_buffer and isinstance(call.args[0], ast.Constant) and call.args[0].value == name:
            yield call.args[1]


def _is_written_in(method: FunctionInfo, name: str) -> bool:
    """Whether a method writes to the attribute in place."""
    written = (each.value if isinstance(each, ast.Subscript) else each for each, _ in writes.written_in(method))
    paths = (dotted(each) or "" for each in written)
    return any(f"{path}.".startswith(f"{method.self_name}.{name}.") for path in paths)


def _hides_later(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    found = _Reading(model, function, {}).matrix(node)
    return found is not None and found.upper and found.fill is not _Fill.ONE


class _Reading(NamedTuple):
    """Reads expressions of a function as square matrices."""

    model: Model
    function: FunctionInfo
    named: dict[str, _Matrix | None]

    def matrix(self, node: ast.expr) -> _Matrix | None:
        """The matrix that an expression makes; None if it is not shown to be one."""
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self._scaled(node.left, node.right) or self._scaled(node.right, node.left)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.Subscript):
            base = _cut_from(node)
            return None if base is node else self.matrix(base)
        if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
            return None
        called = self.model.value_in(self.function, node.func)
        given = {each.arg: each.value for each in node.keywords if each.arg is not None}
        if len(given) < len(node.keywords):
            return None
        if called.kind is Kind.LIBRARY:
            return self._made(node, called.ref or "", given)
        if not isinstance(node.func, ast.Attribute) or called.function is not None:
            return None
        if called.element is not None and f"{called.element.ref}.{called.ref}" == CAUSAL_MASK:
            return self._made(node, CAUSAL_MASK, given)
        before = self.matrix(node.func.value)
        return None if before is None else self._by_method(before, node.func.attr, node.args, given)

    def _named(self, node: ast.Name) -> _Matrix | None:
        """The matrix that all bindings of a name make, those made of the name itself (`mask.to(device)`) included."""
        name = node.id
        if name in self.named:
            return self.named[name]
        self.named[name] = None
        bound = self.model.all_bindings(self.function, name)
        first = [self.matrix(each) for each in bound if name not in names_in(each)]
        if not first or len(set(first)) > 1 or writes.may_write(self.model, self.function, [node], self.function.body):
            return None
        self.named[name] = first[0]
        if any(self.matrix(each) != first[0] for each in bound if name in names_in(each)):
            self.named[name] = None
        return self.named[name]

    def _made(self, node: ast.Call, ref: str, given: dict[str, ast.expr]) -> _Matrix | None:
        """What a function of torch makes."""
        if ref == CAUSAL_MASK:
            dtype = given.get("dtype", node.args[2] if len(node.args) > 2 else None)
            known = None if dtype is None else self._dtype(dtype)
            if dtype is not None and known is None:
                return None
            return _Matrix(_Fill.TRUE if known == "bool" else _Fill.MINUS_INFINITY, upper=True)
        if ref == "torch.triu" and node.args:
            return self._triangle(self.matrix(node.args[0]), node.args[1:], given)
        if ref not in ("torch.ones", "torch.full") or not given.keys() <= {"device", "dtype", "fill_value"}:
            return None
        known = self._dtype(given["dtype"]) if "dtype" in given else ""
        if known is None:
            return None
        if ref == "torch.ones":
            return _Matrix(_Fill.TRUE if known == "bool" else _Fill.ONE) if _is_square(node.args) else None
        value = given.get("fill_value", node.args[1] if len(node.args) == 2 else None)
        if value is None or not _is_square(node.args[:1]):
            return None
        if isinstance(value, ast.Constant) and value.value is True and known in ("", "bool"):
            return _Matrix(_Fill.TRUE)
        if not self._is_minus_infinity(value):
            return None
        return _Matrix(_Fill.TRUE if known == "bool" else _Fill.MINUS_INFINITY)

    def _by_method(
        self, before: _Matrix, name: str, arguments: list[ast.expr], given: dict[str, ast.expr]
    ) -> _Matrix | None:
        """What a method makes of the matrix."""
        if name == "triu":
            return self._triangle(before, arguments, given)
        if name in _KEEPS:
            return before
        if name == "bool":
            return before._replace(fill=_Fill.TRUE)
        if name in _FLOATS:
            return _as_number(before)
        if name != "to":
            return None
        for each in (*arguments, *(value for key, value in given.items() if key in ("device", "dtype", "other"))):
            value = self.model.value_in(self.function, each)
            if value.kind is Kind.DTYPE:
                as_bool = before._replace(fill=_Fill.TRUE) if value.dtype == "bool" else None
                cast = as_bool or (_as_number(before) if (value.dtype or "").startswith(("float", "bfloat")) else None)
            else:
                is_device = named_device(each, value) is not None
                cast = before if is_device else before._replace(fill=_Fill.HIDES) if _hides(before) else None
            if cast is None:
                return None
            before = cast
        return before

    def _triangle(
        self, before: _Matrix | None, arguments: list[ast.expr], given: dict[str, ast.expr]
    ) -> _Matrix | None:
        """The part above the diagonal: `torch.triu(x, diagonal=1)`."""
        diagonal = given.get("diagonal", arguments[0] if len(arguments) == 1 else None)
        is_above = isinstance(diagonal, ast.Constant) and type(diagonal.value) is int and diagonal.value == 1
        is_plain = given.keys() <= {"diagonal"}
        return before._replace(upper=True) if before is not None and is_above and is_plain else None

    def _scaled(self, node: ast.expr, by: ast.expr) -> _Matrix | None:
        """`torch.ones(n, n) * float("-inf")`; above the diagonal alone, zeros would become NaN."""
        if not self._is_minus_infinity(by):
            return None
        before = self.matrix(node)
        return _Matrix(_Fill.MINUS_INFINITY) if before == _Matrix(_Fill.ONE) else None

    def _compared(self, node: ast.Compare) -> _Matrix | None:
        """`torch.triu(torch.ones(n, n), diagonal=1) == 1`."""
        by = node.comparators[0]
        before = self.matrix(node.left) if len(node.ops) == 1 and isinstance(by, ast.Constant) else None
        if before is None or before.fill is not _Fill.ONE or not isinstance(by, ast.Constant):
            return None
        wanted = 1 if isinstance(node.ops[0], ast.Eq) else 0 if isinstance(node.ops[0], (ast.Gt, ast.NotEq)) else None
        return before._replace(fill=_Fill.TRUE) if wanted is not None and by.value == wanted else None

    def _dtype(self, node: ast.expr) -> str | None:
        return self.model.value_in(self.function, node).dtype

    def _is_minus_infinity(self, node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._is_infinity(node.operand) or self._is_named(node.operand, "inf", "infinity")
        return self._is_named(node, "-inf", "-infinity")

    def _is_infinity(self, node: ast.expr) -> bool:
        """`math.inf`."""
        if not isinstance(node, ast.Attribute) or node.attr != "inf":
            return False
        return self.model.value_in(self.function, node.value).ref in _HAVE_INFINITY

    def _is_named(self, node: ast.expr, *names: str) -> bool:
        """`float("-inf")`."""
        if not isinstance(node, ast.Call) or len(node.args) != 1 or not isinstance(node.args[0], ast.Constant):
            return False
        text = node.args[0].value
        is_float = self.model.value_in(self.function, node.func).ref == "builtins.float"
        return is_float and isinstance(text, str) and text.lower() in names


def _hides(matrix: _Matrix) -> bool:
    return matrix.fill in (_Fill.MINUS_INFINITY, _Fill.HIDES)


def _as_number(matrix: _Matrix) -> _Matrix | None:
    """The matrix as floats: True becomes 1."""
    if matrix.fill is _Fill.HIDES:
        return None
    return matrix._replace(fill=_Fill.ONE) if matrix.fill is _Fill.TRUE else matrix


def _is_square(sizes: list[ast.expr]) -> bool:
    """`(n, n)`, `n, n`: two sizes of the same text."""
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    if len(sizes) != 2 or ast.dump(sizes[0]) != ast.dump(sizes[1]):
        return False
    return all((last_name(each.func) or "") in _SIZES for each in subtree(sizes[0]) if isinstance(each, ast.Call))
