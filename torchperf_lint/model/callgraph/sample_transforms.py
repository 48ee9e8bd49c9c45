"""Modules that a dataset takes as its transforms: they run for each sample, on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import hooks, loading
from torchperf_lint.model.callgraph import registries
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index

_ON_DEVICE = "on_after_batch_transfer"
"""The hook in which a data module applies transforms on the device."""


def are(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether datasets or data modules take objects of the class as transforms of their samples.

    One of them declares that it takes such a class, or is made with an object of it, and no other object is called.
    """
    made = list(_made(inference, cls))
    if any(_is_called(home.index, record) for home, record in made):
        return False
    return any(_is_declared(inference, each) for each in inference.lineage(cls)) or any(
        _takes(home, *each) for home, record in made for each in _given_to(home.index, record)
    )


def _is_declared(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether a dataset has a parameter for transforms that is annotated with the class: `transforms: list[Noise]`."""
    program = inference.program
    if program is None:
        return cls.index is inference.index and _declares(inference, cls)
    files = (cls.index, *(file.index for file in program.reading_samples(cls)))
    return any(_declares(program.inference(index), cls) for index in files)


def _declares(inference: ValueQuestions, cls: ClassInfo) -> bool:
    index = inference.index
    index.reads.mentions(cls.name)
    if cls.name not in index.note("named by transforms", lambda: index.reads.unheard(lambda: _named_by(index))):
        return False
    classes = finding.classes_by_head(index)
    return any(
        _is_annotated(inference, parameter, cls) and any(_gives_samples(inference, heir, each) for heir in classes)
        for each in classes
        for parameter in _transforms(each)
    )


def _named_by(index: Index) -> set[str | None]:
    """The names in the annotations of all parameters for transforms."""
    return {
        last_name(node)
        for cls in index.all_classes
        for parameter in _transforms(cls)
        if parameter.annotation is not None
        for node in subtree(parameter.annotation)
        if _is_name(node)
    }


def _transforms(cls: ClassInfo) -> Iterator[ast.arg]:
    """The parameters of its methods that are for transforms, by their names."""
    for method in cls.methods.values():
        for parameter in [] if method.arguments is None else [*method.arguments.args, *method.arguments.kwonlyargs]:
            if loading.TRANSFORMS.search(parameter.arg):
                yield parameter


def _is_annotated(inference: ValueQuestions, parameter: ast.arg, cls: ClassInfo) -> bool:
    named = [] if parameter.annotation is None else subtree(parameter.annotation)
    return any(last_name(each) == cls.name and _means(inference, each, cls) for each in named if _is_name(each))


def _is_name(node: ast.AST) -> TypeGuard[ast.expr]:
    return isinstance(node, (ast.Name, ast.Attribute))


def _means(inference: ValueQuestions, node: ast.expr, cls: ClassInfo) -> bool:
    if inference.program is None:
        return isinstance(node, ast.Name) and inference.exports.meanings.get(node.id) is cls
    return registries.meaning_of(inference.program, inference.index, node) is cls


def _gives_samples(inference: ValueQuestions, cls: ClassInfo, base: ClassInfo | None = None) -> bool:
    """Whether the class, which has that base if one is given, is a dataset or a data module."""
    if base is not None and base is not cls and base not in inference.lineage(cls):
        return False
    cls.index.reads.mentions(cls.name)
    if inference.method(cls, _ON_DEVICE) is not None:
        return False
    if any(ref.endswith(loading.SAMPLE_BASES) for ref in inference.base_names(cls)):
        return True
    is_called = any(inference.method(cls, name) is not None for name in ("__call__", "forward"))
    is_module = any(ref.rpartition(".")[2] in hooks.MODULE_BASES for ref in inference.library_bases(cls))
    has_items = all(inference.method(cls, name) is not None for name in ("__getitem__", "__len__"))
    return has_items and not is_called and not is_module


# -- objects -----------------------------------------------------------------------------------------------------------


def _made(inference: ValueQuestions, cls: ClassInfo) -> Iterator[tuple[ValueQuestions, CallRecord]]:
    """The calls that make objects of the class, each with its file."""
    homes = [inference.home(cls.index)]
    if inference.program is not None:
        homes += [file.inference() for file in inference.program.calling_class(cls)]
    for home in homes:
        for record in home.index.calls.get(cls.name, ()):
            if home.frame_value(record.function, record.call.func).cls is cls:
                yield home, record


def _is_called(index: Index, record: CallRecord) -> bool:
    """Whether an object is called where it is made, or by a name that it gets: `self.noise = Noise()`."""
    outer, parents = record.function.parents[record.call], record.function.parents
    if isinstance(outer, ast.Call):
        return outer.func is record.call
    outer = parents[outer] if isinstance(outer, ast.Tuple) else outer
    targets = outer.targets if isinstance(outer, ast.Assign) else []
    names = {last_name(each) for target in targets for each in subtree(target) if _is_name(each)} - {None}
    return any(index.calls.get(name) for name in sorted(filter(None, names)))


def _given_to(index: Index, record: CallRecord) -> Iterator[tuple[ast.Call, ast.AST, FunctionInfo]]:
    """The calls that receive what a call makes, each with the argument; alone, in a list, in a pipeline or by name."""
    function, node = record.function, record.call
    parents = function.parents
    inner: ast.AST = node
    while (outer := parents.get(inner)) is not None and not isinstance(outer, ast.stmt):
        if isinstance(outer, ast.Call) and last_name(outer.func) not in loading.PIPELINES:
            yield outer, inner, function
            return
        inner = outer
    if isinstance(outer, ast.Assign):
        for name in filter(None, map(last_name, outer.targets)):
            for taker in index.handed.get(name, ()):
                given = [*taker.call.args, *taker.call.keywords]
                if taker.function is function:
                    yield from ((taker.call, each, function) for each in given if _names(each, name))


def _names(given: ast.AST, name: str) -> bool:
    return last_name(given.value if isinstance(given, ast.keyword) else given) == name  # type: ignore[arg-type]


def _takes(inference: ValueQuestions, call: ast.Call, given: ast.AST, function: FunctionInfo) -> bool:
    """Whether the call makes a dataset that takes the argument as a transform."""
    if given is call.func:
        return False
    callee = inference.frame_value(function, call.func)
    name = given.arg if isinstance(given, ast.keyword) else None
    if callee.cls is not None and callee.kind is Kind.CLASS:
        made = inference.method(callee.cls, "__init__")
        if name is None and made is not None and given in call.args:
            name = next(iter(made.parameter_names[1 + call.args.index(given) :]), None)
        is_dataset = _gives_samples(inference, callee.cls)
    else:
        ref = callee.ref or ""
        is_dataset = ref.endswith(loading.SAMPLE_BASES) or ref.startswith(loading.HOST_DATASETS)
    return is_dataset and name is not None and loading.TRANSFORMS.search(name) is not None
