"""Host reads of device scalars (`x.item()`, `float(x)`, `int(x)`) and their sinks.

The rules of the sync group share this module: each read has one sink, and one rule owns each sink.
"""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.findings import NoFix, Unproven
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.metrics import meters
from torchperf_lint.idioms.metrics.metric_calls import aggregates
from torchperf_lint.idioms.sync import helpers, norms
from torchperf_lint.idioms.written_helpers import READERS, stands_in
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.knowledge.loggers import (
    DISPLAYS,
    LIGHTNING_LOGS,
    LOG_OBJECTS,
    LOGS_NUMBERS,
    RECORDS,
    SAYS_WHEN,
    TAKE_TEXT,
    WARNINGS,
)
from torchperf_lint.knowledge.torch_api import TAKES_SIZES
from torchperf_lint.model.domain.frequency import Frequency, HotPath
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Model, Site, Value

_BEFORE_READ = frozenset({"detach", "cpu", "clone", "contiguous"})
_COMPREHENSIONS = ("ListComp", "GeneratorExp", "SetComp", "DictComp")


FINITE_CHECKS = ("isnan", "isfinite", "isinf")
_EXITS = ("exit", "_exit", "abort", "quit")


class Sink(enum.Enum):
    """The use of a read; the first that fits."""

    ACCUMULATED = "added to a running sum"
    COLLECTED = "appended to a list"
    FRAMEWORK_LOG = "logged through a framework that takes tensors"
    METER = "fed to an average meter"
    METRIC = "fed to a torchmetrics aggregator on the device"
    SHOWN = "shown or logged"
    ELEMENT = "one of many elements read one by one"
    NORM = "the norm of one parameter after the other"
    CONDITION = "decides a branch, or acts on an environment"
    INDEX = "used as a size or index"
    ASIDE = "told in an error or a warning, or put off by a lambda"
    OTHER = "kept as a number"


COLD = HotPath(None, Frequency.SELDOM, ())
"""The frequency of a read that does not run in every step."""


class HostRead(NamedTuple):
    """A read of a device scalar that runs in every step."""

    site: Site  # the whole read: `loss.detach().cpu().item()`, `utils.item(loss)`
    tensor: cst.BaseExpression  # the tensor read: `loss`
    role: Sink
    sink: str  # the consumer of the number, e.g. `self.log`, `losses.append`; of an ELEMENT, how often one is read
    parent: cst.CSTNode | None  # the consumer's node: a Call, AugAssign, ...
    hot_path: HotPath
    because: tuple[Because, ...]
    helper: str = ""  # the reading operation, where a helper in the project does it
    is_mixed: bool = False  # what is read is a tensor on some paths and a number on others

    @property
    def by_helper(self) -> bool:
        """Whether a call of a reading helper in the project makes the read: few fixes look into it."""
        return self.helper != ""

    @property
    def unfixed(self) -> NoFix | None:
        """Why most fixes leave the read as it is, whatever takes the number."""
        return NoFix.BY_HELPER if self.by_helper else NoFix.MAY_BE_A_NUMBER if self.is_mixed else None

    @property
    def reader(self) -> str:
        """The reading operation: `item`, `float` or `int`."""
        if self.helper:
            return self.helper
        func = self.site.node.func
        return func.value if isinstance(func, cst.Name) else "item"


def hot_reads(model: Model) -> tuple[HostRead, ...]:
    """The reads of device scalars in every step, in source order, one per chain."""
    return model.remember("hot_reads", lambda: tuple(_hot_reads(model)))


def hot_read_of(model: Model, site: Site) -> HostRead | None:
    """The read among these that begins where a site does."""
    by_start = model.remember("hot_read_of", lambda: {each.site.start: each for each in hot_reads(model)})
    return by_start.get(site.start)


def _hot_reads(model: Model) -> Iterator[HostRead]:
    by_helpers = {each.site.start: each.site for each in helpers.helper_reads(model) if not each.copies}
    found = (site for site in model.scalar_reads(hot=True) if not helpers.stands_in_reader(model, site))
    sites = {each.start: each for each in found if not _is_written(model, each)}
    covered = 0
    for start, site in sorted({**by_helpers, **sites}.items()):
        hot_path = model.hot_path(site)
        if hot_path is not None and start >= covered:
            covered = site.end
            yield from _read(model, site, hot_path)


