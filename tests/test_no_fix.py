"""The reasons for having no fix: in one table, carried to the output, and given by the rules with most findings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from linting import ROOT, RULE_FIXTURES, load_fixture
from torchperf_lint.cli import main
from torchperf_lint.engine.findings import NoFix

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "no-fix.md"
CODE = [path for part in ("rules", "idioms", "engine") for path in (ROOT / "torchperf_lint" / part).rglob("*.py")]
ALWAYS_SAID = (
    *("TPL101", "TPL102", "TPL106", "TPL107", "TPL108", "TPL110", "TPL111", "TPL112"),
    *("TPL201", "TPL202", "TPL203", "TPL402"),
)
"""The rules whose findings have a fix or say why they have none."""

STEP = """\
def step(model, x, history):
    model.cuda()
    for images in x:
        loss = model(images.cuda()).mean()
        loss.backward()
        history["loss"] = loss.item()
"""


def test_page_has_every_reason_in_the_words_of_the_code() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(reason.identifier, reason.value) for reason in NoFix]


def test_every_reason_is_given_somewhere() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in CODE)
    assert not [reason.name for reason in NoFix if f"NoFix.{reason.name}" not in code]


@pytest.mark.slow
@pytest.mark.parametrize("code", ALWAYS_SAID)
def test_finding_without_a_fix_says_why(code: str) -> None:
    stems = {path.parent for path in RULE_FIXTURES.rglob("*.py") if f"expect: {code}" in path.read_text("utf-8")}
    found = [each for folder in stems for each in _findings(folder) if each.code == code]
    assert found
    assert [f"{each.path}:{each.row}" for each in found if (each.fix is None) != (each.no_fix is not None)] == []


def _findings(folder: Path) -> list:
    return [each for path in folder.glob("*.py") if "run_" not in path.name for each in load_fixture(path).check()]


def test_reason_is_told_in_json_and_by_why_and_not_in_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.py").write_text(STEP, encoding="utf-8")
    for options in (["--no-cache"], [], []):  # without a cache, into it, and from it
        main(["--isolated", "--select", "TPL101", "--output-format", "json", *options, "step.py"])
        (found,) = json.loads(capsys.readouterr().out)
        assert (found["fix"], found["no_fix"]) == (None, "put-in-a-container")
    main(["--isolated", "--select", "TPL101", "step.py"])
    assert "put-in-a-container" not in capsys.readouterr().out
    main(["why", "--isolated", "step.py:6"])
    assert f"no fix (put-in-a-container): {NoFix.PUT_IN_A_CONTAINER.value}" in capsys.readouterr().out
    main(["why", "--isolated", "--output-format", "json", "step.py:6"])
    reported = [each for each in json.loads(capsys.readouterr().out)["rules"] if each["state"] == "reported"]
    assert "put-in-a-container" in [each["no_fix"] for each in reported]
