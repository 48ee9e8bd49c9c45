"""Lists of NumPy arrays: their elements, and where a program reads them for every sample or batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import loading, numpy_api
from torchperf_lint.model import bounds
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_LISTS = frozenset("list List tuple Tuple Sequence".split())


class Arrays(NamedTuple):
    """The arrays in a list, and their common dtype if it is known."""

    dtype: str | None


def arrays_in(model: Model, node: cst.BaseExpression) -> Arrays | None:
    """What is known of a list that provably holds only arrays (no NumPy scalars)."""
    meaning = model.ast_of(node)
    if meaning is None:
        return None
    return _Reader(model, model.place(node).function).held(meaning, {}, bounds.MOST_NAMES_OF_ARRAY)


class _Reader:
    """Reads the expressions of one function."""

    def __init__(self, model: Model, function: FunctionInfo) -> None:
        self._model = model
        self._function = function
        self._stored = [each for each in function.nodes if isinstance(each, ast.Name)]

    def held(self, node: ast.expr, walked: dict[str, ast.expr], hops: int) -> Arrays | None:
        """The arrays of a list; `walked` has the iterables of the names that a comprehension binds."""
        if isinstance(node, (ast.List, ast.Tuple)):
            return self._all(node.elts, walked, hops) if node.elts else None
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            bound = {part.target.id: part.iter for part in node.generators if isinstance(part.target, ast.Name)}
            return self._all([node.elt], {**walked, **bound}, hops)
        if not isinstance(node, ast.Name) or not hops or node.id in walked:
            return None
        bound_to = self._model.all_bindings(self._function, node.id)
        if not bound_to:
            return Arrays(None) if self._annotated(node.id, of_lists=True) else None
        added = self._appended(node.id)
        if added is None or (added and isinstance(bound_to[0], ast.ListComp)):
            return None
        if added and all(isinstance(each, ast.List) and not each.elts for each in bound_to):
            return self._all(added, walked, hops - 1)
        return self.held(bound_to[0], walked, hops - 1) if len(bound_to) == 1 and not added else None

    def _all(self, nodes: list[ast.expr], walked: dict[str, ast.expr], hops: int) -> Arrays | None:
        if not all(self._is_array(each, walked, hops) for each in nodes):
            return None
        dtypes = {self._dtype(each) for each in nodes}
        return Arrays(dtypes.pop() if len(dtypes) == 1 else None)

    def _is_array(self, node: ast.expr, walked: dict[str, ast.expr], hops: int) -> bool:
        if isinstance(node, ast.Call):
            if self._ref(node.func) in numpy_api.GIVE_ARRAYS:
                return True
            if not isinstance(node.func, ast.Attribute):
                return False
            if node.func.attr == "numpy":
                return self._model.value_in(self._function, node.func.value).holds_tensors
            return node.func.attr in numpy_api.KEEP_ARRAYS and self._is_array(node.func.value, walked, hops)
        if isinstance(node, ast.BinOp):
            return self._is_array(node.left, walked, hops) or self._is_array(node.right, walked, hops)
        if isinstance(node, ast.Attribute):
            return node.attr == "T" and self._is_array(node.value, walked, hops)
        if not isinstance(node, ast.Name) or not hops:
            return False
        if node.id in walked:
            return self.held(walked[node.id], {}, hops - 1) is not None
        bound_to = self._model.all_bindings(self._function, node.id)
        if not bound_to:
            return self._annotated(node.id, of_lists=False)
        # `image = image / 255`: an array if it was one before.
        first = [each for each in bound_to if not _reads(each, node.id)]
        return bool(first) and all(self._is_array(each, walked, hops - 1) for each in first)

    def _dtype(self, node: ast.expr) -> str | None:
        """The dtype that an expression gives its array, if stated."""
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and node.args:
            return self._named_dtype(node.args[0])
        given = next((each.value for each in node.keywords if each.arg == "dtype"), None)
        if given is not None:
            return self._named_dtype(given)
        ref = self._ref(node.func)
        return "float64" if ref in numpy_api.GIVE_DOUBLES and len(node.args) < 2 else None

    def _named_dtype(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name) and node.id == "object":
            return "object"
        ref = self._ref(node)
        return ref.removeprefix("numpy.") if ref.startswith("numpy.") else None

    def _ref(self, node: ast.expr) -> str:
        return self._model.value_in(self._function, node).ref or ""

    def _appended(self, name: str) -> list[ast.expr] | None:
        """The values that the function appends to a list of that name; None if it changes the list otherwise."""
        found: list[ast.expr] = []
        for record in self._function.calls_made:
            func = record.call.func
            if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == name:
                if func.attr == "append" and len(record.call.args) == 1:
                    found += record.call.args
                elif func.attr in ("extend", "insert", "append", "pop", "clear"):
                    return None
        return found

    def _annotated(self, name: str, *, of_lists: bool) -> bool:
        """Whether the name is a parameter annotated as an array, or a list of arrays."""
        arguments = self._function.arguments
        stored = any(each.id == name and isinstance(each.ctx, ast.Store) for each in self._stored)
        if arguments is None or stored:
            return False
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        annotation = next((each.annotation for each in named if each.arg == name), None)
        if of_lists:
            if not isinstance(annotation, ast.Subscript) or last_name(annotation.value) not in _LISTS:
                return False
            inner = annotation.slice
            annotation = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
        return annotation is not None and last_name(annotation) == "ndarray"


def _reads(node: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in subtree(node))


def runs_for_data(model: Model, site: Site) -> tuple[str, tuple[Because, ...]] | None:
    """Evidence that the site runs for every step, sample or batch, and for which."""
    hot_path = model.hot_path(site)
    if hot_path is not None:
        return hot_path.where, hot_path.because
    if model.is_sampled(model.statement_of(site.node)):
        return None
    return _for_loader(model, model.function_of(site), 2)


def _for_loader(model: Model, function: FunctionInfo, hops: int) -> tuple[str, tuple[Because, ...]] | None:
    row = function.body[0].lineno
    if function.cls is not None and function.name in loading.DATASET_READERS:
        bases = model.library_bases(function.cls)
        if any(base.startswith("torch.utils.data.") for base in bases):
            says = f"a loader calls `{function.cls.name}.{function.name}` for its samples"
            return "for every sample", (Because(row, says, function.path),)
    for record in model.given_away(function):
        for keyword in record.call.keywords:
            if keyword.arg == "collate_fn" and (dotted(keyword.value) or "").rpartition(".")[2] == function.name:
                says = f"`{function.name}` is a loader's `collate_fn`"
                return "for every batch", (Because(record.call.lineno, says, record.function.path),)
    if not hops:
        return None
    for record in model.callers(function):
        found = None if record.function is function else _for_loader(model, record.function, hops - 1)
        if found is not None:
            step = Because(record.call.lineno, f"`{function.name}` is called here", record.function.path)
            return found[0], (step, *found[1])
    return None
