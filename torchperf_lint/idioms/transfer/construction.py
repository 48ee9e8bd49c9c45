"""Tensors that a torch function builds on the host, and the edits that build them on the device instead."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because, Safety
from torchperf_lint.idioms import evaluating, surroundings
from torchperf_lint.idioms.arguments import passed
from torchperf_lint.idioms.caches import guards, runs_in_every_step
from torchperf_lint.idioms.transfer.hostmade import PLAIN_KEYWORDS, HostMade, gives_size, packed_kind, packs_host_data
from torchperf_lint.idioms.transfer.tables import is_table
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.hostmade import Maker
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model, Site

_EXACT_STEPS = frozenset(
    "view reshape unsqueeze squeeze flatten unflatten t transpose permute contiguous clone repeat tile flip roll tril "
    "triu view_as reshape_as zero_ detach".split()
) | frozenset(torch_api.DTYPE_METHODS)
ALIASING_STEPS = frozenset("expand expand_as broadcast_to".split())
_SMALL = frozenset(f"torch.{name}" for name in "zeros ones empty eye rand".split())
"""Factories of floats that every integer holds, their fractions apart, or of nobody knows what."""
_SMALL_AND_WHOLE = frozenset(f"torch.{name}" for name in "zeros ones eye".split())
_RANDOM_STEPS = frozenset("uniform_ normal_ random_ exponential_ bernoulli_ log_normal_ cauchy_ geometric_".split())
_WRAPPERS = frozenset({"torch.tril", "torch.triu"})
_ASK_FOR_TYPES = frozenset({"isinstance", "is_tensor", "type"})
_OPEN = (Kind.UNKNOWN, Kind.METHOD)


class Built(NamedTuple):
    """A tensor built on the host: the call that builds it, and whether the later operations are exact on any device."""

    call: cst.Call
    ref: str
    exact: bool
    bare: bool  # no operation between the call and the place where the tensor is used
    sized: bool = False  # `torch.LongTensor(b, n)`, whose numbers are sizes

    @property
    def packs(self) -> bool:
        """Whether it packs Python data."""
        return not self.sized and (self.ref in torch_api.HOST_DATA_FACTORIES or self.ref in torch_api.LEGACY_FACTORIES)


def built_on_host(model: Model, node: cst.BaseExpression, exact: bool = True, bare: bool = True) -> Built | None:
    """The factory call at the root of `torch.zeros(n).float()`; None for anything but such a chain."""
    if isinstance(node, cst.Subscript) and all(map(is_whole, node.slice)):
        return built_on_host(model, node.value, exact, False)
    if isinstance(node, cst.BinaryOperation):
        return _reckoned_on_host(model, node, exact)
    if not isinstance(node, cst.Call):
        return None
    called = model.value(node.func)
    if called.kind is Kind.LIBRARY:
        ref = called.ref or ""
        if ref in _WRAPPERS and node.args and node.args[0].keyword is None and not node.args[0].star:
            return built_on_host(model, node.args[0].value, exact, False)
        made = made_of(model, node)
        return None if made is None else made._replace(exact=exact, bare=bare)
    name, inner = shape.method_name(node), shape.receiver(node)
    if inner is None or name is None or any(argument.star or argument.keyword is not None for argument in node.args):
        return None
    if name == "type" and len(node.args) == 1 and _asks_type(node.args[0].value):
        return built_on_host(model, inner, False, False)
    if name in ("to", "type"):
        same = len(node.args) == 1 and model.value(node.args[0].value).kind is Kind.DTYPE
        exact = exact and not may_wrap(model, inner, model.value(node.args[0].value).dtype)
        return built_on_host(model, inner, exact, False) if same else None
    if name == "fill_":
        same = len(node.args) == 1 and model.value(node.args[0].value).kind is Kind.NUMBER
        if same and isinstance(inner, cst.Call) and _is_sized(model, inner):
            return Built(inner, model.value(inner.func).ref or "", exact, False, sized=True)
        return built_on_host(model, inner, exact, False) if same else None
    if name == "fill_diagonal_":
        same = len(node.args) == 1 and model.value(node.args[0].value).kind is Kind.NUMBER
        return built_on_host(model, inner, exact, False) if same else None
    if name in _EXACT_STEPS:
        exact = exact and not may_wrap(model, inner, torch_api.DTYPE_METHODS.get(name, "bool"))
        return built_on_host(model, inner, exact, False)
    if name in ALIASING_STEPS or name in _RANDOM_STEPS:
        return built_on_host(model, inner, False, False)
    return None


def made_of(model: Model, call: cst.Call) -> Built | None:
    """A factory that is called with nothing that binds the tensor to the host."""
    ref = model.value(call.func).ref or ""
    if ref in FILLABLE and (_packs_one(call) or _repeats_one(call)):
        return Built(call, ref, True, True)
    if ref not in torch_api.FACTORIES or model.value(call).device is not Device.CPU or not _is_plain(call):
        return None
    return Built(call, ref, True, True)


def _is_sized(model: Model, call: cst.Call) -> bool:
    """`torch.LongTensor(b, n)`, which makes a tensor of these sizes, filled with anything."""
    given = [each.value for each in call.args if not each.star and each.keyword is None]
    is_one = len(given) == 1 and model.value(given[0]).kind is Kind.NUMBER
    is_whole = len(given) == len(call.args) and (len(given) > 1 or is_one)
    return is_whole and model.value(call.func).kind is Kind.LIBRARY and model.value(call.func).ref in FILLABLE


def _reckoned_on_host(model: Model, node: cst.BinaryOperation, exact: bool) -> Built | None:
    """`torch.arange(n) + 1`, of integers, or of zeros and ones with a small number, so that no device rounds."""
    inner = counts_on(model, node)
    built = None if inner is None else built_on_host(model, inner, exact, False)
    if inner is None or built is None or built.packs or built.sized:
        return None
    number = node.right if inner is node.left else node.left
    is_whole = (model.value(inner).dtype or "").startswith("int")
    is_small = isinstance(inner, cst.Call) and inner is built.call and built.ref in _SMALL_AND_WHOLE
    return built if is_whole or (is_small and _is_byte(model, number)) else None


def counts_on(model: Model, node: cst.BinaryOperation) -> cst.BaseExpression | None:
    """The tensor of a sum, difference or product with an integer of Python."""
    if not isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply)):
        return None
    tensors = [each for each in (node.left, node.right) if model.value(each).is_tensor]
    if len(tensors) != 1:
        return None
    number = model.value(node.right if tensors[0] is node.left else node.left)
    is_whole = number.kind is Kind.NUMBER and (number.dtype == "int" or type(number.constant) is int)
    return tensors[0] if is_whole else None


def counts_alike(model: Model, built: Built) -> bool:
    """Whether `torch.arange` gives the same numbers on every device: integers, or those from 0 in steps of one."""
    if built.ref != "torch.arange":
        return False
    counts_up = len(built.call.args) == 1 and built.call.args[0].keyword is None and not built.call.args[0].star
    return counts_up or (model.value(built.call).dtype or "").startswith(("int", "uint"))


def may_wrap(model: Model, node: cst.BaseExpression, dtype: str | None) -> bool:
    """Whether a cast of floats to this dtype gives integers that may not hold them, as the CPU and CUDA do differently.

    An unknown dtype may be one of integers.
    """
    made = model.value(node).dtype
    if (dtype or "").startswith(("bool", "float", "bfloat")) or not (made or "float").startswith(("float", "bfloat")):
        return False
    while isinstance(node, (cst.Call, cst.Subscript)):
        inner = node.value if isinstance(node, cst.Subscript) else shape.receiver(node)
        method = shape.method_name(node) if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Call) and method == "fill_diagonal_" and not _is_byte(model, node.args[0].value):
            return True
        fills = method == "fill_"
        if inner is None or model.value(inner).kind is not Kind.TENSOR or fills:
            break
        node = inner
    if isinstance(node, cst.BinaryOperation):
        return True
    ref = (model.value(node.func).ref or "") if isinstance(node, cst.Call) else ""
    if not isinstance(node, cst.Call) or ref in _SMALL or (made is None and ref == "torch.arange"):
        return False
    given = shape.argument(node, "fill_value", 1) if ref == "torch.full" else shape.argument(node, "value", 0)
    given = node.args[0].value if ref in FILLABLE or ref in torch_api.HOST_DATA_FACTORIES else given
    if isinstance(given, cst.List) and len(given.elements) == 1:
        given = given.elements[0].value
    if not isinstance(given, cst.BaseExpression):
        return True
    unsigned = given.expression if isinstance(given, cst.UnaryOperation) else given
    number = model.value(unsigned)
    is_int = made is None and (number.dtype == "int" or type(number.constant) is int)
    return not is_int and not _is_byte(model, given)


def _is_byte(model: Model, node: cst.BaseExpression) -> bool:
    """Whether the number is one that every dtype of integers holds, once its fraction is cut off."""
    constant = model.value(node).constant
    return isinstance(constant, (int, float)) and 0 <= constant <= _LARGEST_BYTE


def is_whole(element: cst.SubscriptElement) -> bool:
    """Whether a part of a subscript keeps all elements: `:`, `None` or `...`."""
    part = element.slice
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    node = part.value if isinstance(part, cst.Index) else None
    return isinstance(node, cst.Ellipsis) or (isinstance(node, cst.Name) and node.value == "None")


def _packs_one(call: cst.Call) -> bool:
    """`torch.FloatTensor([v])`."""
    data = call.args[0].value if len(call.args) == 1 and not call.args[0].star and not call.args[0].keyword else None
    one = data.elements if isinstance(data, cst.List) and len(data.elements) == 1 else ()
    return any(isinstance(each, cst.Element) and not isinstance(each.value, (cst.List, cst.Tuple)) for each in one)


def _repeats_one(call: cst.Call) -> bool:
    """`torch.IntTensor([v] * n)`."""
    data = call.args[0].value if len(call.args) == 1 and not call.args[0].star and not call.args[0].keyword else None
    if not isinstance(data, cst.BinaryOperation) or not isinstance(data.operator, cst.Multiply):
        return False
    return any(
        isinstance(each, cst.List)
        and len(each.elements) == 1
        and not isinstance(each.elements[0].value, (cst.List, cst.Tuple))
        for each in (data.left, data.right)
    )


def _asks_type(node: cst.BaseExpression) -> bool:
    """`x.type()` returns the name of a tensor's type."""
    return isinstance(node, cst.Call) and not node.args and shape.method_name(node) == "type"


