"""All rules, and the selectors that name them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.declarations import Modules, declared_in
from torchperf_lint.engine.declare import OWN_PREFIX
from torchperf_lint.engine.plugins import plugins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.declare import Rule

UNUSED_SUPPRESSION = "TPL001"
"""The code of reports of unused `# noqa` comments of ours; it belongs to the engine and has no page."""

UNUSED_SUPPRESSION_NAME = "unused-suppression"


class UnknownSelector(ValueError):
    """A selector names no rule; the message suggests the nearest."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """All declared rules, those of plugins too, ordered by code; raise BadPlugin for a plugin that cannot be used."""
    own = _own_rules()
    installed = plugins()
    if not installed:
        return own
    found = {each.code: each for each in own}
    names = {each.name for each in own}
    for plugin in installed:
        for code, declared in plugin.rules().items():
            if found.get(code) is declared:
                continue  # two entry points lead to it
            if code in found or declared.name in names:
                taken = code if code in found else declared.name
                raise plugin.refused(f"{taken} is taken")
            found[code] = declared
            names.add(declared.name)
    return tuple(found[code] for code in sorted(found))


def _own_rules() -> tuple[Rule, ...]:
    modules = Modules()
    kept = modules.kept()
    if kept is not None:
        return kept
    found: dict[str, Rule] = {}
    for name in modules.names:
        for code, declared in declared_in(name).items():
            if name.rpartition(".")[2] != declared.stem:
                raise TypeError(f"{code}: its module must be called {declared.stem}, not {name}")
            if not code.startswith(OWN_PREFIX):
                raise TypeError(f"{code}: our own codes begin with {OWN_PREFIX}")
            if code in found:
                raise TypeError(f"{code} is declared twice")
            found[code] = declared
    rules = tuple(found[code] for code in sorted(found))
    modules.keep(rules)
    return rules


def find_rule(text: str) -> Rule | None:
    """The rule with that code or name, or None."""
    for declared in all_rules():
        if text in (declared.code, declared.name):
            return declared
    return None


def matches(selector: str, declared: Rule) -> bool:
    """Whether a selector (`ALL`, a code, a code's prefix, a name) covers the rule."""
    return covers(selector, declared.code, declared.name)


def covers(selector: str, code: str, name: str) -> bool:
    """Whether a selector covers the code or name of a rule, or TPL001."""
    return selector in ("ALL", name) or (selector != "" and code.startswith(selector))


def check_selector(selector: str) -> None:
    """Raise UnknownSelector unless the selector covers at least one rule."""
    if any(covers(selector, *names) for names in _known()):
        return
    capitals = selector.upper()
    is_code = any(covers(capitals, *names) for names in _known())
    near = capitals if is_code else nearest(selector)
    hint = f"; did you mean `{near}`?" if near else ""
    raise UnknownSelector(f"no rule matches the selector `{selector}`{hint}")


def nearest(text: str) -> str | None:
    """The code or name nearest to a mistaken one, ignoring case; None where nothing is near."""
    from difflib import get_close_matches

    names = {name.lower(): name for both in _known() for name in both}
    wanted = text.strip().lower()
    within = [name for name in names if wanted and wanted in name]
    near = sorted(within, key=lambda name: not name.startswith(wanted)) or get_close_matches(wanted, names, 1, 0.82)
    return names[near[0]] if near else None


def _known() -> list[tuple[str, str]]:
    """Code and name of everything that selectors can name."""
    rules = [(declared.code, declared.name) for declared in all_rules()]
    return [*rules, (UNUSED_SUPPRESSION, UNUSED_SUPPRESSION_NAME)]


def select(
    selected: Iterable[str] | None = None, ignored: Iterable[str] = (), extended: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """The rules that the selectors enable, ordered by code.

    `selected` None means the default set; the longest (most exact) selector that covers a rule decides, and
    at equal length `ignored` wins, as in ruff.
    """
    return tuple(
        declared
        for declared in all_rules()
        if _is_on(declared.code, declared.name, declared.default, selected, ignored, extended)
    )


def reports_unused(
    selected: Iterable[str] | None = None, ignored: Iterable[str] = (), extended: Iterable[str] = ()
) -> bool:
    """Whether the same selectors enable TPL001, the report of unused suppressions."""
    return _is_on(UNUSED_SUPPRESSION, UNUSED_SUPPRESSION_NAME, True, selected, ignored, extended)


def held(
    fixable: Iterable[str] | None = None, unfixable: Iterable[str] = (), extended: Iterable[str] = ()
) -> frozenset[str]:
    """The codes whose fixes are only shown, by selectors as for `select`; `fixable` None means all rules."""
    return frozenset(code for code, name in _known() if not _is_on(code, name, True, fixable, unfixable, extended))


def _is_on(
    code: str,
    name: str,
    default: bool,
    selected: Iterable[str] | None,
    ignored: Iterable[str],
    extended: Iterable[str],
) -> bool:
    def strongest(selectors: Iterable[str]) -> int:
        return max((_strength(selector, code, name) for selector in selectors), default=-1)

    if selected is None:
        on, strength = default, 0
    else:
        strength = strongest(selected)
        on = strength >= 0
    extend = strongest(extended)
    if extend >= 0:
        on, strength = True, max(strength, extend)
    return on and strongest(ignored) < max(strength, 0)


def _strength(selector: str, code: str, name: str) -> int:
    if selector == "ALL":
        return 0
    if not covers(selector, code, name):
        return -1
    return 100 if selector == name else len(selector)
