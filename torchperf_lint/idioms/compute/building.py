"""Calls that build a module with weights, or a metric: which they are, and whether they stand in code that builds."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.idioms.arguments import passed
from torchperf_lint.idioms.data.sample_code import makes_samples
from torchperf_lint.knowledge.layers import (
    FILTERS,
    GIVEN_WEIGHTS,
    LOSS_WEIGHTS,
    MODEL_ZOO,
    PARAMETERS,
    PRETRAINED,
    SWITCHES,
    WEIGHTED,
    WEIGHTED_LOSSES,
    ZOO_NAMES,
)
from torchperf_lint.knowledge.torch_api import HOLDERS
from torchperf_lint.knowledge.torchmetrics_api import metric_class
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import dotted, given_to, names_in
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Model, Site, Value
    from torchperf_lint.model.handles import CallRecord, ClassInfo, FunctionInfo, Loop

_NAMES = frozenset(ref.rpartition(".")[2] for ref in WEIGHTED | PRETRAINED | HOLDERS | WEIGHTED_LOSSES | FILTERS)
_MOVES = ("to", "cuda")
_MODEL_CLASS = re.compile(r"transformers\.\w*(Model|For[A-Z])\w*\.from_pretrained")
_BUILDS = frozenset("__init__ __post_init__ __new__ __setstate__ setUp setup build configure_model reset".split())
_ON_NO_DEVICE = "meta"
_GIVE_PARAMETERS = ("parameters", "named_parameters")
_READ_GRADIENTS = "torch.nn.utils."

WEIGHTS = "makes new weights"
METRIC = "makes a new metric"
READ = "reads weights from a file"
FILTER = "works out its filters anew"
LOSS = "makes a loss, and copies its weights to the device"


def hot_buildings(model: Model) -> Iterator[tuple[Site, str]]:
    """The calls, in every step, that build a module with weights or a metric, and what they do; outermost ones."""
    names = [name for name in model.called_names if _may_build(name)]
    does_by_call: dict[ast.Call, str | None] = {}

    def builds(record: CallRecord) -> bool:
        does_by_call[record.call] = built_by(model, record)
        return does_by_call[record.call] is not None

    sites = model.sites((*_NAMES, *names), True, builds, near_device=False)
    end = -1
    for site in sites:
        call = model.ast_of(site.node)
        does = does_by_call.get(call) if isinstance(call, ast.Call) else None
        if does == LOSS and not _is_moved(model, site):
            continue
        if site.end > end and does is not None and not _is_building(model, model.function_of(site), ()):
            end = site.end
            yield site, does


def filters_for_samples(model: Model) -> Iterator[tuple[Site, tuple[Because, ...]]]:
    """The calls that make filters for each sample of a loader, under no condition, with the evidence."""
    for site in model.calls(*FILTERS):
        if model.hot_path(site) is not None or any(model.place(site.node).tests()):
            continue
        because = makes_samples(model, site)
        if because is not None and not _is_building(model, model.function_of(site), ()):
            yield site, because


def serves_one_pass(model: Model, site: Site, loop: Loop) -> bool:
    """Whether the loop walks a loader, and no loop within it uses what the site makes, as one over a task would do.

    A loop over something else may make another model in each pass on purpose: of another size, or from another seed.
    """
    if not model.walks_loader(loop):
        return False
    statement, function = model.statement_of(site.node), model.function_of(site)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    made = {dotted(target) for target in targets} - {None}
    around = {id(each) for each in model.place(site.node).loops()}
    inner = [each for each in model.loops_in(function) if id(each) not in around and _stands_in(model, each, loop)]
    return not any(
        dotted(node) in made for each in inner for node in subtree(each) if isinstance(node, (ast.Name, ast.Attribute))
    )


def is_trained(model: Model, site: Site) -> bool:
    """Whether what the site makes is trained there and then: an optimizer gets it, or a function that does so.

    A new object in each step is then meant, as for test-time adaptation.
    """
    function, statement = model.function_of(site), model.statement_of(site.node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(
        _gives_parameters(model, function, name) or _hands_to_trainer(model, function, name)
        for name in filter(None, map(dotted, targets))
    )


def _gives_parameters(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether the function passes `name.parameters()` on, to an optimizer say, beyond what only reads gradients."""
    for record in function.calls_made:
        func = record.call.func
        if not isinstance(func, ast.Attribute) or func.attr not in _GIVE_PARAMETERS or dotted(func.value) != name:
            continue
        taker = function.parents.get(record.call)
        while isinstance(taker, (ast.keyword, ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.Starred)):
            taker = function.parents.get(taker)
        if isinstance(taker, ast.Call):
            ref = model.value_in(function, taker.func).ref or ""
            if not ref.startswith(_READ_GRADIENTS):
                return True
    return False