def makers_on_host(model: Model, move: Move) -> tuple[Maker, ...]:
    """The calls in the same hot code that make all that is moved, perhaps lines above; empty if unclear."""
    moved = model.ast_of(move.moved)
    if moved is None or _waits_before_loop(model, move):
        return ()
    host = model.remember("made_on_host", lambda: HostMade(model))
    return host.makers(moved, model.function_of(move.site))


def packed_data(model: Model, node: cst.BaseExpression) -> str | None:
    """`a list`, `a tuple` (also of a shape) or `a range`, whatever it holds, if it is one and not empty."""
    meaning, value = model.ast_of(node), model.value(node)
    return packed_kind(meaning, value) if meaning is not None and packs_host_data(meaning, value) else None


def may_be_size(model: Model, node: cst.BaseExpression) -> bool:
    """Whether the old constructors, such as `torch.cuda.FloatTensor(n)`, may treat their argument as a size."""
    meaning, function = model.ast_of(node), model.function_of(model.site(node))
    if model.value(node).kind is Kind.NUMBER or meaning is None:
        return True
    return gives_size(meaning, lambda part: model.value_in(function, part)) is not False


def packed_by_callers(model: Model, site: Site, node: cst.BaseExpression) -> str | None:
    """The kind of host data that a call in every step hands over for the parameter; None if none is known to."""
    function, name = model.function_of(site), shape.dotted(node)
    if name not in function.parameter_names:
        return None
    rebound = [each for each in function.nodes if isinstance(each, ast.Name) and each.id == name]
    if any(not isinstance(each.ctx, ast.Load) and each.lineno < site.rows[0] for each in rebound):
        return None
    for record in model.callers(function):
        given = passed(record.call, function, name) if runs_in_every_step(model, record) else None
        if given is not None:
            value = model.value_in(record.function, given)
            if value.kind is Kind.NUMBER:
                return "a Python number"
            if value.kind is Kind.NUMPY:
                return "a NumPy array"
            if packs_host_data(given, value):
                return packed_kind(given, value)
    return None


