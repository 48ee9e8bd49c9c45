"""The language server's projects in memory: after any edits, a report is that of a judge that has just begun."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from linting import ROOT
from torchperf_lint.adopt.baseline import BadBaseline
from torchperf_lint.cli import main
from torchperf_lint.engine.findings import Severity
from torchperf_lint.server.judge import Judge, Text
from torchperf_lint.server.options import BadOption, Options, options_from

PROJECTS = sorted(path for path in (ROOT / "fixtures" / "projects").iterdir() if len(list(path.rglob("*.py"))) > 1)
SEVERAL = PROJECTS[:: max(1, len(PROJECTS) // 16)]
STEPS = 5


def reported(judge: Judge, path: Path, data: bytes) -> object:
    text = Text(str(path), data)
    judge.put(text)
    return judge.report(text, Options(isolated=True).settings(str(path)))


def edited(draw: random.Random, data: bytes) -> bytes:
    """The text with some rows taken out, doubled, or changed a little."""
    rows = data.splitlines(keepends=True) or [b"\n"]
    place = draw.randrange(len(rows))
    match draw.randrange(4):
        case 0:
            rows[place : place + draw.randrange(1, 4)] = []
        case 1:
            rows.insert(place, rows[place])
        case 2:
            rows[place] = rows[place].replace(b".cuda()", b"").replace(b"model", b"other")
        case 3:
            rows.append(b"# nothing\n")
    return b"".join(rows)


@pytest.mark.slow
@pytest.mark.parametrize("project", SEVERAL, ids=lambda path: path.name)
def test_edits_lead_to_the_reports_of_a_new_judge(project: Path, tmp_path: Path) -> None:
    here = tmp_path / "project"
    shutil.copytree(project, here)
    (here / "pyproject.toml").touch()
    files = sorted(here.rglob("*.py"))
    draw = random.Random(project.name)
    judge, texts = Judge(cached=False), {path: path.read_bytes() for path in files}
    reported(judge, files[0], texts[files[0]])
    for _ in range(STEPS):
        path = draw.choice(files)
        texts[path] = edited(draw, texts[path])
        if draw.random() < 0.5:  # in an editor; else on disk
            judge.put(Text(str(path), texts[path]))
        else:
            path.write_bytes(texts[path])
            judge.close(str(path))
            judge.changed([str(path)])
        fresh = Judge(cached=False)
        for each in files:
            fresh.put(Text(str(each), texts[each]))
        asked = draw.choice(files)
        expected = reported(fresh, asked, texts[asked])
        assert reported(judge, asked, texts[asked]) == expected
        judge.close(str(asked))
        asked.write_bytes(texts[asked])
        judge.changed([str(asked)])


def test_a_new_file_and_one_that_goes(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    helper, loop = tmp_path / "helper.py", tmp_path / "loop.py"
    helper.write_text("def on_gpu(data):\n    return data.cuda()\n", encoding="utf-8")
    judge = Judge(cached=False)
    assert not reported(judge, helper, helper.read_bytes()).diagnostics
    loop.write_text(
        "from helper import on_gpu\n\n\ndef train(model, loader):\n    for x in loader:\n"
        "        model(on_gpu(x)).mean().backward()\n",
        encoding="utf-8",
    )
    judge.changed([str(loop)])
    assert [each.code for each in reported(judge, helper, helper.read_bytes()).diagnostics] == ["TPL203"]
    (tmp_path / ".gitignore").write_text("loop.py\n", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    judge.changed([str(tmp_path / ".gitignore")])
    assert not reported(judge, helper, helper.read_bytes()).diagnostics
    (tmp_path / ".gitignore").unlink()
    judge.changed([str(tmp_path / ".gitignore")])
    assert reported(judge, helper, helper.read_bytes()).diagnostics
    loop.unlink()
    judge.changed([str(loop)])
    assert not reported(judge, helper, helper.read_bytes()).diagnostics


def test_what_the_configuration_leaves_out_has_no_findings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.torchperf-lint]\nextend-exclude = ['old']\n", encoding="utf-8")
    data = b"def train(model, loader):\n    for x in loader:\n        model(x.cuda()).mean().backward()\n"
    (tmp_path / "old").mkdir()
    judge = Judge(cached=False)
    for name, count in (("a.py", 1), ("old/a.py", 0)):
        text = Text(str(tmp_path / name), data)
        judge.put(text)
        found = judge.report(text, Options().settings(str(tmp_path / name))).diagnostics
        assert len(found) == count


def test_known_and_mild_findings_are_neither_shown_nor_fixed(tmp_path: Path) -> None:
    rows = "def train(model, loader):\n    for x in loader:\n        model(x.cuda()).mean().backward()\n"
    path, baseline = tmp_path / "a.py", tmp_path / "known.json"
    path.write_text(rows, encoding="utf-8")
    assert main(["--isolated", "--no-cache", "-q", "--baseline", str(baseline), "--write-baseline", str(path)]) == 0
    (tmp_path / "torchperf-lint.toml").write_text("baseline = 'known.json'\n", encoding="utf-8")
    settings = Options().settings(str(path))
    judge = Judge(cached=False)
    changed = f"{rows}        model(x.cuda(0)).mean().backward()\n"
    for source, found in ((rows, []), (changed, [4])):
        text = Text(str(path), source.encode())
        judge.put(text)
        assert [each.row for each in judge.report(text, settings).diagnostics] == found
        expected = source.replace("cuda(0)", "cuda(0, non_blocking=True)")
        assert judge.fixed(text, settings) == expected.encode()
        mild = settings._replace(baseline=None, min_severity=Severity.ERROR)
        assert len(judge.report(text, mild).diagnostics) == len(found) + 1
    baseline.unlink()
    with pytest.raises(BadBaseline):
        judge.report(text, settings)


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ([], "must be an object"),
        ({"rules": []}, "there is no option `rules`"),
        ({"select": "TPL1"}, "`select` must be a list of strings"),
        ({"select": ["TPL9"]}, "no rule matches"),
        ({"minConfidence": "sure"}, "`minConfidence`: `sure` is not"),
        ({"minSeverity": "bad"}, "`minSeverity`: `bad` is not"),
        ({"run": True}, "`run` must be `onType` or `onSave`"),
        ({"delay": True}, "must be a number of milliseconds"),
        ({"delay": 10_001}, "up to 10000"),
        ({"isolated": 1}, "must be true or false"),
        ({"config": []}, "must be a string"),
    ],
)
def test_mistaken_options(plain: object, told: str) -> None:
    with pytest.raises(BadOption, match=told):
        options_from(plain)


def test_options_stand_alone_or_in_our_section() -> None:
    assert options_from(None) == options_from({}) == Options()
    for plain in ({"delay": 5}, {"settings": {"delay": 5}}, {"torchperf-lint": {"delay": 5, "config": None}}):
        assert options_from(plain).delay == 5


def test_a_method_of_another_kind_counts(tmp_path: Path) -> None:
    path = tmp_path / "metric.py"
    text = """\
import torch
import torchmetrics


class Mean(torchmetrics.MeanMetric):
    async def plot(self):
        return 1


def train(model, loader, optimizer):
    mean = Mean().cuda()
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        mean.update(loss.item())
"""
    path.write_text(text)
    judge = Judge(cached=False)
    settings = Options(isolated=True, select=("ALL",)).settings(str(path))
    for each in (text, text.replace("async ", ""), text):
        path.write_text(each)
        asked = Text(str(path), each.encode())
        judge.put(asked)
        assert judge.report(asked, settings) == Judge(cached=False).report(asked, settings)