def _hands_to_trainer(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether the function passes the object to one of the project that trains it."""
    for record in function.calls_made:
        if name not in map(dotted, given_to(record.call)):
            continue
        helper = model.callee(record).function
        if helper is None or helper.is_lambda:
            continue
        home = model.home(helper)
        for parameter in helper.parameter_names:
            given = passed(record.call, helper, parameter)
            if given is not None and dotted(given) == name and _trains(home, helper, parameter):
                return True
    return False


def _trains(model: Model, helper: FunctionInfo, name: str) -> bool:
    """Whether the function gives the parameters to an optimizer, or has a loop of steps that runs the object."""
    return _gives_parameters(model, helper, name) or any(
        name in names_in(loop)
        and any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in subtree(loop))
        for loop in model.loops_in(helper)
    )


def _stands_in(model: Model, inner: ast.stmt, loop: ast.stmt) -> bool:
    return any(each is loop for each in model.place_of(inner).around())


def _may_build(name: str) -> bool:
    """Whether something of this name may be a class, or a function that makes a network."""
    return name.lstrip("_")[:1].isupper() or name == "from_pretrained" or name.startswith(ZOO_NAMES)


def _is_moved(model: Model, site: Site) -> bool:
    """`nn.CrossEntropyLoss(weight).to(device)`."""
    around = model.parent(site.node)
    return isinstance(around, cst.Attribute) and around.value is site.node and around.attr.value in _MOVES


def built_by(model: Model, record: CallRecord) -> str | None:
    """What a call does if it builds a module with weights or a metric; None if it is not shown to."""
    if _is_on_no_device(record.call):
        return None
    callee = model.callee(record)
    if callee.kind is Kind.CLASS and callee.cls is not None:
        return WEIGHTS if _has_weights(model, callee.cls) else None
    return _built_of_library(model, record, callee)


def _is_on_no_device(call: ast.Call) -> bool:
    return any(isinstance(key.value, ast.Constant) and key.value.value == _ON_NO_DEVICE for key in call.keywords)


def _built_of_library(model: Model, record: CallRecord, callee: Value) -> str | None:
    """What a call of a library's class or function builds, by itself or in its arguments."""
    ref = callee.ref or ""
    if callee.kind is Kind.METHOD or ref.endswith(".from_pretrained"):
        return READ if _MODEL_CLASS.fullmatch(ref) else None
    if callee.kind is not Kind.LIBRARY:
        return None
    if ref in HOLDERS:
        return _built_within(model, record)
    if ref in PRETRAINED or (ref.startswith(MODEL_ZOO) and ref.rpartition(".")[2].startswith(ZOO_NAMES)):
        return READ
    if ref in WEIGHTED_LOSSES:
        given = [key.value for key in record.call.keywords if key.arg in LOSS_WEIGHTS]
        values = [model.value_in(record.function, each) for each in (*given, *record.call.args[:1])]
        return LOSS if any(value.is_tensor and value.device is Device.CPU for value in values) else None
    if ref in FILTERS:
        return FILTER
    if ref in WEIGHTED:
        return WEIGHTS if _has_own(model, record, ref) else None
    return METRIC if metric_class(ref) is not None else None


def _built_within(model: Model, record: CallRecord) -> str | None:
    """What the arguments of a container of modules build: weights if any of them has some."""
    within = {id(node) for node in subtree(record.call)} - {id(record.call)}
    calls = (each for each in record.function.calls_made if id(each.call) in within)
    found = {built_by(model, each) for each in calls}
    return next((does for does in (WEIGHTS, READ, FILTER, METRIC, LOSS) if does in found), None)


def _has_own(model: Model, record: CallRecord, ref: str) -> bool:
    """Whether a layer of torch makes weights: no switch leaves it without any, no argument gives it some."""
    call = record.call
    if ref in GIVEN_WEIGHTS:
        weight = _argument(call, *GIVEN_WEIGHTS[ref])
        return weight is None or (isinstance(weight, ast.Constant) and weight.value is None)
    switches = [_argument(call, *each) for each in SWITCHES.get(ref, ())]
    unclear = any(isinstance(each, ast.Starred) for each in call.args) or any(key.arg is None for key in call.keywords)
    if not switches:
        return True
    return not unclear and any(
        each is None or bool(model.value_in(record.function, each).constant) for each in switches
    )


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    by_name = next((key.value for key in call.keywords if key.arg == name), None)
    return call.args[position] if by_name is None and position < len(call.args) else by_name


def _has_weights(model: Model, cls: ClassInfo) -> bool:
    """Whether the class is a module whose `__init__`, or that of a base, makes parameters or layers that have some.

    Each function is visited once, the nearest first: helpers may lead to each other in many ways.
    """
    level = _makers(model, cls)
    known = set(level)
    for _ in range(bounds.MOST_MODULES_DEEP + 1):
        further: dict[FunctionInfo, None] = {}
        for function in level:
            home = model.home(function)
            for record in function.calls_made:
                callee = home.callee(record)
                ref = callee.ref or ""
                if ref in PARAMETERS:
                    return True
                if ref in HOLDERS or _is_on_no_device(record.call):
                    continue  # what a holder gets is built by calls of the same function
                if _built_of_library(home, record, callee) in (WEIGHTS, READ):
                    return True
                if callee.kind is Kind.CLASS and callee.cls is not None:
                    further.update(dict.fromkeys(_makers(home, callee.cls)))
                elif callee.function is not None:
                    further[callee.function] = None
        level = [each for each in further if each not in known]
        known.update(level)
    return False


def _makers(model: Model, cls: ClassInfo) -> list[FunctionInfo]:
    """The functions that initialise an object of the class, if it is a module."""
    if not model.makes_modules(cls):
        return []
    return [owner.methods["__init__"] for owner in model.lineage(cls) if "__init__" in owner.methods]


def _keeps_results(model: Model, function: FunctionInfo, decorator: ast.expr) -> bool:
    """Whether a decorator of the project stores something, in an attribute or under a key: `@kept_as("projector")`."""
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    made = model.home(function).value_at_top(name.id).function if isinstance(name, ast.Name) else None
    return made is not None and any(_stores(each) for each in made.nodes)


def _stores(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return dotted(node.func) == "setattr"
    return isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store)


def _is_building(model: Model, function: FunctionInfo, seen: tuple[FunctionInfo, ...]) -> bool:
    """Whether the function builds a larger object, or one that does calls it: then that is what runs in every step.

    A decorator of the project that keeps what the function returns has it run once.
    """
    if function.name in _BUILDS or any(_keeps_results(model, function, each) for each in function.decorators):
        return True
    if len(seen) >= bounds.MOST_CALLS_TO_BUILDER:
        return False
    callers = {record.function for record in model.callers(function)} - {function, *seen}
    return any(_is_building(model.home(each), each, (*seen, function)) for each in callers)
