"""Rules of the engine's tests: they find every call of one method, and fix it as a test says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine import pool
from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.jobs import Job, Result
    from torchperf_lint.model import Model, Site

TARGET = Target()
HINTS = Hints()


def finds(
    method: str, code: str = "TPL190", *, fix: Callable[[Site], Fix | None] = lambda site: None, **declared: Any
) -> Rule:
    """A rule that reports every `x.method(...)`; `fix` makes the finding's fix from its site."""

    @rule(
        code=code,
        name=f"call-of-{method}",
        category=Category(int(code[3])),
        summary=f"a call of {method}",
        message="`{text}` is called",
        severity=Severity.WARNING,
        triggers=(method,),
        cpu_only_too=True,
        fix=Safety.SAFE,
        **declared,
    )
    def check(model: Model) -> Iterator[Finding]:
        for site in model.method_calls(method):
            yield Finding(site, fix=fix(site), fields={"text": text_of(site).decode()})

    return check


def text_of(site: Site) -> bytes:
    """The source text of a site."""
    return site.tree.source.utf8[site.start : site.end]


def to(new: str, safety: Safety = Safety.SAFE) -> Callable[[Site], Fix]:
    """A fix that puts `new` in the place of the call's last name and arguments, `item()` in `x.y.item()`."""

    def fix(site: Site) -> Fix:
        start = site.start + text_of(site).rindex(b".") + 1
        return Fix(f"use {new}", safety, (Edit(start, site.end, new.encode()),))

    return fix


def swaps(new: str, safety: Safety = Safety.SAFE) -> Callable[[Site], Fix]:
    """A fix that puts `new` in the place of the whole call."""
    return lambda site: Fix(f"use {new}", safety, (Edit(site.start, site.end, new.encode()),))


def raises(error: Exception, code: str = "TPL191") -> Rule:
    """A rule that breaks on every file that mentions `item`."""

    @rule(
        code=code,
        name="broken-rule",
        category=Category(int(code[3])),
        summary="broken",
        message="broken",
        severity=Severity.WARNING,
        triggers=("item",),
        cpu_only_too=True,
    )
    def check(model: Model) -> Iterator[Finding]:
        raise error

    return check


def end_process(_: object) -> None:
    """End a worker process in the midst of its work; stands here for the worker to import it."""
    os._exit(1)


def end_process_at_poison(jobs: Sequence[Job]) -> list[Result]:
    """Do the jobs of a worker process, but for a file that ends it."""
    if any(job.path == "poison.py" for job in jobs):
        os._exit(1)
    return pool._work(jobs)


class BrokenSnapshot:
    """A project that cannot be made; stands here for worker processes to import it."""

    def changing(self, room: int) -> Any:
        """Fail, as an error of our own does."""
        raise KeyError("injected")
