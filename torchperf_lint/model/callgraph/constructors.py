"""Which classes a constructor makes objects of, and whether a class may be called as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.index import ClassInfo

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo


def built_by(inference: ValueQuestions, init: FunctionInfo) -> list[ClassInfo]:
    """The classes whose objects the constructor makes: its own, and those that inherit it."""
    cls, program = init.cls, inference.program
    if cls is None:
        return []
    others = (each for each in cls.index.classes if each is not cls and cls in inference.lineage(each))
    heirs = others if program is None else program.heirs(cls)
    return [cls, *(each for each in heirs if inference.method(each, init.name) is init)]


def _may_be_handed_on(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether, by names, something names the class without calling it: `MODELS = {"small": Small}`."""
    if cls.name in cls.index.handed or cls.name in cls.index.held or cls.index.also_called(cls.name):
        return True
    return inference.program is not None and inference.program.names_elsewhere(cls.name, cls.index)


def may_be_chosen(inference: ValueQuestions, init: FunctionInfo) -> bool:
    """Whether, by names, calls of something else than the constructor's class may run it.

    They name a class that inherits it, or a table, a function or an attribute gives the class.
    """
    built = built_by(inference, init)
    return len(built) > 1 or any(_may_be_handed_on(inference, cls) for cls in built)


def builds(inference: ValueQuestions, made: Value, init: FunctionInfo) -> bool:
    """Whether the constructor makes the objects of a class, or of one of several."""
    classes = [made.cls, *made.among] if made.cls is not None else made.among
    return any(isinstance(each, ClassInfo) and inference.method(each, init.name) is init for each in classes)
