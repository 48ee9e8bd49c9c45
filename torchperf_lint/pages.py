"""The pages of `rules/`: their location, their contents, and the table that lists them."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint import measurements
from torchperf_lint.engine import registry
from torchperf_lint.engine.declare import OWN_PREFIX, Category

if TYPE_CHECKING:
    from torchperf_lint.engine.declare import Rule

SECTIONS = ("What it does", "Why it is slow", "Example", "When to leave it", "Fix safety")
"""The sections of a page, in this order; the last one only where the rule has a fix."""

MEASURED = "Measured effect"
"""An optional last section, written by the verification suite."""

UNUSED_SUPPRESSION_PAGE = """\
# TPL001 unused-suppression

A suppression of ours that silences nothing.

## What it does

Reports a `# noqa: TPL...` or `# torchperf-lint: ignore[...]` comment, or a `# torchperf-lint: ignore-file[...]` line,
that names a rule which was run and found nothing there, or a code or name that no rule has; and any other word behind
`# torchperf-lint:`, which silences nothing. A stale suppression hides the next real finding. A bare `# noqa` is never
reported, since other tools may need it, and a bare `# torchperf-lint: ignore` only where every rule ran that is on by
default.
"""

LINE_LENGTH = 120
"""Columns of a line in the documents."""

_WORDS = """\
On all pages, the *host* is the CPU with the Python process on it, and the *device* is the GPU or another accelerator. A
*step* is the work for one batch. Code is *hot* if it runs in every step.
"""

_COLUMNS = """\
- *code* and *name*: either of them names the rule on the command line, in the configuration and in comments.
  `torchperf-lint explain RULE` prints the page.
- *fix*: the best grade that a fix of the rule may have. `safe` fixes are applied by `--fix`, `unsafe` ones with
  `--unsafe-fixes` as well, and `shown` ones are only printed. A single fix may have a lower grade.
- *waits per step*: how often one of the rule's programs waits in each step, before and after the fix, on the simulated
  device. Where something else was counted, the cell names it. A dash means that nothing was measured.
