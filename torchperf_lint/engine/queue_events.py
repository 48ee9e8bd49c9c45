"""What the expressions of one statement do to the device's queue: known waits, and launches unless known to be none."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.queue_calls import (
    checked_arguments,
    given_to,
    is_of_parts,
    is_of_schedule,
    is_small,
    is_spread,
    last_asked,
    moves_bar,
    runs_its_body,
    surely_waits,
)
from torchperf_lint.engine.queue_reads import is_one_there, is_there, reads_index, reads_size, sends_index
from torchperf_lint.knowledge import distributions_api, environments, launches, torch_api
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.model.syntax.iterables import walked
from torchperf_lint.model.syntax.names import asks_for_tensor, last_name
from torchperf_lint.model.values.distributions import is_distribution
from torchperf_lint.syntax.tree import COMPREHENSIONS, children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo

_HANDS_OVER = (ast.Yield, ast.YieldFrom, ast.Await)
_QUIET_KINDS = (Kind.NONE, Kind.NUMBER, Kind.STRING, Kind.DEVICE, Kind.DTYPE, Kind.NUMPY, Kind.CONTAINER)
_OF_TENSORS = frozenset(
    (*launches.SMALL_FUNCTIONS, *torch_api.HOST_READS, "cpu", "to", "cuda", "contiguous", "float", "long")
)
"""Methods that tensors have, which launch little work."""
_PROPERTIES = frozenset({"property", "cached_property"})
_LAZY = frozenset({"zip", "map", "filter", "imap", "starmap", "chain", "islice", "reversed"})
"""What makes its items when a loop asks for them, by what it is given."""
_OF_DICTS = frozenset({"items", "keys", "values"})
_SHOWS = re.compile(r"(?:^|_)(?:log(?:s|ger|ging)?|(?:print|report|record|write|show|display|track)\w*?)(?:_|$)")
"""Parts of the names of functions that show or keep what they get."""
_WRAPS = ("register_forward_hook", "DataParallel", "DistributedDataParallel")
"""What runs more than a module's own `forward`."""
_HOST_DATA = (Kind.NUMBER, Kind.STRING, Kind.NUMPY, Kind.CONTAINER)


class Event(NamedTuple):
    """An expression of a statement that launches much work, or waits for the device.

    `certain` says that it happens whenever the code around it runs to its end, `leaves` that a branch around it ends
    in a jump: what stands behind that branch has not run it. `uploads` says that the wait is for a copy to the device.
    """

    node: ast.expr
    statement: ast.stmt
    waits: bool
    certain: bool = True
    leaves: bool = False
    uploads: bool = False