def element_reads(model: Model) -> Iterator[HostRead]:
    """The reads that take one element after another: hot ones in a loop, any in a comprehension.

    Reads in a loop of steps but behind a sampling guard are left out, and so are helpers called like this.
    """
    found = {read.site.start: read for read in hot_reads(model) if read.role is Sink.ELEMENT}
    for site in model.scalar_reads(hot=False, repeated=True):
        if not _is_sampled(model, site) and not _is_written(model, site):
            found.update(
                {
                    read.site.start: read
                    for read in _read(model, site, model.hot_path(site))
                    if read.role is Sink.ELEMENT
                }
            )
    yield from (found[start] for start in sorted(found))


def _read(model: Model, site: Site, hot_path: HotPath | None) -> Iterator[HostRead]:
    call = site.node
    assert isinstance(call, cst.Call)
    tensor = _read_tensor(model, call)
    because = None if tensor is None else model.on_device(tensor)
    if tensor is None or because is None:
        return
    role, sink, parent = _role(model, site, tensor)
    if _is_norm_for_total(model, site, tensor, role, parent):
        role = Sink.NORM
    helper = next((each for each in helpers.helper_reads(model) if each.site is site), None)
    because = because if helper is None else (*because, helper.because)
    is_mixed = helper is None and _converted(model, call) is not None and model.value(tensor).mixed
    if is_mixed and model.value(tensor).scalar is not True:
        return
    if is_mixed:
        says = f"`{model.brief(tensor)}` is a number on other paths, or in other calls"
        step = Unproven(model.source.row(site.start), says)
        because = (*because, step)
    reader = "" if helper is None else helper.reader
    read = HostRead(site, tensor, role, sink, parent, hot_path or COLD, because, reader, is_mixed)
    if hot_path is not None and role in (Sink.ACCUMULATED, Sink.COLLECTED):
        read = read._replace(role=_role_by_reads(model, read))
    yield read


def _is_written(model: Model, site: Site) -> bool:
    """Whether the read stands in a function that a fix wrote."""
    return any(stands_in(model, site, helper) for helper in READERS)


def _is_sampled(model: Model, site: Site) -> bool:
    """Whether the site runs in every n-th step, in the first ones, at an error, under a logging flag ..."""
    return model.is_sampled_on_the_way(model.statement_of(site.node), model.ast_of(site.node))


def _is_norm_for_total(
    model: Model, site: Site, tensor: cst.BaseExpression, role: Sink, parent: cst.CSTNode | None
) -> bool:
    """Whether the norm of a parameter, or of its gradient, is read to be summed up or collected over all of them."""
    if role is Sink.OTHER and isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name):
        if not norms.is_summed_up(model, parent.targets[0].target.value, site):
            return False
    elif role not in (Sink.ACCUMULATED, Sink.COLLECTED) and (role is not Sink.ELEMENT or parent is None):
        return False
    return not isinstance(parent, cst.DictComp) and norms.is_one_of_many(model, site, tensor)


def _role_by_reads(model: Model, read: HostRead) -> Sink:
    """The sink of a read: a sum or list that every pass looks at cannot wait for the end of the loop."""
    name = read.sink.rpartition(".")[0] if read.role is Sink.COLLECTED else read.sink
    if not name.isidentifier():
        return read.role
    looked_at = [
        use
        for use in model.uses(name, read.site, read.hot_path).of("load")
        if use.inside and not use.sampled and not (use.call or "").startswith(name + ".append")
    ]
    if not looked_at:
        return read.role
    return Sink.SHOWN if all(use.displayed for use in looked_at) else Sink.OTHER


def _read_tensor(model: Model, call: cst.Call) -> cst.BaseExpression | None:
    """The argument of `.item()`, `float(...)`, `int(...)` or a reading helper, without detach() and cpu()."""
    read = _converted(model, call)
    if isinstance(read, cst.Call) and (shape.method_name(read) == "item" or _is_by_helper(model, read)):
        call, read = read, None
    if _is_by_helper(model, call):
        read = call.args[0].value
    if read is not None:
        return _beneath(model, read) if _is_tensor(model, read) else None
    receiver = shape.receiver(call)
    return None if receiver is None or call.args else _beneath(model, receiver)


