"""Data flow of loaders: how their batches get to the accelerator, and what kind of dataset they read."""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import loading
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.accelerator_tests import asks_about_accelerator
from torchperf_lint.model.domain.loaders import Route, Samples
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.model.loaders.datasets import Making, places_on_device
from torchperf_lint.model.loaders.made_up import MadeUp
from torchperf_lint.model.loaders.single_calls import (
    Following,
    all_sources,
    destination,
    given_in,
    is_moving_helper,
    moved_sources,
)
from torchperf_lint.model.syntax.code import Vocabulary
from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, dotted, last_name
from torchperf_lint.model.values.loader_classes import building_call, collate_of
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model.domain.interfaces import LoaderQuestions, ValueQuestions
    from torchperf_lint.model.loaders.single_calls import Move, Seen
    from torchperf_lint.model.project.dependencies import DependencyRecorder, Memo
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.syntax.index import ClassInfo, Index

_MOVERS = ("to", "cuda")
_OTHER_ACCELERATORS = ("mps", "hpu", "xla")
_ELSEWHERE = {
    "accelerator": ("cpu", "mps", "tpu"),
    **dict.fromkeys(("cpu", "use_cpu", "no_cuda", "use_mps_device"), (True,)),
}


class Loading:
    """Queries about the loaders of one file; results that need a walk through the file are computed on first use.

    A loader is identified by the call that builds it, in any file. Each file reports the routes in it, for its own
    loaders and for those that reach it from others.
    """

    def __init__(self, inference: ValueQuestions, code: Code, recorder: DependencyRecorder) -> None:
        self._inference = inference
        self._code = code
        self._recorder = recorder
        self._needing: Memo[None, bool] = recorder.memo()
        self._found: Memo[None, dict[ast.Call, Route]] = recorder.memo()

    @property
    def index(self) -> Index:
        """The file."""
        return self._inference.index

    # -- routes --------------------------------------------------------------------------------------------------

    def route(self, loader: ast.Call) -> Route | None:
        """Evidence that batches of the loader built by this call go to an accelerator by copies from pinned memory.

        This file is searched first, then the files that the loader may reach.
        """
        own = self.routes_here.get(loader)
        if own is not None or self.runs_elsewhere:
            return own if own is None or own.owner is None else self._shown_alone(loader, own)
        for other in self._others(loader):
            route = other.routes_here.get(loader)
            if route is not None:
                path = other.index.path
                because = tuple(step if step.path is not None else step._replace(path=path) for step in route.because)
                route = route._replace(because=because, certain=route.certain and self._needs_cuda)
                return self._shown_alone(loader, route)
        return next((self._along(move) for move in self._moves(loader)), None)

    def _shown_alone(self, loader: ast.Call, route: Route) -> Route | None:
        """The route, unless it is one of other objects of the same family.

        A method of the base hands over the batches of all subclasses, each to the overriding methods of its own.
        """
        start = self._builder(loader)
        if route.owner is None or start is None or start.cls is None:
            return route
        lineage = self._inference.lineage
        if set(lineage(start.cls)).isdisjoint(lineage(route.owner)):
            return route
        following = Following(self._inference, loader, start)
        move = next(self._on_cuda(following), None)
        if move is not None:
            return self._along(move)._replace(blocks=route.blocks)
        is_alone = following.is_complete and next(self.handed_on_beyond(loader, start), None) is None
        return None if is_alone else route

    def _moves(self, loader: ast.Call) -> Iterator[Move]:
        """The calls that move batches of the loader by what single calls show."""
        seen: set[Seen] = set()
        for function in self._stops(loader):
            if len(seen) > bounds.MOST_SINGLE_CALLS:
                return
            yield from self._on_cuda(Following(self._inference, loader, function, seen))

    def _on_cuda(self, following: Following) -> Iterator[Move]:
        for move in following.moves:
            files = {record.function.index for record in (move.record, *move.way)}
            if not any(self._there(index).runs_elsewhere for index in files):
                yield move

    def _along(self, move: Move) -> Route:
        route = self._there(move.record.function.index).moved_by(move.record, move.device)
        because = [*route.because, *map(_handing, move.way)]
        records = (move.record, *move.way)
        steps = zip(because, (record.function.index for record in records), strict=True)
        shown = tuple(step if index is self.index else step._replace(path=index.path) for step, index in steps)
        return route._replace(because=shown, certain=route.certain and self._needs_cuda)

    def _there(self, index: Index) -> LoaderQuestions:
        program = self._inference.program
        return self if program is None or index is self._inference.index else program.file_of(index).loading

    @property
    def routes_here(self) -> dict[ast.Call, Route]:
        """The routes in this file."""
        return self._recorder.kept(self._found, None, self._find_routes)

    def _find_routes(self) -> dict[ast.Call, Route]:
        routes: dict[ast.Call, Route] = {}
        if not self.runs_elsewhere:
            for route, sources in self._steps():
                for source in sources:
                    known = routes.get(source)
                    chosen = route if known is None or (route.explicit and not known.explicit) else known
                    # What Accelerate moves is on the device even if the program's training loop moves it again.
                    blocks = route.blocks or (known is not None and known.blocks)
                    routes[source] = chosen._replace(
                        blocks=blocks, waits=route.waits and (known is None or known.waits)
                    )
        return routes

    def files(self, loader: ast.Call) -> Iterator[Index]:
        """The files that the loader built by this call reaches, this one first."""
        yield self._inference.index
        yield from (other.index for other in self._others(loader))

    def _others(self, loader: ast.Call) -> Iterator[LoaderQuestions]:
        """The other files that this file's loader reaches, the nearest first."""
        program, files = self._inference.program, {self._inference.index}
        for function in self._stops(loader):
            if function.index not in files and program is not None:
                files.add(function.index)
                yield program.file_of(function.index).loading

    def _stops(self, loader: ast.Call) -> Iterator[FunctionInfo]:
        """The functions that this file's loader reaches, the nearest first."""
        start = self._builder(loader)
        if start is None:
            return
        pending, seen = [start], {start}
        while pending:
            function = pending.pop(0)
            yield function
            for further in self._there(function.index).handed_on(loader, function):
                if further not in seen and len(seen) < bounds.MOST_STOPS:
                    seen.add(further)
                    pending.append(further)

    def handed_on(self, loader: ast.Call, function: FunctionInfo) -> Iterator[FunctionInfo]:
        """The functions that receive the loader from this function, which is in this file."""
        if self.runs_elsewhere:
            return
        inference = self._inference
        for record in function.calls_made:
            if loader in self._given(record):
                callee = inference.frame_value(record.function, record.call.func)
                if callee.function is not None:
                    yield callee.function
                elif callee.cls is not None:
                    yield from (method for owner in inference.lineage(callee.cls) for method in owner.methods.values())
        yield from self.handed_on_beyond(loader, function)

    def handed_on_beyond(self, loader: ast.Call, function: FunctionInfo) -> Iterator[FunctionInfo]:
        """The functions that get the loader by no call of this one: as a result, an attribute or a shared name."""
        inference = self._inference
        frame = inference.frame(function)
        if loader in all_sources([*frame.returns, *frame.yields]):
            yield from (record.function for record in inference.callers(function))
        if self._is_kept(loader, function):
            assert function.cls is not None
            yield from function.cls.methods.values()
            yield from self._making(function.cls)
        own = None if function.cls is None else building_call(inference, function.cls)
        if function.cls is not None and own is not None and own.call is loader:
            yield from self._making(function.cls)
            for heir in () if inference.program is None else inference.program.heirs(function.cls):
                yield from self._making(heir)
        is_module = function is inference.index.module
        if loader in all_sources(inference.names.all_at_top() if is_module else frame.env.values()):
            yield from (inner for inner in inference.index.functions if inner.outer is function)
            if is_module and inference.program is not None:
                for analyzed in inference.program.neighbours(inference.index):
                    if loader in all_sources(analyzed.inference().names.all_at_top()):
                        yield analyzed.index.module

    def _making(self, cls: ClassInfo) -> Iterator[FunctionInfo]:
        """The functions that make objects of the class."""
        made = self._inference.method(cls, "__init__")
        yield from () if made is None else (record.function for record in self._inference.callers(made))

    def _is_kept(self, loader: ast.Call, function: FunctionInfo) -> bool:
        """Whether the function stores the loader in an attribute of its object."""
        stores = () if function.cls is None else function.cls.attributes.values()
        own = [store.target for stored in stores for store in stored if store.function is function]
        return loader in all_sources(self._inference.frame_value(function, target) for target in own)

    def _homes(self, value: Value) -> list[Index]:
        """The files that contain the code of a function, or of a class and its bases."""
        if value.function is not None:
            return [value.function.index]
        return [] if value.cls is None else [owner.index for owner in self._inference.lineage(value.cls)]

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file names only accelerators that do not copy from pinned memory, or forces the CPU."""
        if _names_other_accelerator(self._code) and not self._code.speaks_of("cuda", "current_accelerator"):
            return True
        if frameworks.trains_on_cpu(self._code):
            return True
        owners = ("Trainer", "Accelerator", "Fabric", *(ref.rpartition(".")[2] for ref in loading.TRAINING_ARGUMENTS))
        for record in (record for name in owners for record in self._inference.index.calls.get(name, ())):
            for keyword in record.call.keywords:
                constant = getattr(keyword.value, "value", None)
                if isinstance(constant, (str, bool)) and constant in _ELSEWHERE.get(keyword.arg or "", ()):
                    return True
        return False

    def _steps(self) -> Iterator[tuple[Route, tuple[ast.Call, ...]]]:
        records = self._inference.index.calls
        for name in ("to", "cuda"):
            for record in records.get(name, ()):
                yield from self._moved(record)
        for name, owner in loading.LOADER_TAKERS.items():
            for record in records.get(name, ()):
                if self._is_owner(record, owner):
                    step = Because(record.call.lineno, f"`{owner}.{name}` has its batches moved to the device")
                    route = self._by_framework(step)
                    blocks = owner == "accelerator" and not self._accelerate_goes_on()
                    yield route._replace(blocks=blocks), self._given(record)
        for name, found in records.items():
            if re.search(loading.MOVING_HELPERS, name):
                for record in found:
                    if is_moving_helper(record.call, partial(self._inference.frame_value, record.function)):
                        yield self.moved_by(record, Device.LIKELY), self._given(record)
        yield from self._hooks()

    def _accelerate_goes_on(self) -> bool:
        """Whether Accelerate is configured for non-blocking copies, or not to place batches on the device."""
        calls = self._inference.index.calls
        configured = [*calls.get("DataLoaderConfiguration", ()), *calls.get("Accelerator", ())]
        arguments = {keyword.arg for record in configured for keyword in record.call.keywords}
        return not arguments.isdisjoint(("non_blocking", "device_placement"))

    def _by_framework(self, step: Because) -> Route:
        return Route((step,), False, False, self._code)

    def _moved(self, record: CallRecord) -> Iterator[tuple[Route, tuple[ast.Call, ...]]]:
        """`batch.to(device)` and `batch.cuda()` of a batch, or a part of one, that is on the host."""
        sources = moved_sources(record.call, partial(self._inference.frame_value, record.function))
        if sources:
            values = self._inference.frame(record.function).values
            device = destination(record.call, lambda node: values.get(node, UNKNOWN))
            if device is not None:
                yield self.moved_by(record, device), sources

    def moved_by(self, record: CallRecord, device: Device) -> Route:
        """The route of batches that this call of the file moves there."""
        name = last_name(record.call.func)
        text = {"to": ".to(...)", "cuda": ".cuda()"}.get(name or "", f"{name}(...)")
        step = Because(record.call.lineno, f"its batches are moved to the device by `{text}`")
        certain = device is Device.CUDA and self._needs_cuda
        waits = name in _MOVERS and not _may_go_on(record.call)
        return Route((step,), True, certain, self._code, owner=record.function.cls, waits=waits)

    @property
    def _needs_cuda(self) -> bool:
        """Whether the file never tests if there is an accelerator."""
        return self._recorder.kept(self._needing, None, self._never_tests)

    def _never_tests(self) -> bool:
        if self._code.names("is_available"):
            return False
        statements = self._inference.index.places
        return not any(isinstance(s, ast.If) and asks_about_accelerator(s.test) for s in statements)

    def _is_owner(self, record: CallRecord, owner: str) -> bool:
        func = record.call.func
        if not isinstance(func, ast.Attribute):
            return False
        value = self._inference.frame_value(record.function, func.value)
        if value.kind is Kind.INSTANCE and value.ref is not None:
            root, _, name = value.ref.rpartition(".")
            return name.lower() == owner and (owner != "trainer" or root.startswith("lightning."))
        # An unknown `trainer` may be any object; the names `accelerator` and `fabric` are unambiguous.
        return owner != "trainer" and (last_name(func.value) or "").lower() == owner

    def _given(self, record: CallRecord) -> tuple[ast.Call, ...]:
        values = self._inference.frame(record.function).values
        return all_sources([values.get(node, UNKNOWN) for node in given_in(record.call)])

    def _hooks(self) -> Iterator[tuple[Route, tuple[ast.Call, ...]]]:
        for function in self._inference.index.functions:
            hook = loading.DATALOADER_HOOKS.get(function.name)
            if hook is None or function.cls is None:
                continue
            framework, ending = hook
            bases = self._inference.library_bases(function.cls)
            if any(base.endswith(ending) for base in bases) or (
                framework == "Lightning" and frameworks.is_lightning_module(self._inference, function.cls)
            ):
                step = Because(_row(function), f"{framework} asks `{function.name}` for a loader and moves its batches")
                yield self._by_framework(step), all_sources(self._inference.frame(function).returns)

    # -- samples -------------------------------------------------------------------------------------------------

    def samples(self, loader: ast.Call, function: FunctionInfo) -> Samples:
        """What is known of the samples that the loader, built in `function`, reads."""
        values = self._inference.frame(function).values
        keywords = {keyword.arg: keyword.value for keyword in loader.keywords if keyword.arg}
        node = loader.args[0] if loader.args else keywords.get("dataset")
        dataset = UNKNOWN if node is None else values.get(node, UNKNOWN)
        made = values.get(loader.func, UNKNOWN)
        collate = collate_of(self._inference, loader, function, made.cls if made.kind is Kind.CLASS else None)
        collating = UNKNOWN if collate is None else self._inference.frame_value(collate[1], collate[0])
        files = tuple(self._files([dataset, collating]))
        placed = collate is not None and _collates_on_device(collate[0], collating)
        return Samples(
            self._in_memory(dataset),
            collate is not None or self._takes_work(dataset),
            self._has_no_tensors(dataset),
            self._unsharded(dataset, files),
            False if placed or any(map(_places_by_default, files)) else self._on_host(dataset, node, function),
            None if node is None else MadeUp(self._inference).shown(dataset, node, function),
            files,
        )

    def _files(self, values: Iterable[Value]) -> Iterator[Code]:
        """This file and those that contain the code of these values."""
        yield self._code
        program = self._inference.program
        for index in dict.fromkeys(index for value in values for index in self._homes(value)):
            if program is not None and index is not self._inference.index:
                yield program.file_of(index).code

    def _in_memory(self, dataset: Value) -> bool:
        if dataset.kind in (Kind.CONTAINER, Kind.NUMPY, Kind.STRING) or dataset.holds_tensors:
            return True
        if dataset.cls is None:
            return (dataset.ref or "").startswith(loading.IN_MEMORY_DATASETS)
        reading = self._inference.method(dataset.cls, "__getitem__")
        return reading is not None and all(
            last_name(record.call.func) in loading.CHEAP_CALLS for record in reading.calls_made
        )

    def _takes_work(self, dataset: Value) -> bool:
        """Whether samples take work: a library's dataset of files, or a `__getitem__` with more than cheap calls."""
        if dataset.kind is Kind.CONTAINER and dataset.element is not None:
            return self._takes_work(dataset.element)
        if dataset.cls is None:
            return (dataset.ref or "").startswith(loading.HOST_DATASETS)
        return self._inference.method(dataset.cls, "__getitem__") is not None and not self._in_memory(dataset)

    def _has_no_tensors(self, dataset: Value) -> bool:
        """An empty list or one of strings, or a `__getitem__` that returns only the index and fixed attributes."""
        if dataset.kind is Kind.CONTAINER:
            return dataset.items == () or (dataset.element is not None and dataset.element.kind is Kind.STRING)
        reading = None if dataset.cls is None else self._inference.method(dataset.cls, "__getitem__")
        if reading is None or reading.calls_made:
            return False
        return not any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) for n in subtree(reading.node))

    def _unsharded(self, dataset: Value, files: tuple[Code, ...]) -> bool:
        if any(code.names("get_worker_info") for code in files):
            return False
        if dataset.cls is None:
            return "Iterable" in (dataset.ref or "")
        return self._inference.method(dataset.cls, "__iter__") is not None

    def _on_host(self, dataset: Value, node: ast.expr | None, function: FunctionInfo) -> bool | None:
        if self._may_be_placed(dataset, node is not None and _lists_new_objects(node)):
            return False
        return True if node is not None and Making(self._inference).is_on_host(node, function) else None

    def _may_be_placed(self, dataset: Value, is_new: bool = False) -> bool:
        """Whether there is evidence that samples of the dataset may be on the accelerator.

        Nobody has called a method of new objects that moves them.
        """
        if dataset.kind is Kind.CONTAINER:
            return dataset.element is not None and self._may_be_placed(dataset.element, is_new)
        if dataset.device.on_accelerator and dataset.kind is not Kind.METHOD:
            return True  # (an unknown attribute of a module counts as being on the module's device)
        lineage = [] if dataset.cls is None else self._inference.lineage(dataset.cls)
        methods = [
            each for owner in lineage for name, each in owner.methods.items() if not is_new or name not in _MOVERS
        ]
        if any(places_on_device(each.node) for each in (methods if is_new else lineage)):
            return True
        return any(value.device.on_accelerator for value in self._made_of(dataset))

    def _made_of(self, dataset: Value) -> list[Value]:
        """The values of the dataset's constructor arguments."""
        made = dataset.created
        function = None if made is None else self._builder(made)
        if made is None or function is None:
            return []
        values = self._inference.frame(function).values
        nodes = [*made.args, *(keyword.value for keyword in made.keywords)]
        return [values.get(node, UNKNOWN) for node in nodes]

    def _builder(self, made: ast.Call) -> FunctionInfo | None:
        """The function that contains the call: in this file or its neighbours."""
        program, name = self._inference.program, last_name(made.func) or ""
        around = [] if program is None else program.neighbours(self._inference.index)
        for index in (self._inference.index, *(analyzed.index for analyzed in around)):
            for record in index.calls.get(name, ()):
                if record.call is made:
                    caller: FunctionInfo = record.function
                    return caller
        return None


