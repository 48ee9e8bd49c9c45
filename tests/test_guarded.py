"""`--fix --check-with`: what a command of the user fails with is found and taken back, whatever ends the run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from test_cli import lint, write  # noqa: F401
from torchperf_lint import cli
from torchperf_lint.guarded import command, fixing, journals, states
from torchperf_lint.guarded.search import Search
from torchperf_lint.syntax.identity import digest_of
from training_loop import LOOP
from word_rules import word_rules  # noqa: F401

TESTS = """\
import pathlib

ran = pathlib.Path("ran")
ran.write_text(ran.read_text() + "." if ran.exists() else ".")
"""
"""The beginning of a project's tests, which count how often they run."""


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch) -> Path:
    """The folder of the user's for the journals."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def clock(request, monkeypatch) -> None:
    """A clock by which the next state is never shown in the second of the one before, but for tests about that."""
    if "real_time" not in request.keywords:
        monkeypatch.setattr(states, "time", types.SimpleNamespace(time=lambda: 0.0, sleep=time.sleep))


def left(state: Path) -> list[Path]:
    """The journals that runs have left."""
    return list(state.rglob(journals.JOURNAL))


@pytest.fixture
def checked(lint):  # noqa: F811
    """`--fix --check-with` with the tests of the project in the current folder, and how often these ran."""

    def run(test: str, *options: str) -> tuple[int, str, str, int]:
        write("tests/check.txt", TESTS + test)
        done = lint("--fix", "--check-with", f"'{sys.executable}' -S tests/check.txt", *options)
        ran = Path("ran")
        return (*done, len(ran.read_text()) if ran.exists() else 0)

    return run


def texts() -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(Path().rglob("*.py"))}


def test_fixes_that_pass_stay(checked):
    write("a.py", "slow\nrisky\n")
    status, out, err, ran = checked("")
    assert (status, ran, texts()) == (1, 2, {"a.py": "fast\nrisky\n"})
    assert "passes with them (it ran 2 times)." in out
    assert err.splitlines()[0].endswith(", without fixes: passes.")
    assert err.splitlines()[1].endswith(", with 1 fix: passes.")


def test_the_fix_that_breaks_it_is_found_and_taken_back(checked):
    for name in "abcdefgh":
        write(f"{name}.py", "x = 1\nslow\nslow\n")
    test = 'assert pathlib.Path("f.py").read_text().splitlines()[2] == "slow"\n'
    status, out, err, ran = checked(test, "--output-format", "concise")
    kept = {f"{name}.py": "x = 1\nfast\nfast\n" for name in "abcdegh"}
    assert texts() == {**kept, "f.py": "x = 1\nfast\nslow\n"}
    assert (status, ran) == (1, len(err.splitlines()))
    assert ran <= 1 + 2 * 4  # none, and two for each halving of 16 fixes
    lines = out.splitlines()
    assert lines[0] == "f.py:3:1: TPL102 [*] `slow` is slow"
    assert "  f.py:3: TPL102 slow-word: say it otherwise" in lines
    (told,) = [line for line in lines if line.startswith("Took back 1 fix, with which ")]
    assert told.endswith(f"(it ran {ran} times):")
    assert "Found 16 findings (15 fixed, 1 remaining)." in lines


def test_several_files_and_fixes_break_it(checked):
    for name in "abcd":
        write(f"{name}.py", "slow\nrisky\nslow\n")
    test = """\
