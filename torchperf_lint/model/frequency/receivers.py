"""The object that a way of calls comes through: its class must have the overriding methods that the way needs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.frequency.branches import calls_own_method
from torchperf_lint.model.syntax.call_sites import ImplicitCall
from torchperf_lint.model.syntax.index import FunctionInfo, last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.call_sites import CallSite

Needed = frozenset[FunctionInfo]
"""The methods that an object must have itself, and not one that they override."""


def needed(inference: ValueQuestions, record: CallSite, current: FunctionInfo, so_far: Needed) -> Needed | None:
    """What the object whose method makes a call of the current function must have; None if no object has it.

    `self.value()` in a base's method means an override only in objects of the subclass: an object that is made as one
    of the base does not lead there.
    """
    caller = record.function
    if _is_of_own_object(record):
        is_override = (
            caller.cls is not None
            and current.cls is not None
            and not _calls_super(record)
            and inference.method(caller.cls, current.name) is not current
        )
        return so_far | {current} if is_override else so_far
    if so_far and any(_lacks(inference, record, current, each) for each in so_far):
        return None
    return frozenset()


def _is_of_own_object(record: CallSite) -> bool:
    if not isinstance(record, ImplicitCall):
        return calls_own_method(record.call.func, record.function)
    node = record.node.value if isinstance(record.node, ast.Attribute) else record.node
    return isinstance(node, ast.Name) and node.id == record.function.self_name


def _calls_super(record: CallSite) -> bool:
    func = None if isinstance(record, ImplicitCall) else record.call.func
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call)


def _lacks(inference: ValueQuestions, record: CallSite, current: FunctionInfo, wanted: FunctionInfo) -> bool:
    """Whether the object whose method the call calls is made as one of a class with another method of that name."""
    made = _receiver(inference, record, current)
    if made is None or made.cls is None or made.among or made.created is None:
        return False
    is_any_class = last_name(made.created.func) in ("cls", "__class__") or isinstance(made.created.func, ast.Call)
    return not is_any_class and inference.method(made.cls, wanted.name) not in (wanted, None)


def _receiver(inference: ValueQuestions, record: CallSite, current: FunctionInfo) -> Value | None:
    """The object whose method is called."""
    if current.cls is None:
        return None
    if isinstance(record, ImplicitCall):
        node = record.node.value if isinstance(record.node, ast.Attribute) else record.node
        return inference.seen_alone(record.function, node)
    func = record.call.func
    if isinstance(func, ast.Attribute) and func.attr == current.name:
        return inference.alone(lambda: inference.parts(record, func.value))[0]
    if current.name == "__init__":
        callee = inference.alone(lambda: inference.parts(record, func))[0]
        return callee._replace(created=record.call) if callee.kind is Kind.CLASS else None
    return None