class Expressions:
    """The events of the expressions of one statement."""

    def __init__(
        self,
        model: Model,
        function: FunctionInfo,
        statement: ast.stmt,
        site: ast.expr | None,
        of_call: Callable[[FunctionInfo, int], tuple[Event, ...]] | None,
        depth: int,
        reached: ast.expr | None = None,
    ) -> None:
        """`site` surely waits; `of_call` gives the events of a function one call deeper, None where it is too deep.

        `reached` is a part of the statement that has surely been evaluated, as the site is.
        """
        self._model = model
        self._function = function
        self._statement = statement
        self._site = site
        self._of_call = of_call
        self._depth = depth
        self._reached = [each for each in (site, reached) if each is not None]
        self._values = model.values_in(function, statement)

    def events(self, node: ast.AST) -> Iterator[Event]:
        """The events of an expression, those of its parts first."""
        if node is self._site:
            # The work that it launches itself comes before its wait.
            yield from (each for each in self._events(node) if not each.waits or each.node is not node)
            yield self._event(self._site, waits=True)
        else:
            yield from self._events(node)

    def of_test(self, test: ast.expr) -> Iterator[Event]:
        """The events of an expression whose truth is asked."""
        yield from self.events(test)
        if test is not self._site and self._is_one(test):
            yield self._event(test, waits=True)

    def of_consumed(self, node: ast.expr, parts: Iterable[ast.expr]) -> Iterator[Event]:
        """The launch by which unknown parts may make their items, where an expression goes over them."""
        if not all(self._is_quiet(part) for part in parts):
            yield self._event(node, waits=False)

    def hands_out_quietly(self, iterable: ast.expr) -> bool:
        """Whether a loop that goes over an iterable launches nothing where it asks for the next item.

        A name counts by what alone is bound to it: what it has may be a generator that is only called a list.
        """
        node = walked(iterable)
        if self._is_plain_loader(node):
            return True
        if isinstance(node, ast.Name):
            bound = self._model.only_binding(self._function, node.id)
            return bound is not None and not isinstance(bound, ast.Name) and self.hands_out_quietly(bound)
        if isinstance(node, (ast.GeneratorExp, ast.Attribute)):
            return False
        if isinstance(node, ast.Call):
            if last_name(node.func) in _LAZY:
                return last_name(node.func) == "zip" and all(map(self.hands_out_quietly, node.args))
            if self._value(node.func).function is not None:
                return False
        return self._is_quiet(node)

    def is_of_host(self, call: ast.Call) -> bool:
        """Whether a call works on the host alone, and launches no kernel, however short."""
        callee = self._value(call.func)
        given = given_to(call)
        if callee.kind is Kind.LIBRARY:
            ref = callee.ref or ""
            if ref.rpartition(".")[0] == "builtins":
                return ref.rpartition(".")[2] in launches.HOST_BUILTINS
            is_host = ref.partition(".")[0] in launches.HOST_ROOTS
            return is_host and all(self._value(each).kind in _QUIET_KINDS for each in given)
        if callee.function is not None or not isinstance(call.func, ast.Attribute):
            return False
        owner = self._value(call.func.value)
        if owner.kind in (Kind.STRING, Kind.NUMBER, Kind.NUMPY):
            return True
        is_known = owner.kind in (Kind.UNKNOWN, Kind.CONTAINER) or owner.is_tensor
        return is_known and call.func.attr in launches.QUIET_METHODS

    def _event(self, node: ast.expr, *, waits: bool, uploads: bool = False) -> Event:
        return Event(node, self._statement, waits, uploads=uploads)

    # -- expressions -------------------------------------------------------------------------------------------------

    def _events(self, node: ast.AST) -> Iterator[Event]:
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, COMPREHENSIONS):
            yield from self._comprehension(node)
            return
        if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Compare)):
            yield from self._in_part(node)
            return
        for child in children(node):
            yield from self.events(child)
        if isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, _HANDS_OVER) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
            yield self._event(node, waits=False)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            if self._is_one(node.operand):
                yield self._event(node, waits=True)
        elif isinstance(node, ast.BinOp) and (self._is_object(node.left) or self._is_object(node.right)):
            yield self._event(node, waits=False)
        elif isinstance(node, ast.Attribute):
            yield from self._property(node)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Del):
            yield from self._subscript(node)
        elif isinstance(node, ast.FormattedValue) and self._is_one(node.value):
            yield self._event(node.value, waits=True)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[Event]:
        """Its first iterable's events; then the launches of a pass, and its waits, which may not happen.

        Where one of them is the site, what its own pass does before it is certain.
        """
        first, *others = node.generators
        yield from self.events(first.iter)
        yield from self.of_consumed(first.iter, [first.iter])
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        parts = [*first.ifs, *(part for each in others for part in (each.iter, *each.ifs)), *results]
        inside = [each for part in parts for each in self.events(part)]
        at = next((at for at, each in enumerate(inside) if each.node is self._site and each.waits), -1)
        own, rest = ([], inside) if others else (inside[: at + 1], inside[at + 1 :])
        yield from (each for each in rest if not each.waits)  # the pass before launches this behind the site
        yield from own
        yield from (each._replace(certain=False) for each in rest if each.waits)

    def _in_part(self, node: ast.BoolOp | ast.IfExp | ast.Compare) -> Iterator[Event]:
        """What is evaluated first is certain; of the rest, only the first operand behind a comparison's sign is.

        What leads to a part that is reached is certain, too.
        """
        if isinstance(node, ast.Compare):
            sure, others = [node.left, node.comparators[0]], node.comparators[1:]
        elif isinstance(node, ast.BoolOp):
            sure, others = node.values[:1], node.values[1:]
        else:
            sure, others = [node.test], [node.body, node.orelse]
            chosen = next((each for each in others if self._is_reached(each)), None)
            shown = None if chosen is None else last_asked(node.test, holds=chosen is node.body)
            self._reached += [] if shown is None else [shown]
            if asks_for_tensor(node.test) and chosen is not node.orelse:
                sure, others = [node.test, node.body], [node.orelse]
        for part in sure:
            is_asked = part is sure[0] and not isinstance(node, ast.Compare)
            yield from self.of_test(part) if is_asked else self.events(part)
        reached = next((at for at, part in enumerate(others) if self._is_reached(part)), -1)
        for at, part in enumerate(others):
            if isinstance(node, ast.BoolOp) and (at < reached or part in self._reached):
                yield from self.of_test(part)
            elif at == reached or (at < reached and isinstance(node, ast.Compare)):
                yield from self.events(part)
            else:
                yield from (each._replace(certain=False) for each in self.events(part))
        if (
            isinstance(node, ast.Compare)
            and not all(isinstance(each, (ast.Is, ast.IsNot)) for each in node.ops)
            and any(map(self._is_object, [node.left, *node.comparators]))
        ):
            yield self._event(node, waits=False)

    def _is_reached(self, part: ast.expr) -> bool:
        """Whether a part of an expression is evaluated: the site is in it, or leads to the code behind the test."""
        return bool(self._reached) and any(each in self._reached for each in subtree(part))

    def _property(self, node: ast.Attribute) -> Iterator[Event]:
        cls = self._value(node.value).cls
        method = None if cls is None else self._model.method(cls, node.attr)
        if method is not None and any((last_name(each) or "") in _PROPERTIES for each in method.decorators):
            yield from self._of_project(node, method)

    def _subscript(self, node: ast.Subscript) -> Iterator[Event]:
        cls = self._value(node.value).cls if isinstance(node.ctx, ast.Load) else None
        method = None if cls is None else self._model.method(cls, "__getitem__")
        if method is not None:
            yield from self._of_project(node, method)
        if reads_index(node, self._statement, self._values):
            yield self._event(node, waits=True)
        elif sends_index(node, self._values):
            yield self._event(node, waits=True, uploads=True)

    # -- values ------------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Value:
        return self._values.get(node, UNKNOWN)

    def _is_there(self, node: ast.expr) -> bool:
        """Whether the expression is surely a tensor on the device, or holds such."""
        return is_there(self._value(node))

    def _is_one(self, node: ast.expr) -> bool:
        """Whether it is surely one tensor on the device: a batch's own entry may be a number."""
        if isinstance(node, ast.Compare):
            is_order = all(isinstance(each, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for each in node.ops)
            return is_order and any(map(self._is_one, [node.left, *node.comparators]))
        if isinstance(node, ast.BinOp):
            return self._is_one(node.left) or self._is_one(node.right)
        return is_one_there(self._value(node))

    def _is_object(self, node: ast.expr) -> bool:
        """Whether it is an object of the project's own class, whose operators may do anything."""
        return self._value(node).cls is not None

    def _is_quiet(self, node: ast.expr) -> bool:
        """Whether going over it, or looking at it, launches no work."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_DICTS:
            return self._value(node.func.value).cls is None
        value = self._value(node)
        return (value.kind in _QUIET_KINDS and value.ref != "generator") or value.holds_tensors

    def _is_plain_loader(self, node: ast.expr) -> bool:
        """Whether it is a loader of no class of the project, and no generator that calls something for each batch."""
        value = self._value(node)
        return value.kind is Kind.LOADER and value.cls is None and value.ref != "generator"

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call) -> Iterator[Event]:
        """What the call itself does, once its arguments are there."""
        callee = self._value(call.func)
        if self._value(call).kind in (Kind.DEVICE, Kind.DTYPE):
            return
        if callee.kind is Kind.LIBRARY:
            yield from self._of_library(call, callee.ref or "")
        elif callee.kind is Kind.MODULE:
            if not (callee.is_layer and callee.ref in launches.SMALL_LAYERS):
                yield self._event(call, waits=False)
            is_wrapped = self._model.code.calls(*_WRAPS)
            forward = None if callee.cls is None or is_wrapped else self._model.method(callee.cls, "forward")
            yield from () if forward is None else self._of_project(call, forward)
        elif callee.function is not None:
            yield from self._of_project(call, callee.function)
        elif isinstance(call.func, ast.Attribute):
            yield from self._of_method(call, call.func)
        elif callee.kind is Kind.CLASS and callee.cls is not None:
            made_by = self._model.method(callee.cls, "__init__")
            yield from () if made_by is None else self._of_project(call, made_by)
        elif not self._gets_host_copies(call):
            yield self._event(call, waits=False)

    def _gets_host_copies(self, call: ast.Call) -> bool:
        """`log(loss.cpu(), step)`: whether a function that shows things by its name gets copies on the host alone."""
        if not _SHOWS.search((last_name(call.func) or "").lower()):
            return False
        given = [self._value(each) for each in given_to(call)]
        copies = [each for each in given if each.device is Device.CPU and each.holds_tensors and each.origin is None]
        return bool(copies) and all(
            each.device is Device.CPU or (each.kind in _QUIET_KINDS and not each.holds_tensors) for each in given
        )

    def _of_library(self, call: ast.Call, ref: str) -> Iterator[Event]:
        root, _, name = ref.rpartition(".")
        given = given_to(call)
        first = int(name in torch_api.VIEW_METHODS)  # `torch.reshape(x, (n, -1))`
        if ref.startswith(("torch.", "builtins.range")) and reads_size(name, call, first, self._values):
            yield self._event(call, waits=True)
        if root == "builtins" or ref.startswith(launches.CONSUMING_ROOTS):
            yield from self._of_builtin(call, name, given)
        elif ref.partition(".")[0] in launches.HOST_ROOTS:
            if root == "math" and any(map(self._is_one, given)):
                yield self._event(call, waits=True)
        elif ref in launches.SYNCHRONIZE or any(map(self._is_there, checked_arguments(call, ref, given))):
            yield self._event(call, waits=True)
        elif ref in torch_api.HOST_DATA_FACTORIES:
            data = self._value(given[0]) if given else UNKNOWN
            if self._is_there(call) and (data.device is Device.CPU or data.kind in _HOST_DATA):
                yield self._event(call, waits=True, uploads=True)
        elif name in torch_api.SIZED_BY_DATA and any(map(self._is_there, given)):
            yield from self._sized(call, of_method=False)
        elif is_distribution(self._value(call)):
            yield from self._distribution(call, given)
        elif (
            not ref.startswith(launches.QUIET_ROOTS)
            and self._value(call).device is not Device.CPU
            and not is_small(ref)
            and not (root.partition(".")[0] != "torch" and self._gets_host_copies(call))
        ):
            yield self._event(call, waits=False)

    def _of_builtin(self, call: ast.Call, name: str, given: list[ast.expr]) -> Iterator[Event]:
        """`float(x)` and `max(x, y)` wait for a tensor; what goes over its arguments, or calls one, may launch."""
        if name in launches.READING_BUILTINS or self._compares(call, name):
            if any(map(self._is_one, given)):
                yield self._event(call, waits=True)
        elif name == "next" and given and self.hands_out_quietly(given[0]):
            yield from self.of_consumed(call, given[1:])
        elif name not in launches.QUIET_BUILTINS:
            yield from self.of_consumed(call, given)

    def _compares(self, call: ast.Call, name: str) -> bool:
        """`min(a, b)`: whether a call compares what it is given, and goes over nothing."""
        is_of_two = name in ("max", "min") and len(call.args) > 1 and not call.keywords
        return is_of_two and not is_spread(call) and not any(map(self._is_object, call.args))

    def _sized(self, call: ast.Call, *, of_method: bool) -> Iterator[Event]:
        """A call whose result's size is in the data, unless an argument gives it."""
        name = last_name(call.func) or ""
        size, place = torch_api.SIZE_ARGUMENTS.get(name, ("", None))
        has_size = any(keyword.arg in (size, None) for keyword in call.keywords)
        has_size = has_size or (place is not None and len(call.args) > place - of_method)
        if not has_size and not (name == "where" and len(call.args) + of_method > 1):
            yield self._event(call, waits=True)

    # -- distributions -----------------------------------------------------------------------------------------------

    def _distribution(self, call: ast.Call, given: list[ast.expr]) -> Iterator[Event]:
        """A distribution is made, and asks whether its parameters are valid."""
        made = self._value(call)
        if made.ref not in distributions_api.SHORT:
            yield self._event(call, waits=False)
        elif made.created is call and self._model.is_checked(made) and any(map(self._is_there, given)):
            yield self._event(call, waits=True)

    def _of_distribution(self, call: ast.Call, name: str, owner: Value) -> Iterator[Event]:
        """Draws and densities: a density checks its value, and some draws check the deviation; both wait."""
        is_computed = name in distributions_api.DRAW or name in distributions_api.COMPUTE
        if not (is_computed and owner.ref in distributions_api.SHORT):
            yield self._event(call, waits=False)
            return
        is_checked = name in distributions_api.CHECK_THEIR_VALUE and self._model.is_checked(owner)
        draws = name == "sample" and (owner.ref or "").rpartition(".")[2] in distributions_api.DRAWS_WITH_A_TEST
        if (is_checked or draws) and self._is_there(call):
            yield self._event(call, waits=True)

    # -- methods -----------------------------------------------------------------------------------------------------

    def _of_method(self, call: ast.Call, func: ast.Attribute) -> Iterator[Event]:
        name, owner = func.attr, self._value(func.value)
        if owner.holds_tensors or (owner.device.on_accelerator and owner.kind is Kind.UNKNOWN):
            yield from self._of_tensor(call, name, owner)
        elif is_distribution(owner) and owner.cls is None:
            yield from self._of_distribution(call, name, owner)
        elif owner.kind in _QUIET_KINDS or owner.device is Device.CPU or is_of_schedule(call, func):
            return
        elif (owner.kind, name) == (Kind.SCALER, "update"):
            return  # a number is halved or doubled
        elif owner.cls is None and (
            (moves_bar(call) and all(self._value(each).kind in _QUIET_KINDS for each in given_to(call)))
            or name in launches.MODES
            or is_of_parts(call, name, owner.kind)
            or self._steps_environment(call, func)
        ):
            return
        elif name not in launches.QUIET_METHODS or not self._may_be_quiet(call, owner):
            yield self._event(call, waits=False)

    def _steps_environment(self, call: ast.Call, func: ast.Attribute) -> bool:
        """`env.step(action)`: whether an environment by its name gets an action that lies on the host, or starts."""
        name = last_name(func.value) or ""
        given = given_to(call)
        if environments.NAMES.search(name) is None or is_spread(call):
            return False
        if func.attr == environments.STARTS_IT:
            return all(self._value(each).kind in _QUIET_KINDS for each in given)
        return func.attr == environments.STEPS_IT and bool(given) and all(map(self._is_on_host, given))

    def _is_on_host(self, node: ast.expr) -> bool:
        """Whether it is surely no tensor on the device: an array, a number, or a copy."""
        value = self._value(node)
        is_copy = value.holds_tensors and value.device is Device.CPU and value.origin is None
        return is_copy or value.kind in (Kind.NUMPY, Kind.NUMBER)

    def _may_be_quiet(self, call: ast.Call, owner: Value) -> bool:
        """Whether a method by such a name is one of the host; that of an attribute which gets tensors is not."""
        is_attribute = owner.kind is Kind.METHOD and not any(self._value(each).holds_tensors for each in given_to(call))
        return owner.kind in (Kind.UNKNOWN, Kind.LOADER) or is_attribute

    def _of_tensor(self, call: ast.Call, name: str, owner: Value) -> Iterator[Event]:
        there = owner.device.on_accelerator and not owner.mixed
        is_known = owner.kind is Kind.TENSOR or name in _OF_TENSORS or name in launches.QUIET_METHODS
        if is_known and reads_size(name, call, 0, self._values):
            yield self._event(call, waits=True)
        if name in launches.HEAVY_METHODS or not is_known:
            yield self._event(call, waits=False)
        elif name in torch_api.HOST_READS:
            if there:
                yield self._event(call, waits=True)
        elif name in ("cpu", "to", "cuda"):
            if surely_waits(call):
                if there and self._value(call).device is Device.CPU:
                    yield self._event(call, waits=True)
                elif owner.device is Device.CPU and self._is_there(call):
                    yield self._event(call, waits=True, uploads=True)
        elif name in torch_api.SIZED_BY_DATA and there:
            yield from self._sized(call, of_method=True)

    def _of_project(self, node: ast.expr, function: FunctionInfo) -> Iterator[Event]:
        """What a function of the project does when the expression calls it: its launches, and its certain waits."""
        is_abstract = function.cls is not None and function.is_abstract  # what overrides it may launch anything
        if self._of_call is None or function.is_module or is_abstract or not runs_its_body(function):
            yield self._event(node, waits=False)
            return
        inside = self._of_call(function, self._depth + 1)
        yield from (self._event(node, waits=each.waits) for each in inside if not each.waits or each.certain)