def type_is_asked(model: Model, site: Site, node: cst.BaseExpression) -> bool:
    """Whether only some types of a name in the expression reach the site, perhaps not those that callers pass."""
    return any(True for _ in _asked(model, site, node))


def type_is_told_by_test(model: Model, site: Site, node: cst.BaseExpression) -> bool:
    """Whether nothing but such a test shows what a name in the expression is."""
    function = model.function_of(site)
    return any(model.value_in(function, each).kind in _OPEN for each in _asked(model, site, node))


def _asked(model: Model, site: Site, node: cst.BaseExpression) -> Iterator[ast.expr]:
    """The arguments of the tests of types that lead to the site, and have a name of the expression."""
    names = {name.value for name in shape.names_in(node)}
    statement, function = model.statement_of(site.node), model.function_of(site)
    chosen = [part.test for part in subtree(statement) if isinstance(part, ast.IfExp)]
    for test in (*guards(statement, function), *chosen):
        for part in subtree(test):
            if isinstance(part, ast.Call) and part.args and last_name(part.func) in _ASK_FOR_TYPES:
                first = part.args[0]
                if names & {name.id for name in subtree(first) if isinstance(name, ast.Name)}:
                    yield first


def _waits_before_loop(model: Model, move: Move) -> bool:
    """Whether the move's loop reads its tensor under the same name in every pass."""
    path = shape.dotted(move.moved)
    return (
        move.hot_path.loop is not None
        and path is not None
        and path not in surroundings.names_of_loop(model, move.hot_path)
    )


