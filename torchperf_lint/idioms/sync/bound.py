"""Reads bound to a name, `value = loss.item()`, or given for one, and how to read only where the name is needed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms.metrics import meters
from torchperf_lint.idioms.sync.destinations import goes_to
from torchperf_lint.idioms.sync.own_sums import added_anew
from torchperf_lint.knowledge.torch_api import TAKES_SIZES
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import last_name, names_in
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import FunctionInfo

_FED = "whatever reads the meter takes a tensor, which holds a float of one device, and the device has float64"
_UNWRITTEN = "nothing writes to the tensor in place before it is read"

_FILLS = frozenset({"full", "new_full"})
"""Of the functions that take sizes, those whose second argument is the value to fill with."""


def bound_name(read: HostRead) -> str | None:
    """The name or path that `name = x.item()`, `name: int = x.item()`, or `name = max(x.item(), 1)`, binds."""
    statement = read.parent
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        return shape.dotted(statement.targets[0].target)
    return shape.dotted(statement.target) if isinstance(statement, cst.AnnAssign) else None


def bounds_where_given(model: Model, read: HostRead) -> bool:
    """Whether a function of the project takes the number itself, and uses it as an index, a bound of a slice or a size.

    `crop(x, int(start))` with `def crop(x, start): return x[start:]`.
    """
    call, given = read.parent, read.site.node
    if not isinstance(call, cst.Call) or any(each.star for each in call.args):
        return False
    function = model.value(call.func).function
    place = next((position for position, each in enumerate(call.args) if each.value is given), None)
    if function is None or place is None:
        return False
    keyword, names = call.args[place].keyword, function.parameter_names[function.self_name is not None :]
    name = keyword.value if keyword is not None else names[place] if place < len(names) else None
    return name is not None and function.bound_names.count(name) == 1 and _is_index_in(function, name)


def _is_index_in(function: FunctionInfo, name: str) -> bool:
    for node in function.nodes:
        if isinstance(node, ast.Subscript) and name in names_in(node.slice):
            return True
        if not isinstance(node, ast.Call) or last_name(node.func) not in TAKES_SIZES:
            continue
        sizes = node.args[:1] if last_name(node.func) in _FILLS else node.args
        if any(name in names_in(each) for each in sizes):
            return True
    return False


def read_where_needed(model: Model, read: HostRead) -> Fix | NoFix:
    """Bind the tensor, and read it at its uses if each is behind a sampling guard or after the loop."""
    name = bound_name(read)
    if read.unfixed is not None:
        return read.unfixed
    statement = read.parent
    if name is None or not isinstance(statement, cst.Assign) or statement.value is not read.site.node:
        return goes_to(model, read.site.node)
    if not name.isidentifier():
        return NoFix.KEPT_IN_AN_OBJECT
    uses = model.uses(name, read.site, read.hot_path)
    loads = uses.of("load")
    if read.hot_path.loop is None:
        return _fed_as_tensor(model, read)
    if not uses.local or len(uses.of("store")) != 1 or uses.of("augment", "delete"):
        return NoFix.USED_OTHERWISE
    if not loads or any(use.nested or use.formatted_with_name for use in loads):
        return NoFix.USED_OTHERWISE
    if not all(use.sampled or (use.after and not use.again) for use in loads):
        return NoFix.NEEDED_IN_THE_STEP
    if read.reader != "item" and not model.keeps_builtin(read.reader):
        return NoFix.NO_ROOM
    changed = edits.together(
        edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + ".detach()"),
        *(Edit(use.start, use.end, _reading(read.reader, name).encode()) for use in loads),
    )
    title = "read the value only where it is used"
    return NoFix.NO_ROOM if changed is None else Fix(title, Safety.UNSAFE, changed, _UNWRITTEN)


def _fed_as_tensor(model: Model, read: HostRead) -> Fix | NoFix:
    """`value = value.detach().double()` for `value = value.item()` in a meter, which adds it up: as Python does."""
    function, statement = model.function_of(read.site), model.statement_of(read.site.node)
    fed = meters.only_adds_up_once_read(model, function, statement) if read.reader == "item" else None
    if fed is None:
        return NoFix.LOOP_ELSEWHERE
    if (model.value(read.tensor).dtype or "float").startswith(("int", "uint", "bool")):
        return NoFix.DTYPE_UNKNOWN  # whole numbers would be shown as others
    if any(map(_is_of_host, meters.given(model, function, fed.name))):
        return NoFix.USED_OTHERWISE
    plain = "" if model.value(read.tensor).scalar else ".reshape(())"
    new = f"{edits.postfix(read.site.tree, read.tensor)}.detach().double(){plain}"
    # Another `+=` would write to the tensor that whoever read the sum has.
    anew = [added_anew(model, each) for each in fed.additions]
    changed = edits.together(edits.replace(read.site.tree, read.site.node, new), *anew)
    grade = Safety.SHOWN if meters.readers_take_numbers_alone(model) else Safety.UNSAFE
    return NoFix.NO_ROOM if changed is None else Fix("let the meter add up tensors", grade, changed, _FED)


def _is_of_host(given: Value) -> bool:
    return given.kind is Kind.NUMPY or (given.holds_tensors and given.device is Device.CPU)


def _reading(reader: str, name: str) -> str:
    """The original read, of the name: `item()` returns a float, an int or a bool, as the tensor's dtype is."""
    return f"{name}.item()" if reader == "item" else f"{reader}({name})"
