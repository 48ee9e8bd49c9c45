"""Why a rule is silent, in words: the test that decided, told by the docstring of its question or a short table."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.model import Model
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.reveal import describe
from torchperf_lint.syntax.site import Site
from torchperf_lint.why.answer import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_lint.why.recorder import Decision, Part


class Reason(NamedTuple):
    """Why a rule is silent about a place."""

    cause: Cause
    says: str


NOT_HOT = Reason(Cause.FREQUENCY, "the row is not known to run in every step")
NOT_THERE = Reason(Cause.DEVICE, "nothing in the statement is shown to be on an accelerator")
_ONLY_SOMETIMES = Reason(Cause.FREQUENCY, "a condition in the same statement holds in few steps, or excludes it")

BY_FORM = Reason(Cause.FORM, "its form is not what the rule is about")

_QUESTIONS: dict[str, tuple[object, Reason]] = {
    "may_be_hot": (False, NOT_HOT),
    "of": (None, NOT_HOT),
    "hot_path": (None, NOT_HOT),
    "hot_path_of": (None, NOT_HOT),
    "guarded_in_expression": (True, _ONLY_SOMETIMES),
    "in_test": (True, Reason(Cause.MEANING, "it stands in a test")),
    "on_device": (None, Reason(Cause.DEVICE, "nothing shows that {subject} is a tensor on an accelerator")),
    "runs_elsewhere": (True, Reason(Cause.DEVICE, "the file runs on the CPU only, or on other accelerators than CUDA")),
    "names_other_accelerators": (True, Reason(Cause.DEVICE, "the project names accelerators other than CUDA")),
    "loader_route": (None, Reason(Cause.DEVICE, "nothing shows that the loader's batches go to an accelerator")),
    "creation": (None, Reason(Cause.MEANING, "it is not known which call makes the object")),
    "is_cuda": (False, Reason(Cause.DEVICE, "the device need not be CUDA")),
}
"""Questions of the model: the answer that silences a rule, and what it means. Others are told by their docstrings."""

_ATTRIBUTES: dict[str, str] = {
    "non_blocking": "the copy does not make the host wait: it has `non_blocking`",
    "like": "it takes the dtype of another tensor as well",
    "hot_path.loop": "the loop that repeats it is not in this function",
    "absent": "the argument is left out",
    "cpu_only": "nothing in the file speaks of an accelerator",
}
"""Attributes of what an idiom returns, by the end of their text, and what they mean where they silence a rule."""

_KINDS = {
    Kind.UNKNOWN: "may be anything: what it is is not known",
    Kind.PYTREE: "is a tensor, or holds tensors",
    Kind.NONE: "is None",
    Kind.NUMPY: "is a NumPy array",
    Kind.CONTAINER: "is a list, a tuple or a dict",
    Kind.METHOD: "is a method or an attribute of which nothing more is known",
    Kind.LIBRARY: "belongs to a library",
}

_SAYS = re.compile(r"^Whether\s+(.*)$", re.DOTALL)
_NONE_IF = re.compile(r"(?:^|[;,]\s*)None (?:if|where)\s+(.*?)(?:[;,] \S+ if .*)?$", re.DOTALL)
_EMPTY_IF = re.compile(r"(?:^|[;,]\s*)(?:empty|\(\)|\[\]) (?:if|where)\s+(.*?)(?:[;,] \S+ if .*)?$", re.DOTALL)
_NO_CLAUSE = re.compile(r"^(unknown|unclear|there (is|are) none|none|it has none|nothing|not|neither|any|it|one)\b")
_FEWEST = 3
"""Words of a clause that can stand alone; a shorter one, such as `if it is none`, says nothing."""

_LOOKS_FOR = "the rule looks for"
_LONGEST = 200


class Reasons:
    """The reasons of one rule's decisions."""

    def __init__(self, model: Model, quoted: Callable[[ast.expr], str]) -> None:
        self._model = model
        self._quoted = quoted

    def last(self, decisions: Sequence[Decision]) -> tuple[Reason, Decision] | None:
        """The reason of the last decision that drops the place for what it means; else for its form."""
        formal: tuple[Reason, Decision] | None = None
        for position in reversed(range(len(decisions))):
            decision = decisions[position]
            if not decision.refuses or decision.level:
                if isinstance(decision.place, Site):
                    formal = formal or (BY_FORM, decision)
                continue
            reason = self._of(decision, decisions[:position])
            if reason is None and (isinstance(decision.place, Site) or decision.function.name == "sites"):
                reason = BY_FORM
            if reason is None:
                continue
            if reason.cause is not Cause.FORM:
                return reason, decision
            formal = formal or (reason, decision)
        return formal

    def asked(self, decisions: Sequence[Decision]) -> list[str]:
        """The tests that could drop the place, as code with their answers, the last one last."""
        found: dict[str, None] = {}
        for decision in decisions:
            if decision.refuses and not decision.level:
                place = f"{decision.function.path.rpartition('torchperf_lint/')[2]}:{decision.row}"
                answers = (f"{ast.unparse(part.node)} -> {_answer(part.value)}" for part in decision.parts)
                found[f"{place}: {'; '.join(answers)}"] = None
        return list(found)

    def _of(self, decision: Decision, before: Sequence[Decision]) -> Reason | None:
        reasons = [each for part in decision.parts if (each := self._part(part, before)) is not None]
        best = sorted(reasons, key=lambda each: each.cause is Cause.FORM)
        return best[0] if best else None

    def _part(self, part: Part, before: Sequence[Decision]) -> Reason | None:
        """The reason that a part of a test gives; None if it is one of form that says nothing to a user."""
        node, value = part.node, part.value
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._comparison(part, node, before)
        if isinstance(node, ast.Call):
            return self._call(part, node, value, before)
        if isinstance(node, ast.Name):
            assigned = part.function.assigned.get(node.id)
            if isinstance(assigned, ast.Call):
                return self._call(part, assigned, value, before)
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            for ending, says in _ATTRIBUTES.items():
                if text.endswith(ending) and value:
                    return Reason(Cause.MEANING, says)
            known = _QUESTIONS.get(node.attr)
            if known is not None and bool(known[0]) is bool(value):
                return known[1]
            if node.attr == "on_accelerator" and not value:
                return self._not_there(part, node)
        return None

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, part: Part, node: ast.Call, value: object, before: Sequence[Decision]) -> Reason | None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("any", "all", "next") and node.args and isinstance(node.args[0], ast.GeneratorExp):
            return self._of_many(part, node.args[0], value, before)
        if name == "is_hot" and not value:
            return self._is_cold(part, node)
        known = _QUESTIONS.get(name)
        if known is not None and _alike(known[0], value):
            return known[1]._replace(says=known[1].says.format(subject=self._subject(part, node)))
        if name == "is_constant":
            given = " or ".join(f"`{ast.unparse(each)}`" for each in node.args if isinstance(each, ast.Constant))
            named = self._argument(part, node.func)
            return Reason(Cause.MEANING, f"{named} is {'' if value else 'not '}written as {given}")
        called = part.evaluate(node.func)
        if called is None or not _is_ours(called):
            return None
        return self._by_docstring(part, node, called, value, before)

    @staticmethod
    def _argument(part: Part, func: ast.expr) -> str:
        """The argument that `given(model, call, "name")` has looked up, quoted."""
        asked = func.value if isinstance(func, ast.Attribute) else func
        if isinstance(asked, ast.Name):
            asked = part.function.assigned.get(asked.id, asked)
        names = [part.evaluate(each) for each in asked.args] if isinstance(asked, ast.Call) else []
        return next((f"`{name}`" for name in names if isinstance(name, str)), "the argument")

    def _is_cold(self, part: Part, node: ast.Call) -> Reason:
        """The statement is not hot, or nothing in it is on an accelerator."""
        asked = ast.Call(node.func, [*node.args[:1], ast.Constant(False)], [])
        hot = part.evaluate(ast.fix_missing_locations(ast.copy_location(asked, node)))
        return NOT_HOT if hot is not True else NOT_THERE

    def _of_many(self, part: Part, given: ast.GeneratorExp, value: object, before: Sequence[Decision]) -> Reason | None:
        """`any(owns(model, site) for owns in _OTHERS)`: the one that answers so."""
        source = given.generators[0].iter
        if not isinstance(given.elt, ast.Call):
            filled = part.function.assigned.get(source.id) if isinstance(source, ast.Name) else None
            return self._call(part, filled, part.evaluate(source), before) if isinstance(filled, ast.Call) else None
        listed = ast.ListComp(ast.Tuple([given.elt.func, given.elt], ast.Load()), given.generators)
        pairs = part.evaluate(ast.copy_location(ast.fix_missing_locations(listed), given))
        for called, answer in pairs if isinstance(pairs, list) else ():
            if bool(answer) is bool(value) and _is_ours(called):
                return self._by_docstring(part, given.elt, called, answer, before)
        return None

    def _by_docstring(
        self, part: Part, node: ast.Call, called: Any, value: object, before: Sequence[Decision]
    ) -> Reason | None:
        document = inspect.getdoc(called) or ""
        if value and not document.startswith("Whether"):
            inner = self._inside_of(getattr(called, "__name__", ""), before)
            plain = _lowered(_first_sentence(document)) if isinstance(value, bool) else ""
            return inner or (Reason(Cause.MEANING, _cut(plain)) if plain else None)
        says = in_words(document, value, _constants(node))
        if document.startswith("Whether") or (says and not says.startswith(_LOOKS_FOR)):
            return Reason(Cause.MEANING, _cut(says))
        inner = self._inside_of(getattr(called, "__name__", ""), before)
        if inner is not None or not says:
            return inner
        # A docstring that begins with code tells of a form.
        return Reason(Cause.FORM if document.startswith("`") else Cause.MEANING, _cut(says))

    def _inside_of(self, name: str, before: Sequence[Decision]) -> Reason | None:
        """The last reason for which a function of that name has returned nothing."""
        for position in reversed(range(len(before))):
            decision = before[position]
            if decision.function.name == name and decision.refuses:
                return self._of(decision, before[:position])
        return None

    # -- comparisons -----------------------------------------------------------------------------------------------

    def _comparison(self, part: Part, node: ast.Compare, before: Sequence[Decision]) -> Reason | None:
        left, right = node.left, node.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            asked: ast.expr | None = left
            if isinstance(left, ast.Name):
                asked = part.function.assigned.get(left.id)
            if not isinstance(asked, ast.Call):
                return None
            return self._call(part, asked, None if part.evaluate(left) is None else part.evaluate(left), before)
        value = part.evaluate(left)
        counted = part.function.assigned.get(left.id) if isinstance(left, ast.Name) else None
        if isinstance(value, int) and isinstance(counted, ast.Call):
            called = part.evaluate(counted.func)
            says = _first_sentence(inspect.getdoc(called) or "") if called is not None and _is_ours(called) else ""
            return Reason(Cause.MEANING, f"{_lowered(says.partition(';')[0])} is {value}") if says else None
        if isinstance(value, Kind):
            return Reason(Cause.MEANING, f"{self._owner(part, left)} {_kind_in_words(value)}")
        if isinstance(value, enum.Enum) and isinstance(value.value, str):
            return Reason(Cause.USE, f"the rule is not about this use: {value.value}")
        return None

    def _not_there(self, part: Part, node: ast.Attribute) -> Reason:
        return Reason(Cause.DEVICE, f"nothing shows that {self._owner(part, node)} is on an accelerator")

    def _owner(self, part: Part, node: ast.expr) -> str:
        """What a test on an attribute of a value is about: `x` of `model.value(x).kind`, or of `value.kind`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name):
            node = part.function.assigned.get(node.id, node)
        if isinstance(node, ast.Call):
            return self._subject(part, node)
        return "it"

    def _subject(self, part: Part, node: ast.Call) -> str:
        """The place that a question is about, quoted."""
        for argument in node.args:
            given = part.evaluate(argument)
            if isinstance(given, Model):
                continue
            text = self._text(given)
            if text is not None:
                return f"`{text}`"
        return "it"

    def _text(self, thing: object) -> str | None:
        if isinstance(thing, Site):
            thing = thing.node
        if isinstance(thing, ast.expr):
            return self._quoted(thing)
        try:
            return self._model.brief(thing)  # type: ignore[arg-type]
        except (KeyError, AttributeError, TypeError):
            return None


def in_words(document: str, answer: object, given: str = "") -> str:
    """What the answer of a question means, by the question's docstring; empty where that does not tell.

    `given` stands behind a clause: what else was asked about.
    """
    says = _first_sentence(document)
    whether = _SAYS.match(says)
    if whether is not None:
        clause = whether[1].partition(";")[0] + given
        return clause if answer else f"it is not shown that {clause}"
    if not says or isinstance(answer, bool):
        return ""
    clause_of = (_NONE_IF if answer is None else _EMPTY_IF).search(says)
    if clause_of is not None and len(clause_of[1].split()) > _FEWEST and not _NO_CLAUSE.match(clause_of[1]):
        return clause_of[1]
    return f"{_LOOKS_FOR} {_lowered(says.partition(';')[0])}, and finds none"


def _alike(silences: object, value: object) -> bool:
    return value is None if silences is None else bool(value) is silences


def _is_ours(called: object) -> bool:
    """Whether it is a question about meaning: what `syntax` answers is about the form of the code."""
    module = getattr(called, "__module__", None) or ""
    return module.startswith("torchperf_lint.") and ".syntax." not in module and inspect.isroutine(called)


def _constants(node: ast.Call) -> str:
    """The arguments of a question that are all written literally."""
    given = [ast.unparse(each) for each in node.args if isinstance(each, ast.Constant)]
    return f" ({', '.join(given)})" if given and len(given) == len(node.args) else ""


def _first_sentence(text: str) -> str:
    text = " ".join(text.partition("\n\n")[0].split())
    found = re.match(r"(.+?[^.])\.(?:\s+[A-Z`].*)?$", text)
    return (found[1] if found else text).rstrip(". ")


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _kind_in_words(kind: Kind) -> str:
    words = _KINDS.get(kind)
    return words or f"is {'an' if kind.value[0] in 'aeiou' else 'a'} {kind.value}"


def _answer(value: object) -> str:
    if isinstance(value, Value):
        return describe(value)
    if isinstance(value, enum.Enum):
        return str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    return "something" if value else "nothing"
