"""Which classes a constructor makes objects of, and whether a class may be called as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.syntax.index import ClassInfo, last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


def built_by(inference: ValueQuestions, init: FunctionInfo) -> list[ClassInfo]:
    """The classes whose objects the constructor makes: its own, and those that inherit it.

    A decorated class may be replaced, and one with a metaclass or a `__new__` may make something else.
    """
    if init.cls is None:
        return []
    heirs = (each for each in heirs_of(inference, init.cls) if inference.method(each, init.name) is init)
    return [init.cls, *(each for each in heirs if not _is_replaced(each))]


def calls_by_heirs(inference: ValueQuestions, init: FunctionInfo) -> list[CallRecord]:
    """The `super().__init__(...)` and `Base.__init__(self, ...)` in constructors of classes below, as far as they mean
    this one.
    """
    found: list[CallRecord] = []
    for heir in () if init.cls is None else heirs_of(inference, init.cls):
        own = heir.methods.get(init.name)
        above = (each.methods[init.name] for each in inference.lineage(heir)[1:] if init.name in each.methods)
        if own is not None and next(above, None) is init:
            found += (each for each in own.calls_made if last_name(each.call.func) == init.name)
    return found


def heirs_of(inference: ValueQuestions, cls: ClassInfo) -> list[ClassInfo]:
    """The classes below a class, over any number of files."""
    program, found, pending = inference.program, dict[ClassInfo, None](), [cls]
    if program is None:
        return [each for each in cls.index.classes if each is not cls and cls in inference.lineage(each)]
    while pending and len(found) < bounds.MOST_HEIRS:
        new = [each for each in program.heirs(pending.pop()) if each is not cls and each not in found]
        found.update(dict.fromkeys(new))
        pending += new
    return [*found]


def _is_replaced(cls: ClassInfo) -> bool:
    return bool(cls.decorators or cls.head.keywords) or "__new__" in cls.methods


def _may_be_handed_on(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether, by names, something names the class without calling it: `MODELS = {"small": Small}`."""
    if cls.name in cls.index.handed or cls.name in cls.index.held or cls.index.also_called(cls.name):
        return True
    return inference.program is not None and inference.program.names_elsewhere(cls.name, cls.index)


def may_be_chosen(inference: ValueQuestions, init: FunctionInfo) -> bool:
    """Whether, by names, calls of something else than the constructor's class may run it.

    They name a class that inherits it, are in the constructor of a class below, or a table, a function or an attribute
    gives the class.
    """
    return init.cls is not None and (bool(heirs_of(inference, init.cls)) or _may_be_handed_on(inference, init.cls))


def builds(inference: ValueQuestions, made: Value, init: FunctionInfo) -> bool:
    """Whether the constructor makes the objects of a class, or of one of several."""
    classes = [made.cls, *made.among] if made.cls is not None else made.among
    return any(isinstance(each, ClassInfo) and inference.method(each, init.name) is init for each in classes)