def _lists_new_objects(node: ast.expr) -> bool:
    """Whether a list is written out whose elements calls make, none of which moves them: `[Data(x) for x in xs]`."""
    made = [node.elt] if isinstance(node, ast.ListComp) else node.elts if isinstance(node, ast.List) else []
    return bool(made) and all(isinstance(each, ast.Call) and last_name(each.func) not in _MOVERS for each in made)


def _names_other_accelerator(code: Code) -> bool:
    """`import torch_xla`, `torch.device("mps")`."""
    return code.names("torch_xla") or any(
        isinstance(each, ast.Constant) and str(each.value).partition(":")[0] in _OTHER_ACCELERATORS
        for record in code.index.calls_named("device")
        for each in record.call.args[:1]
    )


def _places_by_default(code: Code) -> bool:
    """Whether the file makes new tensors, or a dataset's samples, on a device without naming it there."""
    if code.calls("set_default_device"):
        return True
    types = (each for record in code.index.calls_named("set_default_tensor_type") for each in record.call.args)
    if any(Vocabulary(each).speaks_of("cuda", "CUDA") for each in types):
        return True
    formats = [*code.index.calls_named("with_format"), *code.index.calls_named("set_format")]
    return any(Vocabulary(record.call).speaks_of("device") for record in formats)


def _collates_on_device(collate: ast.expr, value: Value) -> bool:
    owner: FunctionInfo | ClassInfo | None = value.function or value.cls
    return places_on_device(collate if owner is None else owner.node)


def _may_go_on(move: ast.Call) -> bool:
    """Whether a move may be told not to wait: by name, by what is spread, or by a number that is no dtype."""
    flags = [keyword.value for keyword in move.keywords if keyword.arg in (None, "non_blocking")]
    flags += (each for each in move.args[1:] if not (dotted(each) or "").startswith("torch."))
    return not all(isinstance(flag, ast.Constant) and not flag.value for flag in flags)


def _handing(record: CallRecord) -> Because:
    return Because(record.call.lineno, f"`{last_name(record.call.func)}(...)` gets the loader, or its batches, here")


def _row(function: FunctionInfo) -> int:
    return function.body[0].lineno if function.is_module else function.row