def _beneath(model: Model, node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.detach().cpu()`, `x.to("cpu")` and `x.data`, which is an older form of `x.detach()`."""
    while (inner := _beneath_call(shape.without_calls(node, _BEFORE_READ))) is not node:
        node = inner
    if isinstance(node, cst.Attribute) and node.attr.value == "data" and model.value(node.value).kind is Kind.TENSOR:
        return node.value
    return node


def _beneath_call(node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.to("cpu")`."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return node
    place = node.args[0].value
    to_cpu = node.func.attr.value == "to" and isinstance(place, cst.SimpleString) and place.evaluated_value == "cpu"
    return node.func.value if to_cpu else node


def _converted(model: Model, call: cst.Call) -> cst.BaseExpression | None:
    """`x` of `float(x)` or `int(x)`, if these are the builtins."""
    if not isinstance(call.func, cst.Name) or len(call.args) != 1 or call.args[0].keyword or call.args[0].star:
        return None
    return call.args[0].value if model.value(call.func).ref in ("builtins.float", "builtins.int") else None


def _is_by_helper(model: Model, call: cst.Call) -> bool:
    return any(each.site.node is call and not each.copies for each in helpers.helper_reads(model))


def _is_tensor(model: Model, node: cst.BaseExpression) -> bool:
    """Whether the converted value is a tensor; an entry of a batch may be a number already."""
    value = model.value(node)
    if value.kind is Kind.METHOD and value.ref == "data" and value.element is not None:
        value = value.element
    return value.kind is Kind.TENSOR or (value.kind is Kind.PYTREE and value.origin is None)


def _role(model: Model, site: Site, tensor: cst.BaseExpression) -> tuple[Sink, str, cst.CSTNode | None]:
    needed = needed_at_once(model, site)
    walked = _walked_over(model, site, tensor) if needed in (None, Sink.INDEX) else None
    if walked is None and needed is Sink.INDEX:
        walked = _walked_in_comprehension(model, site, tensor)
    if walked is not None:
        return Sink.ELEMENT, walked, None  # copying everything at once would read the indices as well
    if needed is not None:
        return needed, "", None
    node: cst.CSTNode = site.node
    parent = model.parent(node)
    while parent is not None and not isinstance(parent, cst.Lambda):
        found = _role_under(model, site, node, parent)
        if found is not None:
            return found
        node, parent = parent, model.parent(parent)
    return Sink.OTHER, "", None


def needed_at_once(model: Model, site: Site) -> Sink | None:
    """The sink of a read whose number decides the program's next step, at any depth of the statement.

    A check for NaN or infinities that leaves the step is no such need: the device can make it, and be asked later.
    """
    role: Sink | None = None
    is_checked = False
    node: cst.CSTNode = site.node
    parent = model.parent(node)
    while parent is not None:
        name = shape.method_name(parent) if isinstance(parent, cst.Call) else None
        if isinstance(parent, cst.Lambda) and model.runs_in_calls(site):
            return role
        if isinstance(parent, (cst.Lambda, cst.Raise)) or name in WARNINGS:
            return Sink.ASIDE
        if isinstance(parent, cst.Assert) and node is parent.msg:
            return Sink.ASIDE
        is_checked = is_checked or name in FINITE_CHECKS
        if isinstance(parent, (cst.If, cst.While, cst.Assert, cst.IfExp)) and node is parent.test:
            role = role or (None if is_checked and _leaves(model.statement_of(site.node)) else Sink.CONDITION)
        elif isinstance(parent, (cst.Index, cst.Slice)) or (name in TAKES_SIZES and isinstance(node, cst.Arg)):
            role = role or Sink.INDEX
        elif name == "step" and isinstance(parent, cst.Call) and "env" in (shape.dotted(parent.func) or "").lower():
            role = role or Sink.CONDITION
        node, parent = parent, model.parent(parent)
    return role


def _leaves(tested: ast.stmt) -> bool:
    """Whether a test that holds ends the run or the step."""
    if not isinstance(tested, ast.If):
        return isinstance(tested, ast.Assert)
    last = tested.body[-1]
    is_exit = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and last_name(last.value.func) in _EXITS
    return is_exit or isinstance(last, (ast.Raise, ast.Continue, ast.Break, ast.Return))


def _walked_over(model: Model, site: Site, tensor: cst.BaseExpression) -> str | None:
    """How often a loop inside the step makes the read, if each pass reads another element: `t[i].item()`."""
    tensor = _element(tensor)
    for targets, iterated, over_tensors in surroundings.inner_walks(model, site):
        if isinstance(tensor, cst.Subscript):
            indices = [part.slice.value for part in tensor.slice if isinstance(part.slice, cst.Index)]
            if any(isinstance(index, cst.Name) and index.value in targets for index in indices):
                return f"pass of the loop over `{iterated}`"
        elif isinstance(tensor, cst.Name) and tensor.value in targets and over_tensors:
            return _per_element(iterated)
    return None


def _per_element(walked: str) -> str:
    return f"element of `{' '.join(walked.split())}`"


def _element(node: cst.BaseExpression) -> cst.BaseExpression:
    """`t[i]` of `t[i].long().sum(0)` and `torch.multinomial(t[i], 1)`: what is computed from an element is one, too."""
    while isinstance(node, cst.Call):
        is_torch = isinstance(node.func, cst.Attribute) and shape.dotted(node.func.value) in ("torch", "F")
        if is_torch and node.args:
            node = node.args[0].value
        elif isinstance(node.func, cst.Attribute):
            node = node.func.value
        else:
            break
    return node


def _walked_in_comprehension(model: Model, site: Site, tensor: cst.BaseExpression) -> str | None:
    """The same for a comprehension around the read: `[names[label.item()] for label in labels]`."""
    node: cst.CSTNode | None = model.parent(site.node)
    while node is not None and isinstance(tensor, cst.Name):
        loop = getattr(node, "for_in", None)
        if loop is not None and isinstance(loop.target, cst.Name) and loop.target.value == tensor.value:
            return _per_element(model.text(loop.iter))
        node = model.parent(node)
    return None


def _role_under(
    model: Model, site: Site, node: cst.CSTNode, parent: cst.CSTNode
) -> tuple[Sink, str, cst.CSTNode | None] | None:
    """The sink that a parent gives its child; None to continue outwards."""
    if isinstance(parent, cst.AugAssign):
        if isinstance(parent.operator, cst.AddAssign) and node is parent.value:
            return Sink.ACCUMULATED, model.text(parent.target), parent
        return Sink.OTHER, "", parent
    if type(parent).__name__ in _COMPREHENSIONS and not isinstance(node, cst.CompFor):
        return _role_in_comprehension(model, site, parent)
    if isinstance(parent, (cst.Comparison, cst.BooleanOperation)):
        # `labels == label.item()` is a tensor.
        return None if model.value(parent).is_tensor else (Sink.CONDITION, "", parent)
    if isinstance(parent, (cst.FormattedStringExpression,)):
        return Sink.SHOWN, "an f-string", parent
    if shape.is_filled_text(parent):
        return Sink.SHOWN, "a formatted string", parent
    if isinstance(parent, cst.Call) and isinstance(node, cst.Arg):
        return _role_in_call(model, site, parent, node)
    if isinstance(parent, cst.Return) and (model.framework(site) or "").startswith("ignite"):
        return Sink.FRAMEWORK_LOG, "the engine", parent
    if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.Return)):
        return Sink.OTHER, "", parent
    return None


