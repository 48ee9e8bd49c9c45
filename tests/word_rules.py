"""Three rules about words, for tests of what surrounds rules.

TPL102 finds `slow` and makes it `fast` (safe), TPL201 finds `risky` and makes it `daring` (unsafe), TPL401
finds `quiet` and is off by default.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from torchperf_lint import config
from torchperf_lint.engine import jobs, registry
from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Edit, Finding, Fix, Safety, Severity


def _found(model, word: bytes, fixed: bytes | None = None, safety: Safety = Safety.SAFE):
    source = model.source
    start = source.utf8.find(word)
    while start >= 0:
        end = start + len(word)
        row = source.row(start)
        fix = Fix("say it otherwise", safety, (Edit(start, end, fixed),)) if fixed else None
        site = SimpleNamespace(node=None, start=start, end=end, rows=(row, row))
        yield Finding(site, (Because(1, "the file begins here"),), fix, {"word": word.decode()})
        start = source.utf8.find(word, end)


@rule(
    code="TPL102",
    name="slow-word",
    category=Category.SYNC,
    summary="a slow word",
    message="`{word}` is slow",
    severity=Severity.ERROR,
    costs=False,  # its sites have no node
    fix=Safety.SAFE,
    triggers=("slow",),
    cpu_only_too=True,
)
def slow_word(model):
    yield from _found(model, b"slow", b"fast")


@rule(
    code="TPL201",
    name="risky-word",
    category=Category.TRANSFER,
    summary="a risky word",
    message="`{word}` is risky",
    severity=Severity.WARNING,
    costs=False,  # its sites have no node
    fix=Safety.UNSAFE,
    assumes="nobody minds the risk",
    triggers=("risky",),
    cpu_only_too=True,
)
def risky_word(model):
    yield from _found(model, b"risky", b"daring", Safety.UNSAFE)


@rule(
    code="TPL401",
    name="quiet-word",
    category=Category.DATA,
    summary="a quiet word",
    message="`{word}` is quiet",
    severity=Severity.NOTE,
    costs=False,  # its sites have no node
    default=False,
    triggers=("quiet",),
    cpu_only_too=True,
)
def quiet_word(model):
    yield from _found(model, b"quiet")


RULES = (slow_word, risky_word, quiet_word)


def forget_rules() -> None:
    """Empty the caches that would keep rules from one test to the next."""
    config._selected_rules.cache_clear()
    jobs._rules.cache_clear()


@pytest.fixture
def word_rules(monkeypatch):
    """The rules of this module instead of all others."""
    monkeypatch.setattr(registry, "all_rules", lambda: RULES)
    forget_rules()
    yield
    forget_rules()


class Inserted:
    """A flake8 plugin that finds nothing; where flake8 loads it, ours runs the rules of this module."""

    name = "word-rules"
    version = "1"

    def __init__(self, tree):
        pass

    def run(self):
        return iter(())

    @staticmethod
    def add_options(manager):
        registry.all_rules = lambda: RULES
