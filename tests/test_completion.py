"""Completion of the command line in shells: bash itself completes words by the script that is printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linting import ROOT
from test_cli import lint, write  # noqa: F401
from torchperf_lint.engine import registry
from torchperf_lint.options import check_parser
from word_rules import word_rules  # noqa: F401

COMMAND = [sys.executable, "-m", "torchperf_lint", "generate-shell-completion"]

COMPLETE = r"""
source "$1"
read -ra words <<< "$2"
[[ $2 == *' ' ]] && words+=('')
COMP_WORDS=("${words[@]}")
COMP_CWORD=$(( ${#words[@]} - 1 ))
COMP_LINE=$2
COMP_POINT=${#2}
complete -p torchperf-lint >&2
function_name=$(complete -p torchperf-lint | sed 's/.*-F \([^ ]*\) .*/\1/')
"$function_name" torchperf-lint "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
"""What bash does for a tab behind the line in `$2`."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "torchperf-lint"
    done = subprocess.run([*COMMAND, "bash"], cwd=ROOT, capture_output=True, text=True, check=True)
    path.write_text(done.stdout, encoding="utf-8")
    return path


def completed(script: Path, line: str, folder: Path) -> tuple[set[str], str]:
    """What bash offers for the last word of a line, and how it was told to complete."""
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "--noprofile", "-c", COMPLETE, "bash", str(script), line],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {word.rstrip() for word in done.stdout.split("\n") if word.strip()}, done.stderr


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("torchperf-lint ex", {"explain"}),
        ("torchperf-lint --change", {"--changed-since"}),
        ("torchperf-lint check --wri", {"--write-baseline"}),
        ("torchperf-lint --fail-on ", {"error", "warning", "note"}),
        ("torchperf-lint check --min-severity wa", {"warning"}),
        ("torchperf-lint --min-confidence p", {"proven"}),
        ("torchperf-lint --output-format js", {"json", "json-lines"}),
        ("torchperf-lint check --select TPL10", {rule.code for rule in registry.all_rules() if "TPL10" in rule.code}),
        ("torchperf-lint explain item-in-h", {"item-in-hot-loop"}),
        ("torchperf-lint verify TPL10", {rule.code for rule in registry.all_rules() if "TPL10" in rule.code}),
        ("torchperf-lint verify TPL101 item-in-h", {"item-in-hot-loop"}),
        ("torchperf-lint --baseline kn", {"known.json"}),
        ("torchperf-lint --config kn", {"known.json"}),
        ("torchperf-lint --cache-dir su", {"sub"}),
        ("torchperf-lint check tr", {"train.py"}),
        ("torchperf-lint why tr", {"train.py"}),
        ("torchperf-lint generate-shell-completion zs", {"zsh"}),
        ("torchperf-lint tr", set()),
        ("torchperf-lint --no-such", set()),
    ],
)
def test_bash_completes(script: Path, tmp_path: Path, line: str, offered: set[str]) -> None:
    for name in ("train.py", "known.json"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    found, how = completed(script, line, tmp_path)
    assert found == offered
    assert "-o default" in how, "where nothing is offered, bash completes paths"


def test_all_options_and_commands_are_offered(script: Path, tmp_path: Path) -> None:
    options = {name for action in check_parser()._actions for name in action.option_strings}
    assert completed(script, "torchperf-lint -", tmp_path)[0] == options
    assert completed(script, "torchperf-lint check -", tmp_path)[0] == options
    commands = {"check", "explain", "why", "rules", "verify", "profile", "server", "clean", "generate-shell-completion"}
    assert completed(script, "torchperf-lint ", tmp_path)[0] == commands


@pytest.mark.parametrize("shell", ["zsh", "tcsh", "fish"])
def test_there_is_a_script_for_other_shells(lint, shell: str) -> None:  # noqa: F811
    status, out, err = lint("generate-shell-completion", shell)
    assert (status, err) == (0, "")
    assert "write-baseline" in out


def test_what_cannot_be_made_is_one_line(lint, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    status, out, err = lint("generate-shell-completion", "cmd")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("torchperf-lint: error: shtab makes no completion for `cmd`, but for bash, ")
    assert lint("generate-shell-completion")[0] == 2
    monkeypatch.setitem(sys.modules, "shtab", None)
    told = "torchperf-lint: error: this needs shtab: pip install 'torchperf-lint[completion]'\n"
    assert lint("generate-shell-completion", "bash") == (2, "", told)


def test_a_folder_called_like_the_command_can_still_be_linted(lint) -> None:  # noqa: F811
    write("generate-shell-completion/a.py", "x = 1\n")
    assert lint("./generate-shell-completion") == (0, "No findings.\n", "")
    assert os.path.isdir("generate-shell-completion")