assert pathlib.Path("a.py").read_text().startswith("slow")
assert "daring" not in pathlib.Path("d.py").read_text()
assert pathlib.Path("c.py").read_text() == "slow\\nrisky\\nslow\\n"
"""
    _, out, _, _ = checked(test, "--unsafe-fixes")
    all_fixed = "fast\ndaring\nfast\n"
    a, c, d = "slow\ndaring\nfast\n", "slow\nrisky\nslow\n", "fast\nrisky\nfast\n"
    assert texts() == {"a.py": a, "b.py": all_fixed, "c.py": c, "d.py": d}
    back = [line.split()[:2] for line in out.splitlines() if line.endswith("say it otherwise")]
    assert ["a.py:1:", "TPL102"] in back
    assert ["d.py:2:", "TPL201"] in back
    assert "assuming that nobody minds the risk" in out


def test_fixes_that_break_it_only_together_are_not_both_kept(checked):
    write("a.py", "slow\n")
    write("b.py", "slow\n")
    test = 'assert "slow" in pathlib.Path("a.py").read_text() + pathlib.Path("b.py").read_text()\n'
    _, out, _, ran = checked(test)
    assert sorted(texts().values()) == ["fast\n", "slow\n"]
    assert (out.count("Took back 1 fix"), ran) == (1, 3)


def test_nothing_is_written_where_the_command_fails_anyway(checked):
    write("a.py", "slow\n")
    before = Path("a.py").stat()
    status, out, err, ran = checked('print("no data \\x1b[31m")\nraise SystemExit(3)\n')
    after = Path("a.py").stat()  # to read it changes when it was read last
    assert (status, out, ran) == (2, "", 1)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert err.splitlines()[1] == "no data \N{REPLACEMENT CHARACTER}[31m"
    assert err.splitlines()[2].endswith(" fails before any fix (exit status 3): nothing is written")
    assert len(err.splitlines()) == 3


def test_a_command_that_is_not_there_is_one_line(lint):  # noqa: F811
    write("a.py", "slow\n")
    status, out, err = lint("--fix", "--check-with", "no-such-command -q")
    assert (status, out) == (2, "")
    where = os.path.realpath(os.curdir)
    said = f"`no-such-command -q` cannot be run in {where}: No such file or directory"
    assert err == f"torchperf-lint: error: {said}\n"
    assert texts() == {"a.py": "slow\n"}


def test_a_command_that_goes_away_leaves_the_last_good_state(lint):  # noqa: F811
    write("a.py", "slow\n")
    write("b.py", "slow\n")
    script = f"#!{sys.executable}\nimport os\nif 'fast' in open('a.py').read(): os.unlink('run'); raise SystemExit(1)\n"
    write("run", script).chmod(0o755)
    status, _, err = lint("--fix", "--check-with", "./run", "-q")
    assert (status, texts()) == (2, {"a.py": "slow\n", "b.py": "slow\n"})
    assert err.startswith("torchperf-lint: error: `./run` cannot be run in ")


def test_it_does_not_run_where_nothing_is_to_be_fixed(checked):
    write("a.py", "quiet\nrisky\n")
    status, _, err, ran = checked("")
    assert (status, err, ran) == (1, "", 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--check-with", "true"], "--check-with tries what --fix writes: it needs --fix"),
        (["--checked"], "--checked tries what --fix writes: it needs --fix"),
        (["--diff", "--check-with", "true"], "--check-with tries what is written: it cannot stand beside --diff"),
        (["--fix", "--diff", "--checked"], "--checked tries what is written: it cannot stand beside --diff"),
        (["--fix", "--check-with", "true", "-"], "--check-with is for files: it cannot stand beside the path `-`"),
        (
            ["--fix", "--checked", "--check-with", "true"],
            "--checked runs the command of the configuration: it cannot stand beside --check-with",
        ),
        (["--fix", "--check-with", " "], "argument --check-with: names no command"),
        (["--fix", "--check-with", "a 'b"], "argument --check-with: `a 'b` is no command line: no closing quotation"),
        (["--fix", "--checked"], "--checked needs a setting `check-with`, and there is none"),
    ],
)
def test_options_that_do_not_go_together(lint, options, reason):  # noqa: F811
    write("a.py", "slow\n")
    assert lint(*options) == (2, "", f"torchperf-lint: error: {reason}\n")
    assert texts() == {"a.py": "slow\n"}


def test_the_command_of_the_configuration_runs_in_its_folder_and_only_if_it_is_asked_for(lint, monkeypatch):  # noqa: F811
    write("sub/a.py", "slow\n")
    write("sub/b.py", "slow\n")
    write("torchperf-lint.toml", "check-with = \"grep -q slow 'sub/a.py'\"\n")
    monkeypatch.chdir("sub")
    _, out, _ = lint("--fix", "--checked")
    assert texts() == {"a.py": "slow\n", "b.py": "fast\n"}
    assert "Took back 1 fix, with which `grep -q slow 'sub/a.py'` fails (it ran 4 times):" in out
    assert lint("--fix")[0] == 0
    assert texts() == {"a.py": "fast\n", "b.py": "fast\n"}


def test_known_findings_are_left_alone(checked):
    write("a.py", "slow\n")
    cli.main(["--baseline", "known.json", "--write-baseline", "-q"])
    write("a.py", "slow\nx = slow\ny = slow\n")
    test = 'assert "y = slow" in pathlib.Path("a.py").read_text()\n'
    _, out, _, _ = checked(test, "--baseline", "known.json")
    assert texts() == {"a.py": "slow\nx = fast\ny = slow\n"}
    assert "Found 2 findings (1 fixed, 1 remaining) besides 1 of the baseline." in out


def test_a_file_that_may_not_be_written_is_told_and_the_others_are_fixed(checked):
    write("a.py", "slow\n").chmod(0o444)
    write("b.py", "slow\n")
    status, _, err, _ = checked("")
    assert (status, texts()) == (2, {"a.py": "slow\n", "b.py": "fast\n"})
    assert "a.py: error: cannot be written: the file is read-only\n" in err


@pytest.mark.slow
@pytest.mark.real_time
def test_states_of_one_size_are_not_taken_for_each_other(checked):
    """Python would take the byte code of a module for valid by its size and the second of its time."""
    for name in "abcd":
        write(f"{name}.py", "x = 'slow'\ny = 'slow'\n")
    write("run_tests.txt", "import a, b, c, d\nassert (c.x, d.y) == ('slow', 'slow')\n")
    test = "import sys\nsys.path.insert(0, '.')\nexec(open('run_tests.txt').read())\n"
    checked(test)
    fixed, x, y = "x = 'fast'\ny = 'fast'\n", "x = 'slow'\ny = 'fast'\n", "x = 'fast'\ny = 'slow'\n"
    assert texts() == {"a.py": fixed, "b.py": fixed, "c.py": x, "d.py": y}


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("between", [False, True], ids=["as-shown", "written-in-between"])
def test_no_state_is_shown_in_the_second_of_the_one_before(tmp_path, monkeypatch, between):
    monkeypatch.chdir(tmp_path)
    place = write("a.py", "slow\n")
    seconds = [int(place.stat().st_mtime)]
    with states.States(os.curdir, {"a.py": b"slow\n"}) as on_disk:
        for text in (b"fast\n", b"slow\n", b"fast\n"):
            if between:  # as the making of a result does, and no command sees it
                on_disk.write({"a.py": b"slow\n"})
            on_disk.show({"a.py": text})
            seconds.append(int(place.stat().st_mtime))
    seconds.append(int(place.stat().st_mtime))  # the good state, which the user's next run sees
    assert place.read_bytes() == b"slow\n"
    assert len(set(seconds)) == 5


def test_the_clock_of_files_may_lag_behind_that_of_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    now, slept = [int(write("a.py", "slow\n").stat().st_mtime) + 1 + states.CLOCK_LAG / 2], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(states, "time", types.SimpleNamespace(time=lambda: now[0], sleep=sleep))
    with states.States(os.curdir, {"a.py": b"slow\n"}) as on_disk:
        on_disk.show({"a.py": b"fast\n"})
        assert slept


# -- what ends a run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_leaves_the_last_good_state(checked, state, monkeypatch, error):
    for name in "abcd":
        write(f"{name}.py", "slow\n")
    real = command.run

    def interrupted(line: str, folder: str) -> command.Ended:
        if sorted(texts().values()) == ["fast\n", "fast\n", "fast\n", "slow\n"]:
            raise error
        return real(line, folder)

    monkeypatch.setattr(command, "run", interrupted)
    status, _, _, ran = checked('assert "slow" in pathlib.Path("d.py").read_text()\n')
    assert (status, ran) == ((130 if error is KeyboardInterrupt else 2), 3)
    assert texts() == {"a.py": "fast\n", "b.py": "fast\n", "c.py": "slow\n", "d.py": "slow\n"}
    assert not left(state)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_process_that_is_ended_leaves_no_state_on_trial(tmp_path, state, number):
    train = tmp_path / "train.py"
    train.write_text(LOOP)
    (tmp_path / "tests.txt").write_text(
        "import time, pathlib\n"
        "if '.item()' not in pathlib.Path('train.py').read_text():\n"
        "    pathlib.Path('waiting').touch()\n"
        "    time.sleep(600 if not pathlib.Path('again').exists() else 0)\n"
    )
    arguments = [sys.executable, "-m", "torchperf_lint", "--fix", "--check-with", f"'{sys.executable}' tests.txt"]
    process = subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    while not (tmp_path / "waiting").exists():
        assert process.poll() is None
        time.sleep(0.05)
    assert train.read_text() != LOOP
    if number == signal.SIGINT:  # as a terminal does, to all processes
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    process.wait()
    if number == signal.SIGKILL:
        os.killpg(process.pid, signal.SIGKILL)  # its command
        assert train.read_text() != LOOP
        (journal,) = [json.loads(place.read_text()) for place in left(state)]
        assert {each["path"] for each in journal["files"]} == {str(train)}
    else:
        assert train.read_text() == LOOP
        assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
        assert not left(state)
    (tmp_path / "again").touch()
    done = subprocess.run(arguments, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("train.py: warning: put back" in done.stderr) == (number == signal.SIGKILL)
    assert train.read_text() != LOOP
    assert not left(state)


def journal_of(*names: str, written: bytes = b"slow\n") -> str:
    """A journal by which files are to hold `x = 1`, and a run had written `written`."""
    files = [
        {"path": os.path.abspath(f"{name}.py"), "good": "x = 1\n", "written": [digest_of(written)]} for name in names
    ]
    return json.dumps({"root": os.path.realpath(os.curdir), "files": files})


def killed(*names: str) -> None:
    """Leave what a killed run in the current folder leaves."""
    folder = Path(journals.folder_of(os.curdir))
    folder.mkdir(parents=True)
    (folder / journals.JOURNAL).write_text(journal_of(*names))


def test_what_was_changed_since_a_run_was_killed_is_left_and_its_good_state_is_kept(lint, state):  # noqa: F811
    for name in "abc":
        write(f"{name}.py", "slow\n")
    write("b.py", "y = 1\nslow\n")
    killed("a", "b", "c")
    status, _, err = lint("--fix")
    assert texts() == {"a.py": "x = 1\n", "b.py": "y = 1\nfast\n", "c.py": "x = 1\n"}
    assert status == 0
    assert [line.rpartition("/")[2].split(":")[0] for line in err.splitlines()[:2]] == ["a.py", "c.py"]
    assert err.splitlines()[2].endswith(f" was killed (before: {os.path.abspath('b.py.orig')})")
    assert Path("b.py.orig").read_text() == "x = 1\n"
    assert not left(state)


@pytest.mark.parametrize("place", ["sub", "sub/deeper", "."])
def test_files_are_put_back_from_any_folder_of_the_project(lint, state, monkeypatch, place):  # noqa: F811
    write("sub/a.py", "slow\n")
    write("sub/deeper/c.py", "quiet\n")
    monkeypatch.chdir("sub")
    killed("a")
    monkeypatch.chdir("..")
    monkeypatch.chdir(place)
    assert "a.py: warning: put back" in lint("--fix")[2]
    assert not left(state)


def test_a_killed_run_of_another_project_is_left_to_it(lint, state, monkeypatch):  # noqa: F811
    write("one/a.py", "slow\n")
    write("other/b.py", "slow\n")
    monkeypatch.chdir("one")
    killed("a")
    monkeypatch.chdir("../other")
    assert lint("--fix")[2] == ""
    assert left(state)


def test_a_journal_that_comes_with_the_project_is_not_obeyed(lint):  # noqa: F811
    write("a.py", "quiet\n")
    write(".torchperf-lint-check-with/journal.json", journal_of("a", written=b"quiet\n"))
    lint("--fix", "--unsafe-fixes")
    assert texts() == {"a.py": "quiet\n"}


ENTRIES = (
    "7",
    "{}",
    '"abc"',
    '{"path": "/a", "good": "\\u20ac", "written": []}',
    '{"path": "/\\u0000", "good": "", "written": []}',
)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"root": 1}', '{"root": "/", "files": null}']
    + [f'{{"root": "/", "files": [{entry}]}}' for entry in ENTRIES],
)
def test_a_broken_journal_changes_nothing_and_goes_away(lint, state, content):  # noqa: F811
    write("a.py", "slow\n")
    killed("a")
    Path(journals.folder_of(os.curdir), journals.JOURNAL).write_text(content)
    assert lint("--fix")[0] == 0
    assert texts() == {"a.py": "fast\n"}
    assert not left(state)


def test_the_journal_stays_while_it_holds_the_only_good_state(lint, state, monkeypatch):  # noqa: F811
    write("sub/a.py", "slow\n")
    monkeypatch.chdir("sub")
    killed("a")
    monkeypatch.chdir("..")
    os.rename("sub", "renamed")
    (journal,) = left(state)
    for _ in range(2):
        assert f" was killed (before: {journal})" in lint("--fix")[2]
    assert "x = 1" in journal.read_text()
    assert texts() == {"renamed/a.py": "fast\n"}


def test_a_user_without_a_home_folder_obeys_no_journal(lint, monkeypatch):  # noqa: F811
    write("a.py", "slow\n")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    name = digest_of(os.fsencode(os.path.realpath(os.curdir)))
    for home in ("~/.local/state", "relative"):
        write(f"{home}/torchperf-lint/check-with/{name}/journal.json", journal_of("a"))
    assert lint("--fix")[0] == 0
    assert texts() == {"a.py": "fast\n"}
    write("a.py", "slow\n")
    status, _, err = lint("--fix", "--check-with", "true")
    assert (status, texts()) == (2, {"a.py": "slow\n"})
    assert "the user has no home folder for the journal" in err


def test_a_run_in_a_part_of_the_project_does_not_begin(lint, monkeypatch):  # noqa: F811
    write("a.py", "slow\n")
    write("sub/b.py", "slow\n")
    folder = journals.folder_of("sub")
    with journals.locked(folder):
        Path(folder, journals.JOURNAL).write_text(json.dumps({"root": os.path.realpath("sub"), "files": []}))
        status, _, err = lint("--fix", "--check-with", "true")
    assert (status, texts()) == (2, {"a.py": "slow\n", "sub/b.py": "slow\n"})
    assert "another run with --check-with is at work in" in err


def test_where_no_journal_can_be_kept_nothing_is_tried(checked, state):
    write("a.py", "slow\n")
    (state / "torchperf-lint").write_text("")
    status, out, err, ran = checked("")
    assert (status, out, ran, texts()) == (2, "", 0, {"a.py": "slow\n"})
    assert err.startswith("torchperf-lint: error: fixes cannot be tried: ")
    assert ": Not a directory; " in err


def test_two_runs_do_not_try_states_at_once(checked):
    write("a.py", "slow\n")
    inner = f"subprocess.run([{sys.executable!r}, '-m', 'torchperf_lint', '--fix', 'a.py'], capture_output=True)"
    test = f"import subprocess\nif 'fast' in open('a.py').read(): open('told', 'wb').write({inner}.stderr)\n"
    checked(test)
    assert "another run with --check-with is at work in" in Path("told").read_text()
    assert texts() == {"a.py": "fast\n"}


def test_a_file_that_somebody_changes_meanwhile_is_left_to_them_and_kept(checked):
    write("a.py", "slow\n")
    write("b.py", "slow\n")
    test = """\
