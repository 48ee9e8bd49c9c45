"""Values from type annotations: tensors, modules, loaders, numbers, strings, and containers of these."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api, torchmetrics_api
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.values import NUMBER, STRING, UNKNOWN, Device, Kind, Value, container, join_all
from torchperf_lint.model.values.name_heuristics import conventional
from torchperf_lint.syntax.parsing import parse_expression

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model.domain.frames import Frame
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_MORE_TENSORS = ("torch.BFloat16Tensor", "torch.ShortTensor", "torch.CharTensor")
_ANNOTATED = {
    "int": NUMBER,
    "float": NUMBER,
    "bool": NUMBER,
    "str": STRING,
    "torch.device": Value(Kind.DEVICE, Device.LIKELY),
    **dict.fromkeys((*torch_api.LEGACY_FACTORIES, *_MORE_TENSORS), Value(Kind.TENSOR)),
    "torch.nn.Module": Value(Kind.MODULE),
    "torch.optim.Optimizer": Value(Kind.OPTIMIZER),
    "numpy.ndarray": Value(Kind.NUMPY),
}


def annotated(
    annotation: ast.expr, inference: ValueQuestions, frame: Frame | None, function: FunctionInfo | None = None
) -> Value | None:
    """The value that an annotation promises; None if the model does not know the annotation."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = parse_expression(annotation.value)
        except (SyntaxError, ValueError):
            return None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _one_of((annotation.left, annotation.right), inference, frame, function)
    if isinstance(annotation, ast.Subscript):
        return _generic(annotation, inference, frame, function)
    ref = _resolve(annotation, inference, frame, function)
    if ref is None:
        return None
    if isinstance(ref, Value):
        return ref
    if ref.endswith("DataLoader"):
        return conventional("loader", UNKNOWN)
    known = _ANNOTATED.get(ref)
    if known is None and ref.startswith("torch.nn.") and ref.rpartition(".")[2][:1].isupper():
        return Value(Kind.MODULE, ref=ref)
    if known is None and ref.startswith("torch.optim.") and ".lr_scheduler" not in ref:
        return Value(Kind.OPTIMIZER)
    metric = torchmetrics_api.metric_class(ref) if known is None else None
    if metric is not None:
        return Value(Kind.METRIC, ref=None if metric == torchmetrics_api.BASE else metric)
    names_class = ref.rpartition(".")[2][:1].isupper()
    if known is None and names_class and not ref.startswith(("builtins.", "typing.", "collections.abc.")):
        return Value(Kind.INSTANCE, ref=ref)
    return known


def declared_names(function: FunctionInfo) -> dict[str, ast.expr]:
    """The annotations of the function's local names: `rows: list[float] = []`."""
    index = function.index
    note = index.by_name if function.is_module else index.note
    return note(("declared", function), lambda: _declared_names(function))


def _declared_names(function: FunctionInfo) -> dict[str, ast.expr]:
    return {
        node.target.id: node.annotation
        for node in function.nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _one_of(
    parts: Sequence[ast.expr], inference: ValueQuestions, frame: Frame | None, function: FunctionInfo | None
) -> Value | None:
    """The value of a union: that of its only member besides None, or an object of one of its classes.

    Lists and dicts of objects are left out: what has the attributes of the classes is none of them.
    """
    named = [part for part in _members(parts) if not (isinstance(part, ast.Constant) and part.value is None)]
    if len(named) == 1:
        return annotated(named[0], inference, frame, function)
    known = [annotated(part, inference, frame, function) for part in named]
    objects = [each for each in known if each is None or each.kind is not Kind.CONTAINER]
    classes = [each.cls for each in objects if each is not None and each.kind is Kind.INSTANCE and each.cls is not None]
    return Value(among=tuple(classes)) if classes and len(classes) == len(objects) else None


def _members(parts: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The members of a union that is written `A | B | C`."""
    for part in parts:
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
            yield from _members((part.left, part.right))
        else:
            yield part


def _generic(
    annotation: ast.Subscript, inference: ValueQuestions, frame: Frame | None, function: FunctionInfo | None
) -> Value | None:
    base = _resolve(annotation.value, inference, frame, function)
    name = base.rpartition(".")[2] if isinstance(base, str) else ""
    inner = annotation.slice
    if name == "Optional":
        return annotated(inner, inference, frame, function)
    is_described = name == "Annotated" or (isinstance(base, str) and base.startswith("jaxtyping."))
    if is_described and isinstance(inner, ast.Tuple) and inner.elts:
        return annotated(inner.elts[0], inference, frame, function)
    if name == "Union" and isinstance(inner, ast.Tuple):
        return _one_of(inner.elts, inference, frame, function)
    if name == "DataLoader":
        return conventional("loader", UNKNOWN)
    if name in ("list", "List", "Sequence", "Iterable", "set", "Set", "Iterator"):
        return container(annotated(inner, inference, frame, function))
    if name in ("tuple", "Tuple") and isinstance(inner, ast.Tuple):
        if len(inner.elts) == 2 and isinstance(inner.elts[1], ast.Constant) and inner.elts[1].value is ...:
            return container(annotated(inner.elts[0], inference, frame, function) or UNKNOWN, ref="tuple")
        parts = [annotated(part, inference, frame, function) or UNKNOWN for part in inner.elts]
        return container(join_all(parts), list(enumerate(parts)), "tuple")
    if name in ("dict", "Dict", "Mapping") and isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
        return container(annotated(inner.elts[1], inference, frame, function), ref="dict")
    return None


def _resolve(
    annotation: ast.expr, inference: ValueQuestions, frame: Frame | None, function: FunctionInfo | None
) -> str | Value | None:
    """The qualified name of a class in an annotation, or an instance of a class of this file."""
    parts: list[str] = []
    node = annotation
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    value: Value | None = frame.env.get(node.id) if frame is not None else None
    inner = function if function is not None or frame is None else frame.function
    outer = inner if inner is None or inner.is_module else inner.outer
    if value is None:
        while outer is not None and value is None:
            value = inference.at_end(outer, node.id)
            outer = outer.outer
    if value is None:
        value = inference.names.late(node.id)
    if value is None:
        return node.id if node.id in _ANNOTATED else "builtins." + node.id
    if value.kind is Kind.CLASS and value.cls is not None:
        return conventional("loader", UNKNOWN) if "DataLoader" in value.cls.name else inference.instance(value.cls)
    if value.kind is Kind.LIBRARY and value.ref is not None:
        if parts and inference.program is not None:
            meant = inference.names.imported(".".join([value.ref, *reversed(parts)]))
            if meant.kind is Kind.CLASS and meant.cls is not None:
                return inference.instance(meant.cls)
        return frameworks.canonical(".".join([value.ref, *reversed(parts)]))
    return None