def table_moved(model: Model, move: Move) -> cst.Call | None:
    """The call `torch.from_numpy(table)` of a NumPy table that is made once and never changed, if that is moved."""
    node = move.moved
    while isinstance(node, cst.Call) and shape.method_name(node) in _EXACT_STEPS:
        is_function = (model.value(node.func).ref or "").startswith("torch.") and node.args
        inner = node.args[0].value if is_function else shape.receiver(node)
        if inner is None:
            return None
        node = inner
    if not isinstance(node, cst.Call) or model.value(node.func).ref != "torch.from_numpy" or len(node.args) != 1:
        return None
    array = model.ast_of(node.args[0].value)
    is_one = array is not None and is_table(model, array, model.function_of(move.site), is_array=True)
    return node if is_one else None


def made_here(model: Model, move: Move, maker: Maker) -> tuple[Because, ...]:
    """The place where a tensor is made, if not on the line of its move."""
    elsewhere = not model.has(maker.function)
    if not elsewhere and maker.call.lineno in range(move.site.rows[0], move.site.rows[1] + 1):
        return ()
    text = f"`{maker.name}(...)` builds on the CPU here"
    return (Because(maker.call.lineno, text, maker.function.path if elsewhere else None),)


def _is_plain(call: cst.Call) -> bool:
    """Whether no argument binds the tensor to the host: no generator, no pinning, no leaf for autograd."""
    return all(
        argument.star in ("", "*") and (argument.keyword is None or argument.keyword.value in PLAIN_KEYWORDS)
        for argument in call.args
    )


FILLABLE = {
    "torch.FloatTensor": "float32",
    "torch.DoubleTensor": "float64",
    "torch.LongTensor": "int64",
    "torch.IntTensor": "int32",
    "torch.Tensor": "get_default_dtype()",
}
"""Typed constructors, and the dtype with which `torch.full` gives the same tensor of one number."""

_LARGEST_BYTE = 127


def fits_every_dtype(model: Model, node: cst.BaseExpression) -> bool:
    """Whether it is a literal that all dtypes hold, but for the half that those of integers cut off."""
    number = model.value(node).constant if isinstance(node, (cst.Integer, cst.Float)) else None
    return isinstance(number, (int, float)) and 0 <= number <= _LARGEST_BYTE and (2 * number) % 1 == 0


def device_text(model: Model, move: Move) -> tuple[str, Safety] | None:
    """The text after `device=` for a move's destination; None if evaluating it earlier might matter."""
    node = move.device
    if node is None:
        return '"cuda"', Safety.SAFE
    if not is_pure(model, node) or "\n" in model.text(node):
        return None
    if move.like:
        # `x.type_as(y)` follows y in a traced graph, in which `y.device` and `y.dtype` are constants.
        follows = shape.method_name(move.call) == "type_as" and model.may_be_traced
        again = evaluating.written_twice(model, node)
        grade = None if again is None else again.at_worst(Safety.UNSAFE if follows else Safety.SAFE)
        return None if grade is None else (f"{model.text(node)}.device", grade)
    if shape.method_name(move.call) == "cuda":
        if isinstance(node, cst.Integer):
            return f'"cuda:{node.value}"', Safety.SAFE
        # `.cuda(None)` means the current device, `device=None` the host.
        return model.text(node), Safety.SAFE if model.device_named(node) is Device.CUDA else Safety.UNSAFE
    return model.text(node), Safety.SAFE


def is_pure(model: Model, node: cst.BaseExpression) -> bool:
    """Whether evaluating the expression a little earlier changes nothing: names, attributes, `torch.device(...)`."""
    if isinstance(node, (cst.Name, cst.SimpleString, cst.Integer)):
        return True
    if isinstance(node, cst.Attribute):
        return is_pure(model, node.value)
    if isinstance(node, cst.Subscript):
        return is_pure(model, node.value) and all(
            isinstance(part.slice, cst.Index) and is_pure(model, part.slice.value) for part in node.slice
        )
    if isinstance(node, cst.FormattedString):
        return all(
            isinstance(part, cst.FormattedStringText)
            or (isinstance(part, cst.FormattedStringExpression) and is_pure(model, part.expression))
            for part in node.parts
        )
    if isinstance(node, cst.IfExp):
        return is_pure(model, node.body) and is_pure(model, node.orelse)
    if isinstance(node, cst.Call):
        ref = model.value(node.func).ref
        walks_parameters = ref == "builtins.next" and len(node.args) == 1 and _gives_parameters(node.args[0].value)
        return walks_parameters or (
            ref in ("torch.device", "torch.cuda.current_device")
            and all(is_pure(model, argument.value) for argument in node.args)
        )
    return False


def _gives_parameters(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and not node.args and shape.method_name(node) in ("parameters", "buffers")


def in_format_string(model: Model, node: cst.CSTNode) -> bool:
    """Whether the node is in an f-string, whose text the quotes of a new string literal may end."""
    parent = model.parent(node)
    while parent is not None:
        if isinstance(parent, cst.FormattedString):
            return True
        parent = model.parent(parent)
    return False
