"""`torchperf-lint verify` from its arguments to its exit status, and what `--update` writes."""

from __future__ import annotations

import importlib.util
import shutil

import pytest
from synthetic import EVALUATION

from linting import ROOT
from torchperf_lint import cli, pages
from torchperf_lint.engine import registry
from torchperf_lint.measurements import SIMULATED
from torchperf_lint.verify import command, pairs, workloads
from torchperf_lint.verify.command import FAILED, NOT_PROVED, PROVED

pytestmark = pytest.mark.usefixtures("warm_runs")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of rules/ to write to, and one workload of TPL102."""
    shutil.copytree(ROOT / "rules", tmp_path / "rules")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "rules" / "measurements.json").unlink(missing_ok=True)
    monkeypatch.setattr(pages, "pages_root", lambda: tmp_path / "rules")
    program = tmp_path / "run_sum.py"
    program.write_text(EVALUATION)
    rule = registry.find_rule("TPL102")
    monkeypatch.setattr(workloads, "workloads_of", lambda rules: [workloads.read_workload(program, rule)])
    return tmp_path


@pytest.mark.slow
def test_what_is_measured_is_written_once_and_then_held_against_each_run(checkout, capsys):
    assert command.main(["TPL102", "--device", "sim"]) == NOT_PROVED
    assert "the page says nothing of this workload" in capsys.readouterr().out

    assert command.main(["TPL102", "--device", "sim", "--update"]) == PROVED
    assert "TPL102  sum: 1 (+1 staged) -> safe 0 (+1 staged) waits per step; accepted" in capsys.readouterr().out
    (row,) = pages.measured()[SIMULATED].rules["TPL102"]
    assert row.waits == {"unfixed": 1, "safe": 0}
    page = (checkout / "rules/sync/item_accumulation.md").read_text()
    assert page.count("## Measured effect") == 1
    assert "| `run_sum.py` | 1, 1 staged | 0, 1 staged | – | equal |" in page

    assert command.main(["TPL102", "--device", "sim"]) == PROVED
    capsys.readouterr()

    file = checkout / "rules/measurements.json"
    file.write_text(file.read_text().replace('"safe": 0.0', '"safe": 0.5', 1))
    assert command.main(["TPL102", "--device", "sim", "--verbose"]) == NOT_PROVED
    out = capsys.readouterr().out
    assert "the page says waits {'unfixed': 1.0, 'safe': 0.5}, and {'unfixed': 1.0, 'safe': 0.0} is measured" in out
    assert "unfixed   1 waits  unfixed/run_sum.py:13 item: total += loss.item()" in out


def test_nothing_is_written_where_a_fix_is_not_accepted(checkout, monkeypatch, capsys):
    wrong = EVALUATION.replace("total += loss.item()", "total += 2 * loss").encode()
    monkeypatch.setattr(pairs, "variants", lambda case: {"unfixed": case.workload.data, "safe": wrong})
    assert command.main(["TPL102", "--device", "sim", "--update"]) == FAILED
    captured = capsys.readouterr()
    assert "rejected" in captured.out
    assert "1 run of 1 rule: 1 rejected" in captured.out
    assert "nothing is written for TPL102: not all their programs were accepted" in captured.err
    assert not (checkout / "rules/measurements.json").exists()


def test_only_a_checkout_is_written_to(checkout, capsys):
    (checkout / "pyproject.toml").unlink()
    assert command.main(["TPL102", "--device", "sim", "--update"]) == FAILED
    assert "--update writes into a checkout, and this is an installation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["TPL999"], "there is no rule `TPL999`"),
        (["--device", "cuda"], "torch sees no CUDA device here; --device sim simulates one"),
        (["--script", "gone.py", "--device", "sim"], "gone.py: there is no such file"),
        (["--script", "/", "--device", "sim"], "/: this is no file"),
        (["--script", "x.py", "--steps", "0"], "--steps must be at least 1, not 0"),
        (["--steps", "3"], "--steps is for --script"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["TPL102", "--", "--lr"], "`--lr` after -- is an argument for --script, which is not given"),
        (["--script", "x.py", "--update"], "--script and --update do not go together"),
        (["--script", "x.py", "--device", "sim", "--python", "/dev/null"], "it cannot be run: Permission denied"),
        (["--script", "x.py", "--device", "sim", "--python", "/usr/bin/true"], "it is no Python 3.10 or newer"),
        (["--include", "x"], "--include is for --script"),
        (["--output-format", "json"], "--output-format is for --script"),
        (["--fix-preview"], "--fix-preview is for --script"),
        (["--script", "x.py", "--unsafe-fixes"], "--unsafe-fixes is for --fix-preview"),
        (
            ["--script", __file__, "--device", "sim", "--report", "/dev/null"],
            "/dev/null: the report cannot be written: File exists",
        ),
        (["TPL102", "--script", "x.py"], "--script and RULE do not go together"),
        (["--experiments", "--script", "x.py"], "--script and --experiments do not go together"),
        (["--experiments", "TPL102"], "--experiments and RULE do not go together"),
        (
            ["TPL102", "--device", "sim", "--report", "/dev/null"],
            "/dev/null: the report cannot be written: File exists",
        ),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments, said, capsys):
    assert cli.main(["verify", *arguments]) == FAILED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("torchperf-lint verify: error: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_torch_is_asked_for_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["verify"]) == FAILED
    assert "pip install 'torchperf-lint[verify]'" in capsys.readouterr().err


def test_a_rule_without_a_program_is_named(monkeypatch, capsys):
    monkeypatch.setattr(workloads, "workloads_of", lambda rules: [])
    assert command.main(["TPL501", "--device", "sim"]) == PROVED
    assert "nothing was run; no program to run for TPL501" in capsys.readouterr().out


def test_prefixes_choose_rules(monkeypatch):
    chosen = []
    monkeypatch.setattr(workloads, "workloads_of", lambda rules: chosen.extend(rule.code for rule in rules) or [])
    command.main(["TPL3", "item-accumulation", "--device", "sim"])
    metrics = [rule.code for rule in registry.all_rules() if rule.code.startswith("TPL3")]
    assert len(metrics) > 3
    assert chosen == ["TPL102", *metrics]
