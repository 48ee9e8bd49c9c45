"""Samples that a program makes up: random numbers and the toy sets of scikit-learn, as tests of speed use them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import loading, torch_api
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.syntax.names import names_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo


class MadeUp:
    """Traces one dataset back to what makes its samples up."""

    def __init__(self, inference: ValueQuestions) -> None:
        self._inference = inference
        self._steps = 0

    def shown(self, dataset: Value, node: ast.expr, function: FunctionInfo) -> Because | None:
        """Where the dataset is shown to make its samples up; None where it may read them."""
        reading = None if dataset.cls is None else self._reader(dataset)
        if reading is not None:
            returns = [each.value for each in reading.statements if isinstance(each, ast.Return) and each.value]
            if returns and all(self._is_made_up(each, reading) for each in returns):
                return Because(returns[0].lineno, "the samples are made up here", reading.path)
            return None
        if dataset.cls is None and self._is_made_up(node, function):
            return Because(node.lineno, "the samples are made up", function.path)
        return None

    def _reader(self, dataset: Value) -> FunctionInfo | None:
        assert dataset.cls is not None
        names = (name for name in loading.DATASET_READERS if name != "__iter__")
        return next(filter(None, (self._inference.method(dataset.cls, name) for name in names)), None)

    def _is_made_up(self, node: ast.expr, function: FunctionInfo) -> bool:
        """Whether every value of the expression is made of made-up data, with plain numbers and indices beside it."""
        self._steps += 1
        if self._steps > bounds.MOST_MAKING_STEPS:
            return False
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                return self._is_mostly(parts, function)
            case ast.ListComp(elt=part):
                return self._is_made_up(part, function)
            case ast.Name(id=name):
                bound = self._bindings(name, function)
                return bool(bound) and all(self._is_made_up(each, where) for each, where in bound)
            case ast.Subscript(value=whole):
                return self._is_made_up(whole, function)
            case ast.Call():
                return self._call(node, function)
        return False

    def _call(self, call: ast.Call, function: FunctionInfo) -> bool:
        callee = self._inference.frame_value(function, call.func)
        if callee.kind is Kind.LIBRARY:
            ref = callee.ref or ""
            if ref in loading.SELECTS:
                return any(self._is_selected(each, function) for each in call.args[:1])
            if ref in loading.MAKES_UP or ref.startswith(loading.MAKES_UP_PREFIXES):
                return True
            return self._is_mostly(call.args, function)
        if isinstance(call.func, ast.Attribute) and callee.function is None:
            return self._is_made_up(call.func.value, function)
        return False

    def _is_selected(self, node: ast.expr, function: FunctionInfo) -> bool:
        """Whether what is selected from is made up itself: a number of numbers, or what the program makes up."""
        if isinstance(node, (ast.List, ast.Tuple)):
            return all(self._is_selected(each, function) for each in node.elts)
        return isinstance(node, ast.Constant) or self._is_made_up(node, function)

    def _is_mostly(self, parts: Sequence[ast.expr], function: FunctionInfo) -> bool:
        """Whether some parts are made up, and all others are constants or parameters, such as the index."""
        others = [each for each in parts if not self._is_made_up(each, function)]
        return len(others) < len(parts) and all(self._is_plain(each, function) for each in others)

    def _is_plain(self, node: ast.expr, function: FunctionInfo) -> bool:
        if isinstance(node, ast.Tuple):
            return all(self._is_plain(each, function) for each in node.elts)
        if isinstance(node, ast.Call):
            makes = self._inference.frame_value(function, node.func).ref in torch_api.FACTORIES
            return makes and all(self._is_plain(each, function) for each in node.args)
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in function.parameter_names)

    def _bindings(self, name: str, function: FunctionInfo) -> list[tuple[ast.expr, FunctionInfo]]:
        """What assignments bind the name to, in the function or the nearest around it that binds it, or store in it."""
        where: FunctionInfo | None = function
        while where is not None and name not in where.bound_names:
            where = where.outer
        if where is None or name in where.parameter_names:
            return []
        return [
            (each.value, where)
            for each in where.statements
            if isinstance(each, (ast.Assign, ast.AugAssign))
            for targets in [each.targets if isinstance(each, ast.Assign) else [each.target]]
            if any(name in names_in(target) for target in targets)
        ]
