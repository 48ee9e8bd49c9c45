"""Accelerator tensors that take a detour through NumPy: fetched, processed as torch could, and sent back."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.knowledge import numpy_api, torch_api
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Device, Kind, Value
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_PACKS = frozenset({"torch.from_numpy", *torch_api.HOST_DATA_FACTORIES, *torch_api.LEGACY_FACTORIES})
_CARRIES = torch_api.VIEW_METHODS | torch_api.DTYPE_METHODS.keys() | {"contiguous", "clone", "to", "type"}
_BEFORE_NUMPY = frozenset("detach cpu clone contiguous float double half to".split())
_NEUTRAL = (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.DTYPE)


class Work(NamedTuple):
    """What NumPy does to fetched tensors: the calls that fetch them, and the functions with their torch equivalents."""

    fetches: tuple[ast.Call, ...]
    functions: tuple[tuple[str, str], ...]

    def with_(self, other: Work) -> Work:
        """The union of both."""
        return Work((*self.fetches, *other.fetches), (*self.functions, *other.functions))


class NumpyTrip(NamedTuple):
    """A place where a tensor returns to the device after NumPy has processed it."""

    site: Site
    work: Work
    hot_path: HotPath
    because: tuple[Because, ...]


_NOTHING = Work((), ())


def numpy_trips(model: Model) -> tuple[NumpyTrip, ...]:
    """The moves to the accelerator, in every step, of NumPy results from tensors that were there."""
    return model.remember("numpy_trips", lambda: tuple(_numpy_trips(model)))


def is_fetch(model: Model, site: Site) -> bool:
    """Whether the call at the site, or the call chain around it, fetches a tensor for such work."""
    row, start = site.rows[0], site.start
    for trip in numpy_trips(model):
        for fetch in trip.work.fetches:
            first = model.source.offset(fetch.lineno, fetch.col_offset)
            last = model.source.offset(fetch.end_lineno or row, fetch.end_col_offset or 0)
            if first <= start < last:
                return True
    return False


def comes_from_numpy(model: Model, site: Site) -> bool:
    """Whether the site is where such a tensor returns to the device."""
    return any(trip.site.start <= site.start < trip.site.end for trip in numpy_trips(model))


def _numpy_trips(model: Model) -> Iterator[NumpyTrip]:
    if not model.mentions(".numpy("):
        return
    seen = set[int]()
    for move in hot_moves(model):
        yield from _made(model, move.site, move.moved, move.hot_path, seen)
    for site in model.calls(*sorted(torch_api.HOST_DATA_FACTORIES), hot=True):
        hot_path = model.hot_path(site)
        if hot_path is not None and shape.argument(site.node, "device") is not None and model.on_device(site.node):
            yield from _made(model, site, site.node, hot_path, seen)


def _made(model: Model, site: Site, node: cst.BaseExpression, hot_path: HotPath, seen: set[int]) -> Iterator[NumpyTrip]:
    meaning = model.ast_of(node)
    if meaning is None or site.start in seen:
        return
    function = model.function_of(site)
    work = _Tracer(model, function).packed(meaning)
    if work is None or not work.fetches:
        return
    seen.add(site.start)
    fetched = Because(work.fetches[0].lineno, f"`{ast.unparse(work.fetches[0])}` fetches it from the device")
    yield NumpyTrip(site, work, hot_path, (fetched,))


class _Tracer:
    """Traces the sources of expressions in one function."""

    def __init__(self, model: Model, function: FunctionInfo) -> None:
        self._model = model
        self._function = function
        self._names = 0

    def packed(self, node: ast.expr) -> Work | None:
        """The work that ends in `torch.from_numpy(...)`, perhaps cast or reshaped; None for anything else."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if self._value(node.func).kind is Kind.LIBRARY:
                break
            if node.func.attr not in _CARRIES:
                return None
            node = node.func.value
        if isinstance(node, ast.Name):
            bound = self._bound(node)
            return None if bound is None else self.packed(bound)
        if not isinstance(node, ast.Call) or not node.args or isinstance(node.args[0], ast.Starred):
            return None
        if self._value(node.func).ref not in _PACKS:
            return None
        return self._work(node.args[0])

    def _work(self, node: ast.expr) -> Work | None:
        """The work that makes an array; None if any part of it is unknown."""
        value = self._value(node)
        if isinstance(node, ast.Constant) or value.kind in _NEUTRAL:
            return _NOTHING
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.Name):
            bound = self._bound(node)
            return None if bound is None else self._work(bound)
        if isinstance(node, ast.Attribute):
            if value.kind is Kind.LIBRARY:
                return _NOTHING if (value.ref or "").startswith("numpy.") else None
            return self._work(node.value) if node.attr == "T" else None
        if isinstance(node, ast.Subscript):
            return self._all((node.value, *_indices(node.slice)))
        if isinstance(node, ast.BinOp):
            return self._all((node.left, node.right))
        if isinstance(node, ast.UnaryOp):
            return self._work(node.operand)
        if isinstance(node, ast.Compare):
            return self._all((node.left, *node.comparators))
        return self._all(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else None

    def _all(self, nodes: Iterable[ast.expr]) -> Work | None:
        whole = _NOTHING
        for node in nodes:
            part = self._work(node)
            if part is None:
                return None
            whole = whole.with_(part)
        return whole

    def _called(self, node: ast.Call) -> Work | None:
        if any(keyword.arg in (None, "out") for keyword in node.keywords):
            return None
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        callee = self._value(node.func)
        if callee.kind is Kind.LIBRARY:
            if callee.ref in ("numpy.array", "numpy.asarray", "numpy.ascontiguousarray"):
                return self._all(given)
            twin = numpy_api.TWINS.get(callee.ref or "")
            inner = None if twin is None else self._all(given)
            return None if inner is None or twin is None else inner.with_(Work((), ((ast.unparse(node.func), twin),)))
        if not isinstance(node.func, ast.Attribute):
            return None
        if node.func.attr == "numpy":
            return self._fetched(node)
        if node.func.attr not in numpy_api.TWIN_METHODS:
            return None
        owner = self._work(node.func.value)
        rest = self._all(given)
        return None if owner is None or rest is None or not owner.fetches else owner.with_(rest)

    def _fetched(self, node: ast.Call) -> Work | None:
        """`x.detach().cpu().numpy()` of a tensor on the device."""
        tensor: ast.expr = node
        while isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute):
            value = self._value(tensor)
            if value.holds_tensors and value.device.on_accelerator:
                break
            tensor = tensor.func.value
        if isinstance(tensor, ast.Name) and self._value(tensor).device is Device.CPU:
            bound = self._bound(tensor)
            if not isinstance(bound, ast.Call) or not isinstance(bound.func, ast.Attribute):
                return None
            tensor = bound.func.value if bound.func.attr in _BEFORE_NUMPY else bound
        value = self._value(tensor)
        on_device = value.holds_tensors and not value.mixed and value.device.on_accelerator
        return Work((node,), ()) if on_device else None

    def _bound(self, name: ast.Name) -> ast.expr | None:
        """The value of the only statement that binds the name, if it runs in the same step."""
        self._names += 1
        bound = self._model.only_binding(self._function, name.id)
        if self._names > bounds.MOST_NAMES_OF_ROUND_TRIP or bound is None or self._is_written(name.id):
            return None
        return bound if bound in self._model.hot_bindings(self._function, name.id) else None

    def _is_written(self, name: str) -> bool:
        """`array[0] = 1`, which the host does element by element."""
        return any(
            isinstance(each, ast.Subscript)
            and not isinstance(each.ctx, ast.Load)
            and isinstance(each.value, ast.Name)
            and each.value.id == name
            for each in self._function.nodes
        )

    def _value(self, node: ast.expr) -> Value:
        return self._model.value_in(self._function, node)


def _indices(node: ast.expr) -> list[ast.expr]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    found: list[ast.expr] = []
    for part in parts:
        bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else (part,)
        found += [each for each in bounds if each is not None]
    return found
