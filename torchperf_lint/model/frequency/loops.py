"""Classifies loops: those that take a batch per pass, those over epochs, and others."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import conventions
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import hierarchy
from torchperf_lint.model.domain.frequency import Loop, LoopInfo, LoopKind
from torchperf_lint.model.domain.values import Kind, Registry
from torchperf_lint.model.frequency import called_on_batches, comprehensions, drawn_batches, inference_loops, rollouts
from torchperf_lint.model.frequency.generators import moved_by, taking, yielding
from torchperf_lint.model.frequency.loop_bodies import (
    call_text,
    counts,
    evaluates_between_steps,
    is_name,
    loader_text,
    made_from,
    made_of_item,
    names_batches,
    names_given,
    names_model,
    nexts,
    searches,
    speaks_of_dataset,
    step_loop,
    trains,
)
from torchperf_lint.model.frequency.sampling_guards import names_training_period, names_turn
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import FunctionInfo, dotted, last_name
from torchperf_lint.model.syntax.iterables import counted, is_listed, split_whole, stride, walked
from torchperf_lint.model.values.batches import as_batches, items_moved, moved_in_loops
from torchperf_lint.model.values.tensors import element_of
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import LoopQuestions, ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.project.dependencies import DependencyRecorder, Memo
    from torchperf_lint.model.syntax.index import CallRecord, Index


_BATCH_SIZE = re.compile(r"(?:^|_)(?:batch_?size|bs|bsz|b_size)$", re.IGNORECASE)
_STEP_RECEIVERS = (Kind.OPTIMIZER, Kind.SCALER)
_BACKWARD = frozenset({"backward", "manual_backward"})
_STEP = frozenset({"step", "train_step", "training_step"})


class Loops:
    """Classifies the loops of one file on demand."""

    def __init__(self, inference: ValueQuestions, loader_names: tuple[str, ...], recorder: DependencyRecorder) -> None:
        self.inference = inference
        self.loader_names = loader_names
        self._recorder = recorder
        self._known: Memo[ast.stmt, LoopInfo] = recorder.memo()
        self._alone: Memo[ast.stmt, LoopInfo] = recorder.memo()
        self._stepping: Memo[None, frozenset[str]] = recorder.memo()
        self._training: Memo[FunctionInfo, list[tuple[CallRecord, Loop | None]]] = recorder.memo()

    def enclosing(self, statement: ast.stmt) -> list[Loop]:
        """The loops of the same function around a statement, innermost first."""
        return enclosing(statement, self.inference.index)

    def classify(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        """The kind of the loop."""
        return self._recorder.kept(self._known, loop, lambda: self._classify(loop, function))

    def by_itself(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        """The kind of the loop, whatever takes the items that it yields."""
        return self._recorder.kept(self._alone, loop, lambda: self._by_itself(loop, function))

    def _classify(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        info = self.by_itself(loop, function)
        if info.kind is not LoopKind.OTHER or loop not in yielding(function):
            return info
        for taking_it, owner in taking(self.inference, function):
            taker = self._home(owner).by_itself(taking_it, owner)
            if taker.kind is LoopKind.BATCH:
                says = f"each pass yields one item of `{function.name}` to another loop"
                step = Because(taking_it.lineno, taker.says, owner.path)
                return LoopInfo(LoopKind.BATCH, says, taker.trains, taker.is_rollout, because=(step, *taker.because))
        return info

    def _by_itself(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        if isinstance(loop.body[-1], ast.Break) or searches(loop):
            return LoopInfo(LoopKind.OTHER, "", False)  # one pass, or a few, then it ends
        training = [record for record, innermost in self._training_calls(function) if innermost is loop]
        tries = not isinstance(loop, ast.While) and is_listed(loop.iter, function)
        # `for make in [resnet18, resnet50]: make()(x).sum().backward()` tries each once; it trains none.
        if training and not (tries and all(last_name(each.call.func) in _BACKWARD for each in training)):
            called = call_text(training[0])
            return LoopInfo(LoopKind.BATCH, f"this loop trains: it calls `{called}` in every pass", True)
        stepped = rollouts.stepped_in(loop, function)
        if stepped is not None:
            says = f"this loop steps an environment: it calls `{call_text(stepped)}` in every pass"
            return LoopInfo(LoopKind.BATCH, says, False, is_rollout=True)
        taken = self._taken_by_next(loop, function) or drawn_batches.drawn_from(self.inference, loop, function)
        if taken is not None:
            return LoopInfo(LoopKind.BATCH, f"this loop takes a batch per pass from `{taken}`", False)
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            loader = self.loader_in(loop.iter, function) or self._named_iterator(loop.iter, function)
            if loader is not None:
                return LoopInfo(LoopKind.BATCH, f"this loop takes a batch per pass from `{loader}`", False)
            if self._evaluates(loop, function):
                return LoopInfo(LoopKind.BATCH, "this loop runs the model on one item per pass", False)
            if self._moves_batches(loop, function):
                return LoopInfo(LoopKind.BATCH, "this loop moves one item per pass to the device, for the model", False)
            generated = moved_by(self.inference, loop, function) if names_batches(loop.iter) else None
            if generated is not None:
                return LoopInfo(LoopKind.BATCH, f"this loop takes a batch per pass from `{generated}`", False)
            indexed = self._indexed(loop, function)
            if indexed is not None:
                return LoopInfo(LoopKind.BATCH, f"this loop runs the model on one item of `{indexed}` per pass", False)
            cut = self._cuts_batches(loop, function)
            if cut is not None:
                return LoopInfo(LoopKind.BATCH, f"this loop cuts `{cut}` into batches", False)
            if self._runs_in_batches(loop, function):
                return LoopInfo(LoopKind.BATCH, "this loop runs the model on one batch per pass", False)
        if self._holds_batches(loop, function):
            return LoopInfo(LoopKind.EPOCH, "", False)
        for record in inference_loops.about_items(loop, function):
            if self._runs_model(record, loop, function) or inference_loops.runs_part(self.inference, record, function):
                says = f"this loop runs `{call_text(record)}` for each item"
                return LoopInfo(LoopKind.OTHER, says, False, infers=True)
        for record in inference_loops.fed_back(loop, function):
            if inference_loops.differentiates(self.inference, record, loop, function):
                says = f"this loop differentiates in every pass: it calls `{call_text(record)}`"
                return LoopInfo(LoopKind.BATCH, says, True)
            if self._runs_any_model(record, loop, function) or inference_loops.runs_again(
                self.inference, record, function
            ):
                says = f"this loop runs `{call_text(record)}` on what an earlier pass made"
                return LoopInfo(LoopKind.OTHER, says, False, infers=True)
        return LoopInfo(LoopKind.OTHER, "", False)

    def _holds_batches(self, loop: Loop, function: FunctionInfo) -> bool:
        """Whether a loop over batches is inside this one."""
        return any(
            self.classify(inner, owner).kind is LoopKind.BATCH
            for inner, owner in finding.loops_in(function)
            if inner is not loop and loop in self.enclosing(inner)
        )

    def loader_in(self, iterable: ast.expr, function: FunctionInfo) -> str | None:
        """The text of the loader that an iterable iterates over, through enumerate, tqdm, zip and the like."""
        called = last_name(iterable.func) if isinstance(iterable, ast.Call) else None
        if isinstance(iterable, ast.Call) and called in ("range", "len", "trange", "next"):
            return self._counted(iterable, function) if called == "range" else None
        value = self.inference.frame_value(function, iterable)
        if value.kind is Kind.LOADER or (value.cls is not None and "DataLoader" in value.cls.name):
            return loader_text(iterable)
        name = last_name(iterable)
        if name is not None and name in self.loader_names:
            return name
        if isinstance(iterable, ast.IfExp):
            return self.loader_in(iterable.body, function) or self.loader_in(iterable.orelse, function)
        if isinstance(iterable, ast.Call):
            if isinstance(iterable.func, ast.Attribute) and called in ("items", "values", "keys"):
                return None
            if value.kind is Kind.UNKNOWN and conventions.GIVES_BATCHES.search(called or ""):
                return loader_text(iterable.func)
            given = [*iterable.args, *(keyword.value for keyword in iterable.keywords)]
            wrapper = called in conventions.LOADER_WRAPPERS or value.kind is not Kind.CONTAINER
            for argument in given if wrapper else ():
                found = self.loader_in(argument, function)
                if found is not None:
                    return found
        return None

    def _named_iterator(self, iterable: ast.expr, function: FunctionInfo) -> str | None:
        """`train_iter` of `for batch in train_iter`, also under `enumerate` and a progress bar."""
        iterable = walked(iterable)
        name = last_name(iterable) or ""
        if not isinstance(iterable, (ast.Name, ast.Attribute)) or not conventions.BATCH_ITERATORS.search(name):
            return None
        value = self.inference.frame_value(function, iterable)
        return name if value.kind in (Kind.UNKNOWN, Kind.METHOD) and value.function is None else None

    def _counted(self, iterable: ast.Call, function: FunctionInfo) -> str | None:
        """`range(len(loader))` counts batches."""
        for argument in iterable.args:
            if isinstance(argument, ast.Call) and last_name(argument.func) == "len" and argument.args:
                return self.loader_in(argument.args[0], function)
        return None

    def _taken_by_next(self, loop: Loop, function: FunctionInfo) -> str | None:
        """`for step in range(n): batch = next(batches)`: the text of the iterator over a loader; None without one."""
        if not isinstance(loop, ast.While) and not counts(loop):
            return None
        for record, iterator in nexts(function):
            if step_loop(record) is not loop or any(True for _ in record.place.tests(loop)):
                continue
            value = self.inference.frame_value(function, iterator)
            gives_batches = value.element is not None and bool(value.element.sources)
            name = last_name(iterator) or ""
            named = any(each.search(name) for each in (conventions.BATCH_ITERATORS, conventions.GIVES_BATCHES))
            if gives_batches or (not named and self.loader_in(iterator, function) is not None):
                return dotted(iterator) or "the loader"
            if named and value.kind is Kind.UNKNOWN and self._is_run_on(loop, record.call, function):
                return dotted(iterator)
        return None

    def _indexed(self, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> str | None:
        """`for i in range(len(dataset)): model(dataset[i])`: the text of the dataset; None without one."""
        if not isinstance(loop.target, ast.Name) or not any(map(speaks_of_dataset, subtree(loop.iter))):
            return None
        for node in subtree(loop):
            is_item = isinstance(node, ast.Subscript) and is_name(node.slice, loop.target.id)
            if is_item and speaks_of_dataset(node.value) and self._is_run_on(loop, node, function):  # type: ignore[attr-defined, arg-type]
                return dotted(node.value)  # type: ignore[attr-defined]
        return None

    def _is_run_on(self, loop: Loop, item: ast.expr, function: FunctionInfo, first: bool = False) -> bool:
        """Whether the loop passes the item, or what it computes from it, to a model; with `first`, before all else."""
        made: set[str] = set()
        made_from(loop, lambda node: node is item or (isinstance(node, ast.Name) and node.id in made), made)
        for record in function.calls_made:
            if not self._runs_model(record, loop, function):
                continue
            given = [*record.call.args, *(each.value for each in record.call.keywords)][: 1 if first else None]
            nodes = [node for each in given for node in subtree(each)]
            if any(node is item or (isinstance(node, ast.Name) and node.id in made) for node in nodes):
                return True
        return False

    def _training_calls(self, function: FunctionInfo) -> list[tuple[CallRecord, Loop | None]]:
        """Calls that make a training step, each with the loop whose pass it belongs to."""
        return self._recorder.kept(
            self._training,
            function,
            lambda: [
                (record, step_loop(record))
                for record in function.calls_made
                if self._is_training_call(record, function) and not self._is_in_batches(record)
            ],
        )

    def _is_in_batches(self, record: CallRecord) -> bool:
        """`losses = [step(batch) for batch in loader]`: what stands around it is no pass over a batch.

        But `[step(next(each)) for each in iterators]` takes one batch of each.
        """
        if any(isinstance(each, ast.Call) and last_name(each.func) == "next" for each in subtree(record.call)):
            return False
        return comprehensions.per_batch(self, record.statement, record.call, record.function) is not None

    def _is_training_call(self, record: CallRecord, function: FunctionInfo) -> bool:
        func = record.call.func
        if last_name(func) in self._names_of_steps():
            callees = self._callees(record, function)
            if callees:
                return all(self._home(each).makes_step(each) for each in callees)
        if isinstance(func, ast.Attribute) and func.attr in _BACKWARD:
            return True
        return self._takes_step(record, function)

    def _takes_step(self, record: CallRecord, function: FunctionInfo) -> bool:
        """`optimizer.step()`, or a method that takes the optimizer: `task.optimizer_step(self.optimizer)`."""
        func = record.call.func
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr == "optimizer_step":
            given = record.call.args[:1]
            return any(self.inference.frame_value(function, each).kind is Kind.OPTIMIZER for each in given)
        return func.attr in _STEP and self.inference.frame_value(function, func.value).kind in _STEP_RECEIVERS

    def is_training_period(self, branch: ast.If, function: FunctionInfo) -> bool:
        """Whether the branch trains, and its test asks for a period of training.

        `if t % train_every == 0: agent.update()`, where the other passes only collect data; or a second network's turn,
        `if i % n_critic == 0: generator_loss.backward()`, where each pass trains the first one.
        """
        trains, trains_elsewhere = self._steps_around(branch, function)
        if not trains or trains_elsewhere:
            return trains and names_turn(branch.test)
        around = self.enclosing(branch)[:1]
        in_rollout = bool(around) and rollouts.stepped_in(around[0], function) is not None
        return names_training_period(branch.test, in_rollout=in_rollout)

    def _steps_around(self, branch: ast.If, function: FunctionInfo) -> tuple[bool, bool]:
        """Whether training steps of the pass are in the body of a branch, and whether others are elsewhere."""
        around = next(iter(self.enclosing(branch)), None)
        trains = trains_elsewhere = False
        for record, loop in self._training_calls(function):
            if self._takes_step(record, function):
                continue
            if any(place.parent is branch and place.field == "body" for place in record.place.outwards()):
                trains = True  # also in a loop of the branch, which makes up for the other passes
            elif loop is around:
                trains_elsewhere = True
        return trains, trains_elsewhere

    def _names_of_steps(self) -> frozenset[str]:
        """Names of functions that call `backward`: those in this file, and those anywhere that this file calls."""
        return self._recorder.kept(self._stepping, None, self._find_names_of_steps)

    def _find_names_of_steps(self) -> frozenset[str]:
        program, index = self.inference.program, self.inference.index
        elsewhere = frozenset[str]() if program is None else program.steps_called_in(index)
        calling = (record.function.name for name in _BACKWARD for record in index.calls.get(name, ()))
        return elsewhere.union(calling)

    def _home(self, function: FunctionInfo) -> LoopQuestions:
        program = self.inference.program
        if program is None or function.index is self.inference.index:
            return self
        return program.file_of(function.index).frequency.loops

    def makes_step(self, function: FunctionInfo, calls: int = 0) -> bool:
        """Whether one call of the function makes one training step, directly or through its calls."""
        names = self._names_of_steps()
        for record in function.calls_made:
            name = last_name(record.call.func)
            if (name not in _BACKWARD and name not in names) or step_loop(record) or self._is_in_batches(record):
                continue
            if name in _BACKWARD:
                return True
            if calls < bounds.MOST_CALLS_TO_STEP:
                callees = self._callees(record, function)
                if callees and all(self._home(each).makes_step(each, calls + 1) for each in callees):
                    return True
        return self._steps_once(function)

    def _callees(self, record: CallRecord, function: FunctionInfo) -> list[FunctionInfo]:
        """The functions, other than this one, that a call may call: by value, else by class hierarchy."""
        func = record.call.func
        value = self.inference.frame_value(function, func)
        found = [] if value.function is None else [value.function]
        if not found and isinstance(func, ast.Attribute):
            found = self._methods_of_union(value, func.attr) or self._methods_by_hierarchy(record, func.attr)
        return [each for each in found if each is not function]

    def _methods_of_union(self, value: Value, name: str) -> list[FunctionInfo]:
        """The methods of that name that an object of one of several classes has."""
        classes = value.element.among if value.element is not None else ()
        methods = [self.inference.method(each, name) for each in classes if not isinstance(each, Registry)]
        return [each for each in methods if each is not None] if len(methods) == len(classes) else []

    def _methods_by_hierarchy(self, record: CallRecord, name: str) -> list[FunctionInfo]:
        """The methods of that name that an object of unknown class may have, as the classes of the project show."""
        program = self.inference.program
        methods = None if program is None else program.methods_named(name, self.inference.index)
        found = [each for each in methods or () if hierarchy.may_mean(self.inference, record, each)]
        return [each for each in found if not each.is_abstract]

    def _steps_once(self, function: FunctionInfo) -> bool:
        """Whether the function accumulates gradients over parts of a batch, not over a loader, and takes one step."""
        steps = [record for record in function.calls_made if self._takes_step(record, function)]
        if not steps or any(step_loop(record) is not None for record in steps):
            return False
        loops = [loop for loop, _ in finding.loops_in(function) if isinstance(loop, ast.For)]
        return not any(self.loader_in(loop.iter, function) for loop in loops)

    def _cuts_batches(self, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> str | None:
        """`for i in range(0, n, size): batch = data[i : i + size]`: the text of what is sliced.

        That is a tensor of the device, or anything else of which a model gets the parts.
        """
        whole = split_whole(loop.iter)
        if whole is not None and self._sends_pieces(loop, whole, function):
            return dotted(whole) or "a tensor"
        if stride(loop.iter) is None or not isinstance(loop.target, ast.Name):
            return None
        for node in subtree(loop):
            if not isinstance(node, ast.Subscript):
                continue
            index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            if isinstance(index, ast.Slice) and index.upper is not None and is_name(index.lower, loop.target.id):
                value = self.inference.frame_value(function, node.value)
                is_there = value.device.on_accelerator and (value.holds_tensors or value.kind is Kind.UNKNOWN)
                if is_there or (value.kind is not Kind.STRING and self._is_run_on(loop, node, function, first=True)):
                    return dotted(node.value) or "a tensor"
        return None

    def _sends_pieces(self, loop: ast.For | ast.AsyncFor, whole: ast.expr, function: FunctionInfo) -> bool:
        """Whether the loop moves each piece of a tensor to the device, or runs a model on it."""
        value = self.inference.frame_value(function, whole)
        if not value.holds_tensors and value.kind is not Kind.UNKNOWN:
            return False
        pieces = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
        return any(
            (dotted(record.call.func) or "").partition(".")[0] in pieces
            if self._is_data_there(record, loop, function)
            else pieces & names_given(record) and self._runs_any_model(record, loop, function)
            for record in function.calls_made
        )

    def _runs_in_batches(self, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> bool:
        """`for start in range(0, n, batch_size): model(x[start : start + batch_size])`, also if `x` is not cut here."""
        size = stride(loop.iter)
        if size is None or not _BATCH_SIZE.search(last_name(size) or "") or self._holds_batches(loop, function):
            return False
        return any(
            self._runs_any_model(record, loop, function)
            or self._is_data_there(record, loop, function)
            or called_on_batches.runs_model(self.inference, record, loop, function)
            for record in function.calls_made
        )

    def _evaluates(self, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> bool:
        """Whether the loop passes each item of a collection to a model, or counts evaluated batches."""
        iterable = loop.iter
        called = last_name(iterable.func) if isinstance(iterable, ast.Call) else None
        runs = [record for record in function.calls_made if self._runs_model(record, loop, function)]
        if counted(iterable) is not None:
            return bool(runs) and evaluates_between_steps(function)
        value = self.inference.frame_value(function, iterable)
        if called in ("items", "values", "keys") or not names_batches(iterable):
            return False
        if value.kind in (Kind.MODULE, Kind.TENSOR, Kind.NUMBER, Kind.STRING):
            return False
        targets = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
        return any(targets & names_given(record) for record in runs)

    def _moves_batches(self, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> bool:
        """`for batch in batches: batch = batch.to(device); scorer.score(models, batch)`: each item goes to a model."""
        called = last_name(loop.iter.func) if isinstance(loop.iter, ast.Call) else None
        if counted(loop.iter) is not None or called in ("items", "values", "keys"):
            return False
        moved = items_moved(loop, function)
        item = element_of(self.inference.frame_value(function, loop.iter))
        if as_batches(item, loop.target, moved) != item:
            moving = [each for each in moved_in_loops(function) if loop in self.enclosing(each.statement)]
            return any(self._goes_there(each.call, function) for each in moving)
        made = made_of_item(loop)
        direct = [each for each in function.calls_made if loop in self.enclosing(each.statement)[:1]]
        on_item = [record for record in direct if made & names_given(record)]
        is_named = names_batches(loop.iter)
        runs = not self._is_in_loader_loop(loop, function) and any(
            self._runs_any_model(record, loop, function) for record in on_item
        )
        runs = runs and not self._holds_batches(loop, function) and not any(map(trains, direct))
        if not runs and not (is_named and any(map(names_model, on_item))):
            return False
        return any(self._moves(record.call, made, function) for record in direct)

    def _is_in_loader_loop(self, loop: Loop, function: FunctionInfo) -> bool:
        """Whether a loop around it takes batches from a loader: then the items are parts of a batch."""
        return any(
            isinstance(outer, (ast.For, ast.AsyncFor)) and self.loader_in(outer.iter, function) is not None
            for outer in self.enclosing(loop)
        )

    def _moves(self, call: ast.Call, made: set[str], function: FunctionInfo) -> bool:
        """Whether the call moves a value with one of these names to the device."""
        func = call.func
        if conventions.MOVING_HELPERS.search(last_name(func) or ""):
            moved = call.args[0] if call.args else None
        else:
            moved = func.value if isinstance(func, ast.Attribute) and func.attr in ("to", "cuda") else None
        names = {node.id for node in subtree(moved) if isinstance(node, ast.Name)} if moved is not None else set()
        return bool(names & made) and self._goes_there(call, function)

    def _goes_there(self, call: ast.Call, function: FunctionInfo) -> bool:
        """Whether the call's result is on the accelerator and no module."""
        there = self.inference.frame_value(function, call)
        while there.kind is Kind.CONTAINER and there.element is not None:
            there = there.element
        return there.kind is not Kind.MODULE and there.device.on_accelerator

    def _runs_model(self, record: CallRecord, loop: ast.stmt, function: FunctionInfo) -> bool:
        """Whether a call directly in the loop runs a whole model, not a layer."""
        if loop not in self.enclosing(record.statement)[:1]:
            return False
        func = record.call.func
        if isinstance(func, ast.Attribute) and func.attr == "forward":
            func = func.value
        callee = self.inference.frame_value(function, func)
        named = callee.cls is not None or last_name(func) in conventions.MODEL_NAMES
        return callee.kind is Kind.MODULE and named and not callee.is_layer

    def _is_data_there(self, record: CallRecord, loop: ast.stmt, function: FunctionInfo) -> bool:
        """Whether a call in the loop makes a tensor on the accelerator, or moves one there."""
        name = last_name(record.call.func) or ""
        if loop not in self.enclosing(record.statement):
            return False
        if conventions.MOVING_HELPERS.search(name):
            return True
        return name in ("to", "cuda", "tensor", "as_tensor") and self._goes_there(record.call, function)

    def _runs_any_model(self, record: CallRecord, loop: ast.stmt, function: FunctionInfo) -> bool:
        """Whether a call in the loop runs a model, or what is named as one and may be one, as far as is known."""
        if self._runs_model(record, loop, function):
            return True
        func = inference_loops.named_model(record.call)
        if func is None or loop not in self.enclosing(record.statement):
            return False
        return self.inference.frame_value(function, func).kind is Kind.UNKNOWN


def enclosing(statement: ast.stmt, index: Index) -> list[Loop]:
    """The loops of the same function around a statement, innermost first."""
    return index.places[statement].loops()
