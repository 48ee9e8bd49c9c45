"""The pages: how they are taken apart, held against their rules, found, listed and printed."""

from __future__ import annotations

import json

import pytest

from torchperf_lint import cli, pages
from torchperf_lint.engine import registry
from torchperf_lint.engine.declare import Category, Rule
from torchperf_lint.engine.findings import Safety, Severity

PAGE = """\
# TPL102 item-accumulated

Reading a scalar to add it up stalls the host.

## What it does

Finds `total += loss.item()`.

## Why it is slow

It waits.

```console
$ nothing is run here
```

## Example

```python setup
import torch
```

```python bad torchmetrics=1.6.1
# ## not a heading
total += loss.item()
```

```python good
total += loss.detach()
```

## When to leave it

On the CPU.

## Fix safety

Safe.
"""


def _nothing(model):
    yield from ()


ACCUMULATED = Rule(
    "TPL102",
    "item-accumulated",
    Category.SYNC,
    "reading a scalar to add it up stalls the host",
    "`{call}` waits",
    Severity.ERROR,
    True,
    Safety.SAFE,
    ((b"item",),),
    ">=1.8",
    None,
    _nothing,
)
BUILT = ACCUMULATED._replace(
    code="TPL201", name="built-on-cpu", category=Category.TRANSFER, summary="built late", default=False, fix=None
)


@pytest.fixture(autouse=True)
def two_rules_and_a_page(monkeypatch, tmp_path):
    """TPL102 has a page, TPL201 has none."""
    monkeypatch.setattr(registry, "all_rules", lambda: (ACCUMULATED, BUILT))
    monkeypatch.setattr(pages, "pages_root", lambda: tmp_path)
    _write(tmp_path, PAGE)


def _write(root, text):
    path = root / "sync" / "item_accumulated.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_page_is_taken_apart():
    page = pages.load_page(ACCUMULATED)
    assert page.title == "TPL102 item-accumulated"
    assert page.summary == "Reading a scalar to add it up stalls the host."
    assert tuple(page.sections) == pages.SECTIONS
    assert page.sections["When to leave it"] == "On the CPU."
    shown, setup, bad, good = page.fences
    assert (shown.language, shown.role, shown.section) == ("console", "", "Why it is slow")
    assert (setup.role, setup.code) == ("setup", "import torch\n")
    assert bad.attributes == {"torchmetrics": "1.6.1"}
    assert bad.code == "# ## not a heading\ntotal += loss.item()\n"
    assert PAGE.splitlines()[bad.row - 1] == "```python bad torchmetrics=1.6.1"
    assert page.codes("good") == (good,)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# TPL102 item", "# TPL102 items", "the title must be `TPL102 item-accumulated`"),
        ("stalls the host", "stalls", "the summary must be the rule's"),
        ("## When to leave it", "## When not", "the sections must be"),
        ("## Fix safety\n\nSafe.\n", "", "the sections must be"),
        ("```python good", "```python", "there must be a `python bad` and a `python good` example"),
        ("```python good", "```python fine", "a fence is bad, good or setup, not `fine`"),
        ("## Fix safety", "## What it does", "the section What it does stands twice"),
        ("Safe.", "```python\n", "the fence is not closed"),
        ("Safe.", "```python good\nx = 1\n```", "belong in the section Example"),
    ],
)
def test_a_page_against_the_conventions_is_refused(tmp_path, old, new, problem):
    assert old in PAGE
    _write(tmp_path, PAGE.replace(old, new))
    with pytest.raises(pages.BadPage, match=problem):
        pages.load_page(ACCUMULATED)


def test_only_a_rule_with_a_fix_speaks_of_fix_safety(tmp_path):
    with pytest.raises(pages.BadPage, match="the sections must be"):
        pages.load_page(ACCUMULATED._replace(fix=None))
    _write(tmp_path, PAGE.replace("## Fix safety\n\nSafe.\n", ""))
    pages.load_page(ACCUMULATED._replace(fix=None))


def test_pages_come_from_package_data_or_from_our_own_checkout(monkeypatch, tmp_path):
    monkeypatch.undo()
    package = tmp_path / "site" / "torchperf_lint"
    package.mkdir(parents=True)
    monkeypatch.setattr(pages, "__file__", str(package / "pages.py"))
    find = pages.pages_root.__wrapped__
    stranger = tmp_path / "site" / "rules"
    stranger.mkdir()
    with pytest.raises(pages.BadPage, match="holds no rule pages"):
        find()
    (tmp_path / "site" / "pyproject.toml").write_text('[project]\nname = "rules"\n')
    with pytest.raises(pages.BadPage, match="holds no rule pages"):
        find()
    (tmp_path / "site" / "pyproject.toml").write_text('[project]\nname = "torchperf-lint"\n')
    assert find() == stranger
    (package / "_pages").mkdir()
    assert find() == package / "_pages"


def test_the_table_lists_every_rule():
    assert pages.rule_table().splitlines()[2:] == [
        "| TPL102 | [item-accumulated](rules/sync/item_accumulated.md) "
        "| reading a scalar to add it up stalls the host | safe | – | on |",
        "| TPL201 | [built-on-cpu](rules/transfer/built_on_cpu.md) | built late | no | – | off |",
    ]
    assert "](sync/item_accumulated.md)" in pages.rule_table(folder="")


@pytest.mark.parametrize("wanted", ["TPL102", "tpl102", "item-accumulated"])
def test_explain_prints_the_page_as_it_is(capsys, wanted):
    assert cli.main(["explain", wanted]) == 0
    assert capsys.readouterr().out == PAGE


def test_explain_renders_the_page_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.main(["explain", "TPL102"]) == 0
    out = capsys.readouterr().out
    assert "When to leave it" in out
    assert "```" not in out


def test_explain_knows_the_engines_own_code(capsys):
    assert cli.main(["explain", "TPL001"]) == 0
    assert "noqa" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("TPL103", "there is no rule `TPL103`; did you mean `TPL102`?"),
        ("item-acumulated", "there is no rule `item-acumulated`; did you mean `item-accumulated`?"),
        ("TPL1", "there is no rule `TPL1`; did you mean `TPL102`?"),
        ("TPL9", "there is no rule `TPL9`; `torchperf-lint rules` lists them"),
        ("?", "there is no rule `?`; `torchperf-lint rules` lists them"),
        ("TPL201", "TPL201 built-on-cpu has no page"),
    ],
)
def test_explain_tells_what_it_cannot_explain(capsys, wanted, told):
    assert cli.main(["explain", wanted]) == 2
    assert capsys.readouterr().err == f"torchperf-lint: error: {told}\n"


def test_rules_lists_them_all(capsys):
    assert cli.main(["rules"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["TPL102", "item-accumulated", "on", "fix:", "safe", *ACCUMULATED.summary.split()],
        ["TPL201", "built-on-cpu", "off", "built", "late"],
    ]


def test_rules_as_json(capsys):
    assert cli.main(["rules", "--output-format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "code": "TPL102",
        "name": "item-accumulated",
        "category": "sync",
        "severity": "error",
        "loses": None,
        "default": True,
        "fix": "safe",
        "summary": "reading a scalar to add it up stalls the host",
        "torch": ">=1.8",
        "torchmetrics": None,
    }
    assert (second["fix"], second["default"]) == (None, False)