def _role_in_comprehension(model: Model, site: Site, comprehension: Any) -> tuple[Sink, str, cst.CSTNode]:
    argument = model.parent(comprehension)
    call = model.parent(argument) if isinstance(argument, cst.Arg) else None
    if (
        isinstance(call, cst.Call)
        and isinstance(argument, cst.Arg)
        and shape.dotted(call.func) == "self.log_dict"
        and _logs_by_lightning(model, site, call)
        and _is_logged(call, argument, "log_dict")
    ):
        return Sink.FRAMEWORK_LOG, "self.log_dict", call
    return Sink.ELEMENT, _per_element(model.text(comprehension.for_in.iter)), comprehension


def _logs_by_lightning(model: Model, site: Site, call: cst.Call) -> bool:
    """Whether `self.log` is Lightning's own, not a method that the file replaces it with."""
    return model.in_lightning_module(site) and model.value(call.func).function is None


def _is_logged(call: cst.Call, argument: cst.Arg, name: str) -> bool:
    """Whether the argument of Lightning's `self.log` or `self.log_dict` is logged, and not a setting."""
    place, keyword = LIGHTNING_LOGS[name]
    if argument.keyword is not None:
        return argument.keyword.value == keyword
    return not argument.star and call.args.index(argument) == place


def _says_when(call: cst.Call, argument: cst.Arg, name: str, owner: str) -> bool:
    """Whether the argument says when something happened, in a tracker's call that records no value."""
    if name not in RECORDS or (name == "log" and owner in ("logger", "logging")):
        return False
    if argument.keyword is not None:
        return argument.keyword.value in SAYS_WHEN
    recorded = RECORDS[name] + (name == "log" and owner == "fabric")
    return not argument.star and call.args.index(argument) >= recorded