- *default*: whether the rule runs unless the configuration says otherwise.
"""

_FENCE = re.compile(r"(?P<tick>`{3,}|~{3,})(?P<info>.*)")
_LINK_BESIDE = re.compile(r"\[([^\]\n]+)\]\((?!\w+:|#)[^)\n]*\.md(?:#[^)\n]*)?\)")


class BadPage(ValueError):
    """A page is missing or breaks the conventions; the message says which and how."""


class Fence(NamedTuple):
    """A fenced block of a page: ```` ```python bad torchmetrics=1.6.1 ````."""

    language: str
    role: str  # "bad", "good", "setup", or "" for a block that is only displayed
    attributes: dict[str, str]
    code: str
    section: str
    row: int  # 1-based row of the opening fence


class Page(NamedTuple):
    """A parsed page; `sections` maps heading to text, in the page's order."""

    title: str
    summary: str
    sections: dict[str, str]
    fences: tuple[Fence, ...]

    def codes(self, role: str) -> tuple[Fence, ...]:
        """The fences of one role."""
        return tuple(fence for fence in self.fences if fence.role == role)


def page_path(rule: Rule) -> Path:
    """The path of the rule's page in this installation; raise BadPage where there is none."""
    path = pages_root() / rule.category.name.lower() / f"{rule.stem}.md"
    if not path.is_file():
        raise BadPage(f"{rule.code} {rule.name} has no page")
    return path


def page_text(rule: Rule) -> str:
    """The rule's page as Markdown; that of a plugin's rule lies beside its module, or is made of its declaration.

    Links to other pages are their texts: where the page is shown, the others do not lie next to it.
    """
    if rule.code.startswith(OWN_PREFIX):
        return _LINK_BESIDE.sub(r"\1", page_path(rule).read_text(encoding="utf-8"))
    module = sys.modules.get(rule.check.__module__)
    path = Path(getattr(module, "__file__", None) or "").parent / f"{rule.stem}.md"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    about = inspect.cleandoc(rule.check.__doc__ or "")
    return f"# {rule.code} {rule.name}\n\n{rule.summary.capitalize()}.\n\n## {SECTIONS[0]}\n\n{about}\n"


def measured() -> dict[str, measurements.Device]:
    """All measurements, by device; empty where there are none."""
    path = pages_root() / measurements.NAME
    return measurements.parse(path.read_text(encoding="utf-8")) if path.is_file() else {}


def load_page(rule: Rule) -> Page:
    """The rule's page, parsed and compared with the declaration; raise BadPage where they differ."""
    page = parse_page(page_text(rule))
    wanted = SECTIONS if rule.fix is not None else SECTIONS[:-1]
    problem = None
    if page.title != f"{rule.code} {rule.name}":
        problem = f"the title must be `{rule.code} {rule.name}`, not `{page.title}`"
    elif _plain(page.summary) != _plain(rule.summary):
        problem = f"the summary must be the rule's, `{rule.summary}`, not `{page.summary}`"
    elif tuple(each for each in page.sections if each != MEASURED) != wanted:
        problem = f"the sections must be {', '.join(wanted)}; they are {', '.join(page.sections)}"
    elif not page.codes("bad") or not page.codes("good"):
        problem = "there must be a `python bad` and a `python good` example"
    elif any(fence.section != "Example" for fence in page.fences if fence.role):
        problem = "examples that are run belong in the section Example"
    if problem:
        raise BadPage(f"{rule.category.name.lower()}/{rule.stem}.md: {problem}")
    return page


def parse_page(text: str) -> Page:
    """Parse a page; raise BadPage for an unclosed fence or a duplicate heading."""
    title, summary, section = "", "", ""
    sections: dict[str, list[str]] = {}
    fences: list[Fence] = []
    opened: tuple[str, str, int, list[str]] | None = None
    for row, line in enumerate(text.splitlines(), 1):
        if opened is None and line.startswith("## "):
            section = line[3:].strip()
            if section in sections:
                raise BadPage(f"row {row}: the section {section} stands twice")
            sections[section] = []
            continue
        mark = _FENCE.fullmatch(line.rstrip())
        if section:
            sections[section].append(line)
        if opened is not None:
            tick, info, start, code = opened
            if mark and mark["tick"].startswith(tick) and not mark["info"].strip():
                fences.append(_fence(info, code, section, start))
                opened = None
            else:
                code.append(line)
        elif mark:
            opened = (mark["tick"], mark["info"], row, [])
        elif line.startswith("# ") and not title:
            title = line[2:].strip()
        elif title and not section and not summary:
            summary = line.strip()
    if opened is not None:
        raise BadPage(f"row {opened[2]}: the fence is not closed")
    return Page(title, summary, {name: "\n".join(body).strip() for name, body in sections.items()}, tuple(fences))


def as_plain(text: str) -> dict[str, object]:
    """A page as plain data: the whole Markdown, its sections by heading, and the bad and good examples."""
    page = parse_page(text)
    examples = [
        {"role": fence.role, "code": fence.code, **({"for": fence.attributes} if fence.attributes else {})}
        for fence in page.fences
        if fence.role
    ]
    return {"sections": page.sections, "examples": examples, "page": text}


def with_measured_effect(text: str, section: str) -> str:
    """A page's text with `section` as its last section `Measured effect`; without that section if it is empty."""
    before = text.partition(f"\n## {MEASURED}\n")[0].rstrip("\n")
    return f"{before}\n\n## {MEASURED}\n\n{section}\n" if section else f"{before}\n"


def _fence(info: str, code: list[str], section: str, row: int) -> Fence:
    language, *words = info.split() or [""]
    role = words.pop(0) if words and "=" not in words[0] else ""
    if language == "python" and role not in ("bad", "good", "setup", ""):
        raise BadPage(f"row {row}: a fence is bad, good or setup, not `{role}`")
    attributes = dict(word.partition("=")[::2] for word in words)
    return Fence(language, role, attributes, "".join(f"{line}\n" for line in code), section, row)


def _plain(summary: str) -> str:
    return summary[:1].lower() + summary[1:].rstrip(".")


def rule_table(folder: str = "rules/") -> str:
    """A Markdown table of all rules; `folder` is the pages' folder, relative to the file that contains the table."""
    rows = ["| code | name | finds | fix | waits per step | default |", "| --- | --- | --- | --- | --- | --- |"]
    for rule in registry.all_rules():
        page = f"{folder}{rule.category.name.lower()}/{rule.stem}.md"
        fix = rule.fix.value if rule.fix else "no"
        waits = measurements.summary(rule, measured())
        on = "on" if rule.default else "off"
        rows.append(f"| {rule.code} | [{rule.name}]({page}) | {rule.summary} | {fix} | {waits} | {on} |")
    return "\n".join(rows) + "\n"


def index() -> str:
    """The list of all rules as a Markdown page, to stand in the folder of the pages."""
    rules = registry.all_rules()
    groups = "".join(f"- `TPL{group.value}`: {group.about}\n" for group in Category)
    codes = [f"`{rule.code}`" for rule in rules if not rule.default]
    opt_in = (
        f"{len(codes)} rules are off by default, and their pages say why: {', '.join(codes)}. "
        "`--extend-select` turns them on."
    )
    return (
        f"# Rules\n\nThere are {len(rules)} rules. The first digit of the code is the group:\n\n{groups}\n"
        f"{textwrap.fill(opt_in, LINE_LENGTH)}\n\n{_WORDS}\n{_COLUMNS}\n{rule_table(folder='')}"
    )


def in_checkout() -> bool:
    """Whether this is a checkout, whose pages and measurements may be written, and not an installation."""
    return (pages_root().parent / "pyproject.toml").is_file()


@functools.cache
def pages_root() -> Path:
    """The folder of the pages: package data in a wheel, else `rules/` beside our own pyproject.toml."""
    package = Path(__file__).parent
    shipped = package / "_pages"
    if shipped.is_dir():
        return shipped
    project = package.parent / "pyproject.toml"
    # In site-packages a folder `rules` may belong to anyone.
    if project.is_file() and 'name = "torchperf-lint"' in project.read_text(encoding="utf-8"):
        return package.parent / "rules"
    raise BadPage("this installation of torchperf-lint holds no rule pages")
