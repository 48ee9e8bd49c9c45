"""The flake8 plugin, under the real flake8."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from torchperf_lint import flake8_plugin
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.flake8_plugin import _encoded
from training_loop import FOUND_AT, LOOP

TESTS = Path(__file__).parent
CONFIG = f"""\
[flake8:local-plugins]
extension =
    WRD = word_rules:Inserted
paths = {TESTS}
[flake8]
"""
"""Makes our plugin run the rules about words; options follow."""


def flake8(folder: Path, *arguments: str, config: str = "", data: bytes | None = None) -> list[str]:
    """The lines that flake8 prints in a folder, with the rules about words."""
    (folder / "setup.cfg").write_text(CONFIG + config)
    command = [sys.executable, "-m", "flake8", "--config", "setup.cfg", *arguments]
    done = subprocess.run(command, cwd=folder, input=data, capture_output=True, check=False)
    assert done.stderr == b""
    assert done.returncode == (1 if done.stdout else 0)
    return done.stdout.decode().splitlines()


def codes(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines]


def test_each_finding_is_one_line_at_its_column(tmp_path):
    (tmp_path / "a.py").write_text("ß = 'ß'; slow = 1; slow\nif slow:\n\tslow\n", encoding="utf-8")
    assert flake8(tmp_path, "--select", "TPL", "a.py") == [
        f"a.py:{place}: TPL102 `slow` is slow" for place in ("1:10", "1:20", "2:4", "3:2")
    ]


@pytest.mark.parametrize(
    ("head", "encoding"), [("# -*- coding: latin-1 -*-\n", "latin-1"), ("# -*- coding: gb2312 -*-\n", "gb2312")]
)
def test_files_in_other_encodings(tmp_path, head, encoding):
    letter = "é" if encoding == "latin-1" else "\N{CJK UNIFIED IDEOGRAPH-4E2D}"
    data = f"{head}x = '{letter}{letter}', slow\n".encode(encoding)
    (tmp_path / "a.py").write_bytes(data)
    expected = ["2:11: TPL102 `slow` is slow"]
    assert flake8(tmp_path, "--select", "TPL", "a.py") == [f"a.py:{each}" for each in expected]
    assert flake8(tmp_path, "--select", "TPL", "-", data=data) == [f"stdin:{each}" for each in expected]


def test_a_byte_order_mark_and_carriage_returns_move_nothing(tmp_path):
    data = b"\xef\xbb\xbfx = slow\r\nslow\r\n"
    (tmp_path / "a.py").write_bytes(data)
    found = [line.partition(":")[2] for line in flake8(tmp_path, "--select", "TPL", "a.py")]
    assert found == ["1:5: TPL102 `slow` is slow", "2:1: TPL102 `slow` is slow"]


def test_noqa_is_flake8s_own(tmp_path):
    (tmp_path / "a.py").write_text("slow  # noqa: TPL102\nslow  # noqa\nx = 1  # noqa: TPL102\nslow  # noqa: E501\n")
    assert flake8(tmp_path, "--select", "TPL", "a.py") == ["a.py:4:1: TPL102 `slow` is slow"]
    assert len(flake8(tmp_path, "--select", "TPL", "--disable-noqa", "a.py")) == 3


def test_a_file_that_asks_to_be_left_out_is_left_out(tmp_path):
    (tmp_path / "a.py").write_text("# torchperf-lint: ignore-file[TPL1]\nslow\nrisky\n")
    assert codes(flake8(tmp_path, "--select", "TPL", "a.py")) == ["TPL201"]


@pytest.mark.parametrize(
    ("arguments", "config", "found"),
    [
        ([], "", ["TPL102", "TPL201"]),
        (["--select", "TPL"], "", ["TPL102", "TPL201"]),
        (["--select", "E"], "", []),
        (["--select", "TPL2"], "", ["TPL201"]),
        (["--extend-ignore", "TPL1"], "", ["TPL201"]),
        (["--extend-select", "TPL401"], "", ["TPL102", "TPL201", "TPL401"]),
        (["--extend-select", "TPL4"], "", ["TPL102", "TPL201", "TPL401"]),
        (["--select", "TPL,TPL401"], "", ["TPL102", "TPL201", "TPL401"]),
        (["--enable-extensions", "TPX"], "", ["TPL102", "TPL201", "TPL401"]),
        (["--enable-extensions", "TPX", "--extend-select", "TPL401"], "", ["TPL102", "TPL201", "TPL401"]),
        ([], "extend-select = TPL401", ["TPL102", "TPL201", "TPL401"]),
        ([], "enable-extensions = TPX", ["TPL102", "TPL201", "TPL401"]),
        # A user's `ignore` takes the place of flake8's default one and must not switch such rules on.
        ([], "ignore = E203,W391", ["TPL102", "TPL201"]),
        ([], "per-file-ignores = a.py: TPL2", ["TPL102"]),
    ],
)
def test_selection_is_flake8s_and_opt_in_rules_stay_out_of_it(tmp_path, arguments, config, found):
    (tmp_path / "a.py").write_text("slow = risky = quiet = 1\n")
    assert codes(flake8(tmp_path, *arguments, "a.py", config=config)) == found


def test_our_options_are_taken_from_the_command_line_and_the_configuration(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    options = ("target-torch = 2.4", "target-torchmetrics = 1.6.1", "hot-functions = step,run", "loader-names = feed")
    config = "".join(f"torchperf-{option}\n" for option in (*options, "min-confidence = proven"))
    report = (
        "import atexit; from torchperf_lint.flake8_plugin import Plugin; "
        "atexit.register(lambda: print(Plugin.least.value, Plugin.target, Plugin.hints)); "
        "from flake8.main.cli import main; raise SystemExit(main())"
    )
    (tmp_path / "setup.cfg").write_text(CONFIG + config)
    command = [sys.executable, "-c", report, "--config", "setup.cfg", "a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("Hints") == [
        "proven Target(torch=(2, 4), torchmetrics=(1, 6, 1)) ",
        "(hot_functions=('step', 'run'), loader_names=('feed',))\n",
    ]
    done = subprocess.run(
        [*command, "--torchperf-target-torch", "1.13"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "torch=(1, 13)" in done.stdout


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("target-torch", "new", "`new` is not a version such as 2.13 or 1.6.2"),
        ("hot-functions", "step,a.", "`a.` is not a name such as `step` or `Engine.step`"),
        ("min-confidence", "sure", "`sure` is not `proven` or `likely`"),
        ("loader-names", "feed()", "`feed()` is not a name such as `step` or `Engine.step`"),
    ],
)
def test_an_option_that_means_nothing_is_one_line(tmp_path, option, value, reason):
    command = [sys.executable, "-m", "flake8", "--isolated", f"--torchperf-{option}", value, "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"torchperf-lint: {reason}" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_our_own_comments_hold_under_flake8(tmp_path):
    (tmp_path / "a.py").write_text("slow  # torchperf-lint: ignore[TPL102]\nslow  # torchperf-lint: ignore\n")
    assert flake8(tmp_path, "--select", "TPL", "a.py") == []


def test_broken_files_are_flake8s_own_to_report(tmp_path):
    (tmp_path / "a.py").write_text("slow = (\n")
    assert codes(flake8(tmp_path, "--select", "TPL,E9", "a.py")) == ["E999"]


def test_a_notebook_is_not_called_clean(tmp_path):
    (tmp_path / "a.ipynb").write_text('{"cells": ["slow"]}\n')
    (tmp_path / "a.tmpl").write_text("slow\n")
    assert flake8(tmp_path, "--select", "TPL", "a.ipynb", "a.tmpl") == [
        "a.ipynb:1:1: TPL000 not checked: notebooks are not supported here; `torchperf-lint FILE` checks them",
        "a.tmpl:1:1: TPL102 `slow` is slow",
    ]


def test_no_message_steers_a_terminal(monkeypatch):
    report = FileReport((), Failure("a.py", None, None, "`\x1b[2J`\n##vso[a]"))
    monkeypatch.setattr(flake8_plugin, "check_source", lambda *_, **__: report)
    ((_, _, said, _),) = flake8_plugin.Plugin(None, "a.py", []).run()
    assert said == "TPL000 not checked: `\ufffd[2J`\ufffd##vso\ufffd[a]"


def test_many_files_in_worker_processes_report_the_same(tmp_path):
    names = [f"m{index}.py" for index in range(6)]
    for name in names:
        (tmp_path / name).write_text("slow = quiet\n")
    alone = flake8(tmp_path, "-j1", "--select", "TPL,TPL4", *names)
    assert len(alone) == 12
    assert flake8(tmp_path, "-j2", "--select", "TPL,TPL4", *names) == alone


def test_flake8_and_the_command_line_agree_on_a_training_loop(tmp_path):
    (tmp_path / "train.py").write_text(LOOP)
    ours, theirs = (
        subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        for command in (
            ["torchperf_lint", "--isolated", "-q", "--output-format", "concise", "train.py"],
            ["flake8", "--isolated", "--select", "TPL", "train.py"],
        )
    )
    assert theirs.stdout.startswith(f"train.py:{FOUND_AT}: TPL102 ")
    assert theirs.stdout == re.sub(r" \[\*\]", "", ours.stdout)


def test_the_bytes_of_lines_are_those_of_the_file():
    for text, encoding in (
        ("x = 'é'\n", "utf-8"),
        ("# coding: latin-1\nx = 'é'\n", "latin-1"),
        ("# coding: no\n", "utf-8"),
    ):
        assert _encoded(text) == text.encode(encoding)
