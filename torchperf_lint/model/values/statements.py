"""Runs statements over an environment of Values: assignments, branches, loops, handlers, and merges of their paths."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, container, join
from torchperf_lint.model.syntax.backward import returns_its_loss
from torchperf_lint.model.syntax.bulk_moves import move_in
from torchperf_lint.model.syntax.effects import FUNCTIONS, narrowed_paths
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, dotted, last_name
from torchperf_lint.model.syntax.number_reads import is_read_as_number
from torchperf_lint.model.syntax.slices import is_for_type_checkers
from torchperf_lint.model.values import batches, bulk_moves, metrics, mutation, narrowing, parameters, records
from torchperf_lint.model.values.annotations import annotated, declared_names
from torchperf_lint.model.values.binding import bind
from torchperf_lint.model.values.tensors import element_of, is_python_data
from torchperf_lint.model.values.trained_models import returned_loss
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.domain.interfaces import ExpressionValues, ValueQuestions
    from torchperf_lint.model.syntax.slices import Slice


class Runner:
    """Runs statements, all or those of a slice; an environment of None means unreachable code."""

    def __init__(
        self, inference: ValueQuestions, evaluator: ExpressionValues, frame: Frame, part: Slice | None = None
    ) -> None:
        self.inference = inference
        self.evaluate = evaluator
        self.frame = frame
        self.part = part
        self.exits: list[Env] = []
        self.breaks: list[list[Env]] = []
        self.continues: list[list[Env]] = []

    def block(self, statements: list[ast.stmt], env: Env | None) -> Env | None:
        """Run statements in order; returns the environment after them."""
        return self._run(self._steps(statements), env)

    def _steps(self, block: list[ast.stmt]) -> list[ast.stmt]:
        return block if self.part is None else self.part.steps(block)

    def _run(self, statements: list[ast.stmt], env: Env | None) -> Env | None:
        for statement in statements:
            if env is None:
                # Dead code gets values too, so that queries about it have results; in a particular call there are none.
                if not self.frame.is_call:
                    self.statement(statement, {})
                return None
            env = self.statement(statement, env)
        return env

    def statement(self, node: ast.stmt, env: Env) -> Env | None:
        """Run one statement; returns the environment after it."""
        if self.part is not None and node is self.part.at:
            for asked in self.part.asked:
                self.evaluate(asked, env)
        if not self._is_run(node):
            assert self.part is not None
            if isinstance(node, (ast.Return, ast.Raise)):
                if isinstance(node, ast.Return):
                    self.exits.append(env)
                return None
            if node not in self.part.entered and not isinstance(node, (ast.Break, ast.Continue)):
                return env
        run = getattr(self, "_" + type(node).__name__.lower(), None)
        if run is not None:
            result: Env | None = run(node, env)
            return result
        for child in children(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, env)
        return env

    def _is_run(self, node: ast.stmt) -> bool:
        """Whether the statement itself runs, not only its nested statements."""
        return self.part is None or node in self.part.run

    def _functiondef(self, node: ast.FunctionDef, env: Env) -> Env:
        info = self.inference.index.info_of[node]
        assert isinstance(info, FunctionInfo)
        for decorator in node.decorator_list:
            self.evaluate(decorator, env)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.evaluate(default, env)
        env[node.name] = Value(Kind.FUNCTION, function=info)
        return env

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef, env: Env) -> Env:
        info = self.inference.index.info_of[node]
        assert isinstance(info, ClassInfo)
        if self._is_run(node):
            bases = [self.evaluate(base, env) for base in node.bases]
            for each in (*(keyword.value for keyword in node.keywords), *node.decorator_list):
                self.evaluate(each, env)
            given = None if self.frame.function is self.inference.index.module else metrics.base_given(bases)
            env[node.name] = Value(Kind.CLASS, ref=given, cls=info)
        own = [each for each in self._steps(node.body) if not isinstance(each, FUNCTIONS)]
        self._run(own, env.copy())
        return env

    def _import(self, node: ast.Import, env: Env) -> Env:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            ref = alias.name if alias.asname else name
            self._bind_import(name, ref, env)
        return env

    def _importfrom(self, node: ast.ImportFrom, env: Env) -> Env:
        root = "." * node.level + (node.module or "")
        joint = "" if root.endswith(".") else "."
        for alias in node.names:
            if alias.name == "*":
                env.update(frameworks.star_import(root))
            else:
                self._bind_import(alias.asname or alias.name, f"{root}{joint}{alias.name}", env)
        return env

    def _bind_import(self, name: str, ref: str, env: Env) -> None:
        if self.frame.function is not self.inference.index.module or name not in self.inference.names.late_imports:
            env[name] = self.inference.names.imported(ref)

    def _assign(self, node: ast.Assign, env: Env) -> Env:
        value = self._element_by_use(node, self.evaluate(node.value, env))
        for target in node.targets:
            bind(self.evaluate, target, self._backward_evidence(target, node.value, value), env)
            for part in target.elts if isinstance(target, ast.Tuple) else ():
                held = env.get(dotted(part) or "")
                if held is not None and held.kind in (Kind.PYTREE, Kind.TENSOR, Kind.UNKNOWN):
                    bind(self.evaluate, part, self._backward_evidence(part, node.value, held), env)
        return env

    def _element_by_use(self, node: ast.Assign, value: Value) -> Value:
        """`i` of `i = order[0]` is one element if the next statement reads it by `i.item()` in any case."""
        index = getattr(node.value, "slice", None)
        if value.kind is not Kind.TENSOR or value.scalar is not None or not isinstance(index, ast.expr):
            return value
        is_element = self._is_place(index) and is_read_as_number(self.frame.function, node)
        return value._replace(scalar=True) if is_element else value

    def _is_place(self, index: ast.expr) -> bool:
        """`0`, `-1` or a name for a Python integer."""
        known = self.frame.values.get(index, UNKNOWN)
        return known.kind is Kind.NUMBER and known.dtype == "int"

    def _backward_evidence(self, target: ast.expr, source: ast.expr, value: Value) -> Value:
        """The result of an unknown call is a loss where its inputs live if `.backward()` is called on it.

        A tensor that is added to such a loss, or multiplied with a part of it, lives where the loss does.
        """
        path = dotted(target)
        if value.kind is Kind.CONTAINER and value.ref == "dict":
            return self._with_losses(path, source, value)
        is_unknown = value.kind is Kind.UNKNOWN and value.device is Device.UNKNOWN
        is_computed = path in self.frame.backward.computed and path not in self.frame.backward.names
        if is_unknown and (path in self.frame.backward.tensors or (is_computed and self._may_be_loss(source))):
            value = Value(Kind.TENSOR)
        if path in self.frame.backward.terms and value.kind is Kind.TENSOR and not _is_shown(value):
            return self._trained(value, source, "this is a part of what `.backward()` is called on")
        if path not in self.frame.backward.names:
            return returned_loss(self.inference, self.frame, path, source, value)
        if value.kind in (Kind.PYTREE, Kind.TENSOR):
            loss = value._replace(kind=Kind.TENSOR, scalar=True, dtype=value.dtype or "float")
            return loss if _is_shown(loss) else self._trained(loss, source)
        if value.kind is not Kind.UNKNOWN or not isinstance(source, ast.Call):
            return value
        given = [*source.args, *(keyword.value for keyword in source.keywords)]
        for argument in given:
            known = self.frame.values.get(argument, UNKNOWN)
            if known.kind is Kind.CONTAINER and known.element is not None:
                known = known.element
            if known.device.on_accelerator:
                return Value(Kind.TENSOR, known.device.or_host(), True, dtype="float", because=known.because)
        return self._trained(Value(Kind.TENSOR, scalar=True, dtype="float"), source)

    def _may_be_loss(self, source: ast.expr) -> bool:
        """Whether a call computes it, of nothing that is on the host: no setting, and no entry of a table."""
        if isinstance(source, (ast.BinOp, ast.UnaryOp)):
            sides = [source.left, source.right] if isinstance(source, ast.BinOp) else [source.operand]
            return any(map(self._may_be_loss, sides))
        if not isinstance(source, ast.Call) or last_name(source.func) in ("get", "pop", "float", "int"):
            return False
        nodes = [*source.args, *(keyword.value for keyword in source.keywords)]
        given = [self.frame.values.get(each, UNKNOWN) for each in nodes]
        if given and all(map(is_python_data, given)):
            return False  # a schedule's
        return not any(each.device is Device.CPU for each in given)

    def _with_losses(self, path: str | None, source: ast.expr, losses: Value) -> Value:
        """A dict of which `losses["total"].backward()` is called, and what that entry is is not shown otherwise."""
        entries: dict[object, Value] = dict(losses.items or ())
        for name, key in sorted(self.frame.backward.entries):
            entry = entries.get(key, losses.element or UNKNOWN)
            if name == path and entry.kind in (Kind.UNKNOWN, Kind.PYTREE, Kind.TENSOR) and not _is_shown(entry):
                entries[key] = self._trained(Value(Kind.TENSOR, scalar=True, dtype="float"), source)
        is_known = entries == dict(losses.items or ())
        return losses if is_known else container(losses.element or UNKNOWN, entries.items(), "dict")

    def _trained(self, loss: Value, source: ast.expr, shown: str = "") -> Value:
        """A loss lives where its model is trained: on the accelerator if the program uses one."""
        if self.inference.cpu_only:
            return loss
        if not shown:
            function = self.frame.function
            returned = f"this is the loss that `{function.name}` returns"
            shown = returned if returns_its_loss(function) else "`.backward()` is called on this"
        step = self.evaluate.because(source, f"{shown}, in a program for an accelerator")
        return loss._replace(device=Device.LIKELY, because=(step,))

    def _annassign(self, node: ast.AnnAssign, env: Env) -> Env:
        if node.value is not None:
            value = self.evaluate(node.value, env)
            if value.kind is Kind.UNKNOWN or (value.kind is Kind.CONTAINER and value.element is None):
                promised = annotated(node.annotation, self.inference, self.frame)
                # What is put into an empty list of tensors says more than the annotation.
                if promised is not None and (value.kind is Kind.UNKNOWN or element_of(promised).kind is Kind.NUMBER):
                    value = promised
            bind(self.evaluate, node.target, value, env)
        return env

    def _augassign(self, node: ast.AugAssign, env: Env) -> Env:
        target: Any = node.target
        left = self.evaluate(target, env)
        right = self.evaluate(node.value, env)
        if left.kind is Kind.CONTAINER and isinstance(node.op, ast.Add):
            added = element_of(right)
            value = left._replace(element=added if left.element is None else join(left.element, added), items=None)
        else:
            value = self.evaluate.combine(left, right, node.op)
            if left.holds_tensors and value.holds_tensors:
                value = value._replace(origin=left.origin)  # written in place
        bind(self.evaluate, target, value, env)
        return env

    def _expr(self, node: ast.Expr, env: Env) -> Env:
        self.evaluate(node.value, env)
        mutation.move(self.evaluate, node.value, env)
        return env

    def _return(self, node: ast.Return, env: Env) -> None:
        if node.value is not None:
            self.frame.returns.append(self.evaluate(node.value, env))
        self.exits.append(env)

    def _raise(self, node: ast.Raise, env: Env) -> None:
        for child in (node.exc, node.cause):
            if child is not None:
                self.evaluate(child, env)

    def _break(self, node: ast.Break, env: Env) -> None:
        if self.breaks:
            self.breaks[-1].append(env)

    def _continue(self, node: ast.Continue, env: Env) -> None:
        if self.continues:
            self.continues[-1].append(env)

    def _if(self, node: ast.If, env: Env) -> Env | None:
        arms = []
        while True:
            is_run = self._is_run(node)
            if is_run:
                self.evaluate(node.test, env)
            holds = narrowing.runs_eagerly(node.test)
            if holds is None and is_run:
                holds = narrowing.outcome(node.test, env, self.frame)
            if holds is not False:
                inner = narrowing.narrowed(node.test, env, True, self.frame) if is_run else env.copy()
                asked = [path for path in narrowed_paths(node.test) if path in env]
                known = [inner.get(path) for path in asked]
                taken = self.block(node.body, inner)
                for path, value in zip(asked, known, strict=True):
                    if taken is not None and value is not None and taken.get(path) is value:
                        taken[path] = env[path]  # what the test shows holds in this branch alone
                arms.append((taken, self.evaluate.leans(node.test)))
            if holds:
                return self._joined(arms, None)
            env = narrowing.narrowed(node.test, env, False, self.frame) if is_run else env.copy()
            rest = node.orelse[0] if len(node.orelse) == 1 else None
            if not isinstance(rest, ast.If):
                break
            node = rest
        outcome = self.block(node.orelse, env)
        if len(arms) == 1 and arms[0][0] is not None and outcome is not None and is_for_type_checkers(node):
            return _merge_imports([arms[0][0], outcome])
        return self._joined(arms, outcome)

    @staticmethod
    def _joined(arms: list[tuple[Env | None, bool]], outcome: Env | None) -> Env | None:
        for taken, lean in reversed(arms):
            if taken is not None:
                outcome = taken if outcome is None else _merge(taken, outcome, lean)
        return outcome

    def _while(self, node: ast.While, env: Env) -> Env | None:
        if not self._is_run(node):
            return self._loop(node, env, lambda inner: None)
        self.evaluate(node.test, env)
        if narrowing.outcome(node.test, env, self.frame) is False:
            return self.block(node.orelse, env)
        return self._loop(node, env, lambda inner: self.evaluate(node.test, inner))

    def _for(self, node: ast.For | ast.AsyncFor, env: Env) -> Env | None:
        if not self._is_run(node):
            return self._loop(node, env, lambda inner: None)
        source = self.evaluate(node.iter, env)
        item = element_of(records.iterated(self.inference, source))
        shown = batches.items_moved(node, self.frame.function)

        def advance(inner: Env) -> None:
            bind(self.evaluate, node.target, batches.as_batches(item, node.target, shown), inner)

        move = move_in(self.frame.function, node)
        moved = bulk_moves.moved(self.evaluate, move, env) if move is not None and self._is_run(move.statement) else {}
        after = self._loop(node, env, advance)
        if after is not None:
            bulk_moves.note_moved(self.frame, moved, after)
        return after

    _asyncfor = _for

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, env: Env, advance: Callable[[Env], object]) -> Env | None:
        left: list[Env] = []
        deep = len(self.breaks) >= bounds.MOST_LOOPS_DEEP
        head = self._forgetting(env, node) if deep else env
        for attempt in range(bounds.MOST_LOOP_PASSES):
            self.breaks.append([])
            self.continues.append([])
            inner = head.copy()
            advance(inner)
            end = self.block(node.body, inner)
            left = self.breaks.pop()
            again = [*self.continues.pop(), *([] if end is None else [end])]
            widened = merge_all([head, *again])
            if deep or widened == head:
                break
            if attempt == bounds.MOST_LOOP_PASSES - 2:
                self.frame.is_exact = False
                widened = self._forgetting(widened, node)
            head = widened
        after = self.block(node.orelse, head.copy())
        outcomes = [*left, *([] if after is None else [after])]
        return merge_all(outcomes) if outcomes else None

    def _forgetting(self, env: Env, loop: ast.stmt) -> Env:
        """The environment without what the loop may change, except declared Python data."""
        kept = _without_stores(env, loop)
        declared = declared_names(self.frame.function)
        for name in [name for name, value in kept.items() if value == UNKNOWN]:
            annotation = declared.get(name)
            if annotation is not None:
                promised = annotated(annotation, self.inference, self.frame)
                kept[name] = parameters.python_data(promised) or UNKNOWN
        return kept

    def _with(self, node: ast.With | ast.AsyncWith, env: Env) -> Env | None:
        before = self.evaluate.default_device
        for item in node.items if self._is_run(node) else ():
            value = self.evaluate(item.context_expr, env)
            if item.optional_vars is not None:
                bind(self.evaluate, item.optional_vars, value, env)
            if value.kind is Kind.DEVICE:
                self.evaluate.default_device = value.device
        after = self.block(node.body, env)
        self.evaluate.default_device = before
        return after

    _asyncwith = _with

    def _try(self, node: ast.Try, env: Env) -> Env | None:
        before = env.copy()
        body = self.block(node.body, env)
        thrown = merge_all([before, env, *([] if body is None else [body])])
        outcomes = []
        if body is not None:
            done = self.block(node.orelse, body)
            if done is not None:
                outcomes.append(done)
        for handler in node.handlers:
            inner = thrown.copy()
            if handler.type is not None and self._is_run(node):
                self.evaluate(handler.type, inner)
            if handler.name:
                inner[handler.name] = UNKNOWN
            caught = self.block(handler.body, inner)
            if caught is not None:
                outcomes.append(caught)
        if not outcomes:
            self.block(node.finalbody, thrown)
            return None
        return self.block(node.finalbody, _merge_imports(outcomes))

    _trystar = _try

    def _match(self, node: Any, env: Env) -> Env | None:
        if self._is_run(node):
            self.evaluate(node.subject, env)
        outcomes = [env]
        for case in node.cases:
            inner = env.copy()
            for pattern in subtree(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    inner[name] = UNKNOWN
            if case.guard is not None and self._is_run(node):
                self.evaluate(case.guard, inner)
            done = self.block(case.body, inner)
            if done is not None:
                outcomes.append(done)
        return merge_all(outcomes)

    def _delete(self, node: ast.Delete, env: Env) -> Env:
        for target in node.targets:
            path = dotted(target)
            if path is not None:
                env.pop(path, None)
        return env

    def _global(self, node: ast.Global | ast.Nonlocal, env: Env) -> Env:
        return env


def _merge(left: Env, right: Env, lean: bool = False) -> Env:
    if left is right:
        return left
    merged: Env = {}
    for key, value in left.items():
        other = right.get(key)
        if other is None:
            # Bound on one path only: reading it presumes that path, unless the key is an attribute's.
            if "." in key or "[" in key:
                continue
            merged[key] = value
        else:
            merged[key] = value if value is other else join(value, other, lean)
    for key, value in right.items():
        if key not in left and "." not in key and "[" not in key:
            merged[key] = value
    return merged


def _without_stores(env: Env, loop: ast.stmt) -> Env:
    """The environment without what the loop may change."""
    names: set[str] = set()
    owners: set[str] = set()
    for node in subtree(loop):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            path = dotted(node.value)
            if path is not None:
                owners.update((path, path.partition(".")[0]))
    kept: Env = {}
    for key, value in env.items():
        root = key.partition(".")[0].partition("[")[0]
        if root in names or (key in owners and value.kind in (Kind.CONTAINER, Kind.MODULE)):
            kept[key] = UNKNOWN
        elif key == root or root not in owners:
            kept[key] = value
    return kept


def merge_all(envs: list[Env]) -> Env:
    """The environment after merging paths."""
    merged = envs[0]
    for env in envs[1:]:
        merged = _merge(merged, env)
    return merged.copy() if merged is envs[0] else merged


def _merge_imports(envs: list[Env]) -> Env:
    """After a try: if the paths differ in what they imported, the first (the intended one) wins."""
    merged = merge_all(envs)
    for key, value in envs[0].items():
        known = merged.get(key, UNKNOWN)
        imported = value.kind in (Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS)
        if imported and (known.kind, known.ref, known.cls) != (value.kind, value.ref, value.cls):
            merged[key] = value
    return merged


def _is_shown(value: Value) -> bool:
    """Whether it is known, and not only likely, where a tensor lives."""
    return value.device is not Device.UNKNOWN and not any(isinstance(step, Unproven) for step in value.because)
