"""Expressions to Values: the flow-sensitive core of the model, one method per kind of expression."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import conventions, numpy_api, torch_api
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import class_unions, registries
from torchperf_lint.model.domain.accelerator_tests import asks_about_accelerator
from torchperf_lint.model.domain.provenance import ByName
from torchperf_lint.model.domain.values import (
    INTEGER,
    NONE,
    NUMBER,
    STRING,
    UNKNOWN,
    Device,
    Kind,
    Value,
    container,
    derived,
    join,
    join_all,
)
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.values import (
    arrays,
    calls,
    choices,
    distributions,
    fields,
    mutation,
    narrowing,
    optimizers,
    records,
    trained_models,
)
from torchperf_lint.model.values.binding import bind, subscript_path
from torchperf_lint.model.values.devices import accelerator_choice, inside_module, text_after
from torchperf_lint.model.values.fields import as_data
from torchperf_lint.model.values.inherited import by_super
from torchperf_lint.model.values.modules import module_attribute
from torchperf_lint.model.values.name_heuristics import conventional
from torchperf_lint.model.values.tensors import (
    element_of,
    element_of_mapping,
    in_one_piece,
    item_of,
    placed,
    tensor_attribute,
    tensor_from,
)
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.domain.interfaces import ValueQuestions

_BUILTINS = frozenset(dir(builtins))
_WHOLE_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_OF_CLASSES = (Kind.INSTANCE, Kind.CONTAINER, Kind.MODULE, Kind.CLASS, Kind.OPTIMIZER, Kind.METRIC, Kind.LOADER)
_FILTER = "builtins.filter"
_APPLYING = ("builtins.map", _FILTER)
_COMPARED_AS_WHOLES = (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.DEVICE, Kind.DTYPE)


class Evaluator:
    """Evaluates the expressions of one frame and records every value in `frame.values`."""

    def __init__(self, inference: ValueQuestions, frame: Frame) -> None:
        self.inference = inference
        self.frame = frame
        self.default_device = inference.default_device

    def __call__(self, node: ast.expr, env: Env) -> Value:
        """The value of `node` in `env`, recorded in `frame.values`."""
        evaluate = _BY_TYPE.get(type(node))
        value = UNKNOWN if evaluate is None else evaluate(self, node, env)
        self.frame.values[node] = value
        return value

    def because(self, node: ast.AST, text: str) -> Because:
        """Evidence at a node's line."""
        return Because(getattr(node, "lineno", 1), text)

    def leans(self, test: ast.expr) -> bool:
        """Whether the condition tests if (or which) accelerator is used."""
        return self.inference.index.note(("leans", test), lambda: asks_about_accelerator(test))

    @property
    def placed(self) -> tuple[Because, ...]:
        """Evidence that the frame's tensors live where a module's inputs do; none in a particular call."""
        return () if self.frame.is_call else self.inference.placed(self.frame.function)

    def _constant(self, node: ast.expr, env: Env) -> Value:
        constant = node.value  # type: ignore[attr-defined]
        if constant is None:
            return NONE
        if isinstance(constant, (bool, int, float)):
            dtype = "bool" if isinstance(constant, bool) else "int" if isinstance(constant, int) else "float"
            return Value(Kind.NUMBER, dtype=dtype, constant=constant)
        if isinstance(constant, str):
            return Value(Kind.STRING, constant=constant)
        return UNKNOWN

    def _name(self, node: ast.expr, env: Env) -> Value:
        name: str = node.id  # type: ignore[attr-defined]
        value = env.get(name)
        if value is None:
            value = self.inference.names.free(self.frame, name)
        if value is None:
            return Value(Kind.LIBRARY, ref="builtins." + name) if name in _BUILTINS else UNKNOWN
        return value

    def _attribute(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Attribute)
        base = self(node.value, env)
        path = dotted(node)
        if path is not None and path in env:
            return env[path]
        if (inherited := by_super(self, node, env)) is not None:
            return inherited
        if base.kind is Kind.UNKNOWN and base.device is Device.UNKNOWN and not base.ref:
            base = self._treated_as_tensor(node, env) or base
        elif base.kind is Kind.METHOD and self._needs_tensor(node):
            base = self.frame.values[node.value] = as_data(base)
        return self.attribute_of(base, node.attr, node)

    def _treated_as_tensor(self, node: ast.Attribute, env: Env) -> Value | None:
        """An unknown value on which a tensor method is called, inside a module's call: a tensor on the device."""
        if not self.placed or not self._needs_tensor(node):
            return None
        tensor = Value(Kind.TENSOR, Device.LIKELY, because=self.placed)
        self.frame.values[node.value] = tensor
        path = dotted(node.value)
        if path is not None and path in env:
            env[path] = tensor
        return tensor

    def _needs_tensor(self, node: ast.Attribute) -> bool:
        """Whether it is a method that only tensors have, of what no convention keeps on the host."""
        if self.inference.cpu_only or node.attr not in torch_api.TENSOR_ONLY_METHODS:
            return False
        if node.attr == "item" and not isinstance(node.value, (ast.Name, ast.Call)):
            return False  # settings and parameters may hold NumPy arrays
        return not conventions.stays_on_host(last_name(node.value) or "")

    def attribute_of(self, base: Value, name: str, node: ast.AST) -> Value:
        """`base.name`."""
        kind = base.kind
        if kind is Kind.LIBRARY:
            ref = f"{base.ref}.{name}"
            if ref in torch_api.DTYPES or ref == "torch.bool":
                return Value(Kind.DTYPE, dtype=torch_api.DTYPES.get(ref))
            if ref in numpy_api.FLOATS:
                return Value(Kind.NUMBER, dtype="float")
            return self.inference.names.imported(ref)
        if base.holds_tensors:
            held = tensor_attribute(base, name)
            if name == "device" and kind is Kind.PYTREE and base.origin is None and not base.partly_host:
                return placed(held, self.placed) if self.placed else held
            return self.trained(held, node) if name == "grad" and kind is Kind.TENSOR else held
        if kind is Kind.OPTIMIZER and name == "param_groups":
            step = self.because(node, "an optimizer's parameters are where the model is trained")
            return optimizers.param_groups(self.inference, base, step)
        if kind is Kind.OPTIMIZER and name == "state" and base.cls is not None:
            return self.inference.optimizer_state(base.cls)
        if kind is Kind.CONTAINER and (field := fields.named(base, name)) is not None:
            return field
        if (field := records.field(base, name)) is not None:
            return field
        if base.among and (chosen := class_unions.attribute(self, base, name, node)) is not None:
            return chosen
        if kind in _OF_CLASSES and base.cls is not None:
            method = self.inference.method(base.cls, name)
            if method is not None:
                if any(isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in method.decorators):
                    value = conventional(name, self.inference.called(method, [base], {}))
                    is_place = name == "device" and kind is Kind.MODULE and value.device is Device.UNKNOWN
                    return module_attribute(base, name) if is_place else value
                return Value(Kind.METHOD, element=base, ref=name, function=method)
            value = registries.held(base, name) or self.inference.attribute(base.cls, name)
            if value.kind is not Kind.UNKNOWN or (value.device.on_accelerator and not value.among):
                return inside_module(base, value)
            if value.among:
                return (module_attribute(base, name) if kind is Kind.MODULE else value)._replace(among=value.among)
        if kind is Kind.MODULE or (kind is Kind.METRIC and base.cls is not None and name == "device"):
            return module_attribute(base, name)
        if kind is Kind.DEVICE:
            return Value(Kind.STRING) if name == "type" else UNKNOWN
        if distributions.is_distribution(base) and (drawn := distributions.attribute(base, name)) is not None:
            return drawn
        if kind in (Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER, Kind.METRIC, Kind.CONTAINER, Kind.NUMPY, Kind.STRING):
            return Value(Kind.METHOD, element=base, ref=name)
        if name in conventions.DEVICE_ATTRIBUTES:
            if base.partly_host:
                return Value(Kind.DEVICE)
            return Value(
                Kind.DEVICE,
                Device.LIKELY,
                because=(ByName(*self.because(node, f"`{name}` names the device the program picks")),),
            )
        if kind in (Kind.UNKNOWN, Kind.INSTANCE) and base.device.on_accelerator:
            # Attributes of something that was moved to the device live there too, whatever their kind.
            if name == "shape":
                return tensor_attribute(base, name)
            return Value(Kind.METHOD, element=base, ref=name, device=base.device, because=base.because)
        if name == "grad" and kind is Kind.UNKNOWN and not self.inference.cpu_only:
            return self.trained(Value(Kind.TENSOR), node)
        value = Value(Kind.METHOD, element=base, ref=name) if kind is not Kind.UNKNOWN or base.ref else UNKNOWN
        named = conventional(name, UNKNOWN)
        return named if named.kind is not Kind.UNKNOWN else value

    def trained(self, gradient: Value, node: ast.AST) -> Value:
        """A value computed from gradients alone: on the accelerator if the program uses one."""
        if self.inference.cpu_only or gradient.device is not Device.UNKNOWN:
            return gradient
        step = self.because(node, "gradients live where the model is trained")
        return gradient._replace(device=Device.LIKELY, because=(step,))

    def _call(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Call)
        callee = self(node.func, env)
        if callee.ref in _APPLYING and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
            return self._applied(node, callee.ref, env)
        arguments = [self(argument, env) for argument in node.args]
        keywords = {keyword.arg or "**": self(keyword.value, env) for keyword in node.keywords}
        starred = any(isinstance(argument, ast.Starred) for argument in node.args) or "**" in keywords
        result = calls.result(self, node, callee, arguments, keywords, starred)
        result = calls.named_mover(node, result, arguments, keywords)
        result = trained_models.placed_by_training(self, node, callee, [*arguments, *keywords.values()], result)
        mutation.mutate(self, node, arguments, keywords, env)
        if callee.function is not None and not starred:
            mutation.fill(self, node, callee, arguments, keywords, env)
        return result

    def _applied(self, node: ast.Call, ref: str, env: Env) -> Value:
        """The items of `map(f, *iterables)` and `filter(f, iterable)`, for a lambda or any function known."""
        items = [element_of(self(iterable, env)) for iterable in node.args[1:]]
        function = node.args[0]
        made = UNKNOWN
        if isinstance(function, ast.Lambda):
            inner = env.copy()
            names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            inner.update(
                dict(zip(names, items, strict=False)) if len(names) == len(items) else self.inference.given_to(function)
            )
            made = self(function.body, inner)
            self.frame.values[function] = UNKNOWN
        else:
            callee = self(function, env)
            if callee.kind in (Kind.FUNCTION, Kind.LIBRARY):
                made = calls.result(self, node, callee, items, {}, starred=False)
        if ref == _FILTER:
            made = items[0]
        return container(made) if made != UNKNOWN else UNKNOWN

    def _binary(self, node: ast.expr, env: Env) -> Value:
        spine: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            spine.append(node)
            node = node.left
        value = self(node, env)
        for operation in reversed(spine):
            value = self.frame.values[operation] = self.combine(value, self(operation.right, env), operation.op)
        return value

    def combine(self, left: Value, right: Value, operator: ast.operator) -> Value:
        """The result of an arithmetic operator."""
        if left.kind is Kind.STRING:
            return text_after(left.constant)
        if right.kind is Kind.STRING:
            return STRING
        if left.holds_tensors or right.holds_tensors or left.kind is right.kind is Kind.METHOD:
            left, right = as_data(left), as_data(right)
        if left.holds_tensors or right.holds_tensors:
            return tensor_from([left, right], true_division=isinstance(operator, ast.Div))
        if Kind.NUMPY in (left.kind, right.kind):
            return arrays.joined(*() if isinstance(operator, ast.MatMult) else (left, right))
        if left.kind is Kind.NUMBER and right.kind is Kind.NUMBER:
            whole = left.dtype == right.dtype == "int" and isinstance(operator, _WHOLE_OPERATORS)
            return INTEGER if whole else NUMBER
        if isinstance(operator, ast.Mult) and {left.kind, right.kind} == {Kind.CONTAINER, Kind.NUMBER}:
            return (left if left.kind is Kind.CONTAINER else right)._replace(items=None)
        if left.kind is Kind.CONTAINER and right.kind is Kind.CONTAINER and isinstance(operator, ast.Add):
            return join(left._replace(items=None), right._replace(items=None))
        for side in (left, right):
            if side.kind is Kind.UNKNOWN and side.device.on_accelerator:
                return side._replace(ref=None)
        return UNKNOWN

    def _unary(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.UnaryOp)
        value = self(node.operand, env)
        if isinstance(node.op, ast.Not):
            return NUMBER
        if value.kind is not Kind.NUMBER:
            return value._replace(origin=None)
        is_literal = isinstance(value.constant, (int, float)) and isinstance(node.op, ast.USub)
        return value._replace(constant=-value.constant if is_literal else None)  # type: ignore[operator]

    def _compare(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Compare)
        sides = [self(node.left, env), *(self(comparator, env) for comparator in node.comparators)]
        if any(side.holds_tensors for side in sides):
            sides = [as_data(side) for side in sides]
        if all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return NUMBER
        if any(side.holds_tensors or (side.kind is Kind.UNKNOWN and side.device.on_accelerator) for side in sides):
            return tensor_from(sides)._replace(dtype="bool")
        if any(side.kind is Kind.NUMPY for side in sides):
            return arrays.joined(*sides)
        # Objects of unknown kind may compare element by element.
        return NUMBER if all(side.kind in _COMPARED_AS_WHOLES for side in sides) else UNKNOWN

    def _boolean(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.BoolOp)
        values = [self(value, env) for value in node.values]
        chosen = join_all(values)
        if chosen.kind is Kind.NONE and isinstance(node.op, ast.Or):
            return UNKNOWN  # `device or self.device`: what is None at first is set elsewhere
        if chosen.kind is Kind.UNKNOWN and isinstance(node.op, ast.Or):
            return choices.selected(values) or chosen
        return chosen

    def _conditional(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.IfExp)
        self(node.test, env)
        holds = narrowing.runs_eagerly(node.test)
        if holds is None:
            holds = narrowing.outcome(node.test, env, self.frame)
        if holds is not None:
            return self(node.body if holds else node.orelse, env)
        lean = self.leans(node.test)
        left = self(node.body, narrowing.narrowed(node.test, env, True, self.frame))
        right = self(node.orelse, narrowing.narrowed(node.test, env, False, self.frame))
        if lean:
            chosen = accelerator_choice(left, right, self.because(node, "the accelerator is used when there is one"))
            if chosen is not None:
                return chosen
        return choices.one_of(node, left, right, lean) or join(left, right, lean)

    def _subscript(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Subscript)
        base, index = self(node.value, env), self(node.slice, env)
        path = subscript_path(node)
        if path is not None and path in env:
            return env[path]
        if base.kind is Kind.NUMPY and (part := arrays.sliced(base, node.slice)) is not None:
            return part
        if (entry := records.entry(self.inference, base, index)) is not None:
            return entry
        is_key = base.kind is Kind.CONTAINER and isinstance(node.slice, ast.Tuple)
        item = item_of(base, index, isinstance(node.slice, (ast.Slice, ast.Tuple)) and not is_key)
        return derived(item) if base.holds_tensors and not in_one_piece(node.slice, index) else item

    def _sequence(self, node: ast.expr, env: Env) -> Value:
        elements: list[ast.expr] = node.elts  # type: ignore[attr-defined]
        values = [self(element, env) for element in elements]
        ref = type(node).__name__.lower()
        if any(isinstance(element, ast.Starred) for element in elements):
            return container(join_all(values), ref=ref)
        return container(join_all(values) if values else None, list(enumerate(values)), ref)

    def _dict(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Dict)
        values = [
            self(value, env) if key is not None else element_of_mapping(self(value, env))
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        keys = [None if key is None else self(key, env).constant for key in node.keys]
        items = list(zip(keys, values, strict=True)) if all(key is not None for key in keys) else None
        return container(join_all(values) if values else None, items, "dict")

    def _comprehension(self, node: ast.expr, env: Env) -> Value:
        inner = env.copy()
        for generator in node.generators:  # type: ignore[attr-defined]
            source = self(generator.iter, inner)
            bind(self, generator.target, element_of(records.iterated(self.inference, source)), inner)
            for condition in generator.ifs:
                self(condition, inner)
                if narrowing.outcome(condition, inner, self.frame) is False:
                    return UNKNOWN
        if isinstance(node, ast.DictComp):
            items = self._mapped_items(node, env)
            self(node.key, inner)
            return container(self(node.value, inner), items, "dict")
        made = self(node.elt, inner)  # type: ignore[attr-defined]
        return container(self._made_of_classes(node, env) or made if made == UNKNOWN else made)

    def _made_of_classes(self, node: ast.expr, env: Env) -> Value | None:
        """`[make() for make in (A, B)]`: the objects of the classes in a literal; None for anything else."""
        generator, *more = node.generators  # type: ignore[attr-defined]
        source = self.frame.values.get(generator.iter, UNKNOWN)
        classes = source.items or () if source.kind is Kind.CONTAINER else ()
        if more or generator.ifs or not 0 < len(classes) <= bounds.MOST_CHOICES:
            return None
        if not all(each.kind in (Kind.CLASS, Kind.LIBRARY) for _, each in classes):
            return None
        made = []
        for _, each in classes:
            inner = env.copy()
            bind(self, generator.target, each, inner)
            made.append(self(node.elt, inner))  # type: ignore[attr-defined]
        return join_all(made)

    def _mapped_items(self, node: ast.DictComp, env: Env) -> list[tuple[object, Value]] | None:
        """`{key: value.to(device) for key, value in held.items()}`: the known items stay known one by one."""
        generator, call = node.generators[0], node.generators[0].iter
        if len(node.generators) > 1 or generator.ifs:
            return None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "items"):
            return None
        held = self.frame.values.get(call.func.value, UNKNOWN)
        if held.kind is not Kind.CONTAINER or held.ref != "dict" or held.items is None:
            return None
        items: list[tuple[object, Value]] = []
        for name, value in held.items:
            inner = env.copy()
            pair = container(None, [(0, Value(Kind.STRING, constant=name)), (1, value)], "tuple")
            bind(self, generator.target, pair, inner)
            items.append((self(node.key, inner).constant, self(node.value, inner)))
        return items if all(isinstance(name, str) for name, _ in items) else None

    def _formatted(self, node: ast.expr, env: Env) -> Value:
        for child in children(node):
            if isinstance(child, ast.expr):
                self(child, env)
        first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
        return text_after(first.value) if isinstance(first, ast.Constant) else STRING

    def _lambda(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Lambda)
        inner = env.copy()
        inner.update(self.inference.given_to(node))
        self(node.body, inner)
        return Value(Kind.FUNCTION, function=self.inference.lambda_of(node))

    def _walrus(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.NamedExpr)
        value = self(node.value, env)
        bind(self, node.target, value, env)
        return value

    def _starred(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Starred)
        return element_of(self(node.value, env))

    def _awaited(self, node: ast.expr, env: Env) -> Value:
        assert isinstance(node, ast.Await)
        self(node.value, env)
        return UNKNOWN

    def _yielded(self, node: ast.expr, env: Env) -> Value:
        value: ast.expr | None = node.value  # type: ignore[attr-defined]
        if value is not None:
            yielded = self(value, env)
            self.frame.yields.append(yielded if isinstance(node, ast.Yield) else element_of(yielded))
        return UNKNOWN

    def _slice(self, node: ast.expr, env: Env) -> Value:
        self._formatted(node, env)
        return UNKNOWN


_BY_TYPE: dict[type, Callable[[Evaluator, ast.expr, Env], Value]] = {
    ast.Constant: Evaluator._constant,
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.Call: Evaluator._call,
    ast.BinOp: Evaluator._binary,
    ast.UnaryOp: Evaluator._unary,
    ast.Compare: Evaluator._compare,
    ast.BoolOp: Evaluator._boolean,
    ast.IfExp: Evaluator._conditional,
    ast.Subscript: Evaluator._subscript,
    ast.Tuple: Evaluator._sequence,
    ast.List: Evaluator._sequence,
    ast.Set: Evaluator._sequence,
    ast.Dict: Evaluator._dict,
    ast.ListComp: Evaluator._comprehension,
    ast.SetComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
    ast.DictComp: Evaluator._comprehension,
    ast.JoinedStr: Evaluator._formatted,
    ast.FormattedValue: Evaluator._formatted,
    ast.Lambda: Evaluator._lambda,
    ast.NamedExpr: Evaluator._walrus,
    ast.Starred: Evaluator._starred,
    ast.Await: Evaluator._awaited,
    ast.Yield: Evaluator._yielded,
    ast.YieldFrom: Evaluator._yielded,
    ast.Slice: Evaluator._slice,
}