def _is_device_aggregator(model: Model, value: Value) -> bool:
    """A torchmetrics aggregator (or a collection) on the device: it takes the tensor as well as the number."""
    is_collection = value.kind is Kind.METRIC and value.ref == torchmetrics_api.COLLECTION
    return value.device.on_accelerator and (is_collection or aggregates(model, value))


def _role_in_call(
    model: Model, site: Site, call: cst.Call, argument: cst.Arg
) -> tuple[Sink, str, cst.CSTNode | None] | None:
    sink = model.text(call.func)
    name = shape.method_name(call) or ""
    owner = shape.receiver(call)
    owner_name = (shape.dotted(owner) or "").rpartition(".")[2] if owner is not None else ""
    if name in LIGHTNING_LOGS and owner_name == "self" and _logs_by_lightning(model, site, call):
        return Sink.FRAMEWORK_LOG if _is_logged(call, argument, name) else Sink.OTHER, sink, call
    if owner is not None:
        value = model.value(owner)
        if _is_device_aggregator(model, value) and name in ("update", "forward"):
            return Sink.METRIC, sink, call
        if name == "append" and value.kind is not Kind.LIBRARY:
            return Sink.COLLECTED, sink, call
        is_named = not isinstance(owner, cst.Call)
        if name in ("update", "add", "step", "__call__") and is_named and meters.is_meter(value, owner_name):
            return Sink.METER, sink, call
        if name == "update" and isinstance(owner, cst.Subscript) and model.text(owner.value).endswith("meters"):
            return Sink.METER, sink, call
    if _is_device_aggregator(model, model.value(call.func)):
        return Sink.METRIC, sink, call
    if shows(model, call):
        is_other = (name in TAKE_TEXT and not _is_log(owner_name)) or _says_when(call, argument, name, owner_name)
        return Sink.OTHER if is_other else Sink.SHOWN, sink, call
    if name in ("str", "format", "repr"):
        return Sink.SHOWN, sink, call
    if name in ("round", "abs", "float", "int", "dict", "list", "tuple", "exp", "sqrt", "log10", "pow", "min", "max"):
        return None
    return Sink.OTHER, sink, call


def shows(model: Model, call: cst.Call) -> bool:
    """Whether the call displays or records its arguments: a display, a logger's or an experiment tracker's method."""
    owner = shape.receiver(call)
    owner_name = (shape.dotted(owner) or "").rpartition(".")[2] if owner is not None else ""
    if is_display(model, call) or _is_log(owner_name):
        return True
    return shape.method_name(call) == "log" and owner_name in LOGS_NUMBERS


def _is_log(owner_name: str) -> bool:
    return owner_name.lower().strip("_") in LOG_OBJECTS


def is_display(model: Model, call: cst.Call) -> bool:
    """Whether the call displays its arguments: by its name, or, for a function of the project, by its code."""
    function = model.value(call.func).function
    if function is not None:
        return helpers.only_shows(model, function)
    return shape.method_name(call) in DISPLAYS


def may_lack_float64(model: Model, tensor: cst.BaseExpression) -> bool:
    """Whether the tensor may be on an accelerator without float64, such as Apple's."""
    return not model.is_cuda(model.value(tensor).device)