place = pathlib.Path("b.py")
if "fast" in place.read_text():
    place.write_text("mine\\n")
    raise SystemExit(1)
"""
    status, _, err, _ = checked(test)
    assert (status, texts()) == (2, {"a.py": "slow\n", "b.py": "mine\n"})
    assert err.splitlines()[-1].startswith("torchperf-lint: error: changed while ")
    assert err.splitlines()[-1].endswith(", and left as it is: b.py (before: b.py.orig)")
    assert Path("b.py.orig").read_text() == "slow\n"


# -- the search --------------------------------------------------------------------------------------------------------


def test_the_bound_is_kept_and_what_is_untested_is_told(checked, monkeypatch):
    monkeypatch.setattr(fixing, "MOST_RUNS", 3)
    for name in "abcd":
        write(f"{name}.py", "slow\n")
    _, out, _, ran = checked('assert "slow" in pathlib.Path("b.py").read_text()\n')
    assert ran == 4
    assert texts() == {"a.py": "fast\n", "b.py": "slow\n", "c.py": "slow\n", "d.py": "slow\n"}
    assert "Took back 2 fixes untested (" in out
    assert "Took back 1 fix, with which " in out


@pytest.mark.parametrize("seed", range(40))
def test_each_culprit_is_found_within_two_runs_per_halving(seed: int) -> None:
    drawn = random.Random(seed)
    numbers = iter(range(1000))
    groups = [[next(numbers) for _ in range(drawn.randrange(1, 6))] for _ in range(drawn.randrange(1, 20))]
    every = [item for group in groups for item in group]
    bad = set(drawn.sample(every, drawn.randrange(min(4, len(every)) + 1)))
    runs: list[set[int]] = []

    def passes(items: list[int]) -> bool:
        runs.append(set(items))
        return not bad & set(items)

    search = Search(passes, 1000)
    assert search.add(groups) == (not bad)
    assert set(search.broken) == bad
    assert sorted(search.kept) == [item for item in every if item not in bad]
    assert not search.untested
    halvings = len(groups).bit_length() + 3  # of the groups, and of the five items of the largest
    assert len(runs) <= 1 + 2 * halvings * max(1, len(bad))
    assert len(runs) == len({frozenset(each) for each in runs})
