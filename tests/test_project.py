"""Many files: which are found, in what order results come, from how many processes, and how files are written."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import pytest

from fake_rules import HINTS, TARGET, end_process, end_process_at_poison, finds, swaps
from torchperf_lint.engine import executors, files, fixer, jobs, pool, registry
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.jobs import Action, Result, failed
from torchperf_lint.engine.project import check_paths
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.engine.replacing import write_atomically
from torchperf_lint.engine.runner import FileReport

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

    from torchperf_lint.engine.declare import Rule

ITEM = finds("item", "TPL190", fix=swaps("0"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Rule:
    """A rule that jobs of this process find under its code."""
    monkeypatch.setattr(registry, "all_rules", lambda: (ITEM,))
    jobs._rules.cache_clear()
    yield ITEM
    jobs._rules.cache_clear()


def write(folder: Path, *paths: str, text: str = "y = x.item()\n") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def found(*paths: str, exclude: tuple[str, ...] = DEFAULT_EXCLUDE) -> list[str]:
    search = discover(paths or ["."], exclude)
    assert search.failures == ()
    return list(search.files)


def check(*paths: str, rules_for: Callable[[str], list[Rule]] = lambda path: [ITEM], **options) -> list[Result]:
    return list(check_paths(list(paths) or ["."], rules_for, TARGET, HINTS, **options))


def untimed(results: list[Result]) -> list[Result]:
    """The results without what tells how long before it was read a file had changed."""
    grounds = [each.fingerprint and each.fingerprint._replace(status=None) for each in results]
    return [each._replace(fingerprint=fingerprint) for each, fingerprint in zip(results, grounds, strict=True)]


# -- discovery -----------------------------------------------------------------------------------------------------


def test_python_files_are_found_sorted_and_named_as_the_user_would(here: Path) -> None:
    write(here, "b.py", "a/z.py", "a/b/c.py", "a.pyi", "a.ipynb", "a.txt", "a-b.py")
    assert found() == ["a-b.py", "a.ipynb", "a/b/c.py", "a/z.py", "b.py"]
    assert found("./a/") == ["a/b/c.py", "a/z.py"]
    assert found(f"{here}/a") == [f"{here}/a/b/c.py", f"{here}/a/z.py"]


def test_no_file_comes_twice_and_the_order_of_paths_does_not_matter(here: Path) -> None:
    write(here, "a/b/c.py", "a/z.py", "d.py")
    (here / "a" / "link.py").symlink_to("../d.py")
    paths = ["a", ".", "d.py", "./a/b", "a/b/c.py"]
    expected = found(*paths)
    assert sorted(os.path.realpath(path) for path in expected) == sorted(map(os.path.realpath, found(".")))
    for seed in range(5):
        assert found(*random.Random(seed).sample(paths, len(paths))) == expected
    assert "d.py" in expected


def test_default_excludes_are_left_out_but_not_when_named(here: Path) -> None:
    write(here, "a.py", ".venv/b.py", "x/node_modules/c.py", "lib/site-packages/torch/d.py", "build/e.py")
    assert found() == ["a.py"]
    assert found("build") == ["build/e.py"]
    assert found("lib/site-packages") == ["lib/site-packages/torch/d.py"]
    assert found(".venv/b.py", ".") == [".venv/b.py", "a.py"]
    assert found(exclude=()) == [".venv/b.py", "a.py", "build/e.py", *found("lib/site-packages"), "x/node_modules/c.py"]


def test_the_library_of_an_interpreter_is_left_out_but_not_when_named(here: Path) -> None:
    write(here, "a.py", "env/lib/python3.12/os.py", "env/lib64/pypy3.10/site-packages/b.py", "lib/python3/c.py")
    assert found() == ["a.py", "lib/python3/c.py"]
    assert found("env/lib/python3.12") == ["env/lib/python3.12/os.py"]
    assert files.stands_apart(f"{here}/env/lib/python3.12")
    assert not files.stands_apart(f"{here}/lib/python3")


def test_excludes_are_gitignore_lines_relative_to_the_root(here: Path) -> None:
    write(here, "a/gen_1.py", "a/b.py", "c/d/e.py", "c/e.py", "f/c/d/g.py")
    assert found(exclude=("gen_*.py", "/c/d")) == ["a/b.py", "c/e.py", "f/c/d/g.py"]
    assert discover(["c"], ["/d"], root="c").files == ("c/e.py",)
    assert found("a/gen_1.py", exclude=("gen_*.py",)) == ["a/gen_1.py"]


def test_gitignore_files_hold_below_them_and_the_inner_one_wins(here: Path) -> None:
    write(here, "a.py", "gen/b.py", "keep/c_tmp.py", "keep/d_tmp.py", "x_tmp.py", "deep/gen/e.py", "deep/gen.py")
    write(here, ".gitignore", text="*_tmp.py\n/gen/\n")
    write(here, "keep/.gitignore", text="!c_tmp.py\n")
    assert found() == ["a.py", "deep/gen.py", "deep/gen/e.py", "keep/c_tmp.py"]
    assert found("x_tmp.py") == ["x_tmp.py"]


def test_gitignore_files_above_count_up_to_the_top_of_the_repository(here: Path) -> None:
    write(here, "repo/pkg/sub/a.py", "repo/pkg/sub/b.py")
    write(here, ".gitignore", text="*.py\n")
    write(here, "repo/.gitignore", text="/pkg/sub/b.py\n")
    assert found("repo/pkg/sub") == ["repo/pkg/sub/a.py", "repo/pkg/sub/b.py"]
    (here / "repo" / ".git").mkdir()
    assert found("repo/pkg/sub") == ["repo/pkg/sub/a.py"]


def test_a_gitignore_above_does_not_count_below_a_folder_that_is_named_itself(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "gen/lib/a.py", "gen/lib/b_tmp.py", "keep/c.py", "keep/d_tmp.py")
    write(here, ".gitignore", text="/gen/\n*_tmp.py\n")
    assert found() == found("keep") == ["keep/c.py"]
    assert found("gen/lib") == ["gen/lib/a.py", "gen/lib/b_tmp.py"]
    write(here, "gen/.gitignore", text="*\n")
    write(here, "gen/lib/.gitignore", text="b_tmp.py\n")
    assert found("gen/lib") == ["gen/lib/a.py"]


@pytest.mark.parametrize("text", ["*\n", "*", "# made by venv\n\n*\n"])
def test_a_folder_that_leaves_itself_out_is_told_without_pathspec(
    text: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, "a.py", "made/b.py", "made/deep/c.py")
    write(here, "made/.gitignore", text=text)
    write(here, "made/deep/.gitignore", text="!c.py\n")
    monkeypatch.setitem(sys.modules, "pathspec", None)
    assert discover(["."]).files == ("a.py",)
    assert discover(["made"]).files == ()


@pytest.mark.parametrize("text", ["*\n!b.py\n", "#*\n", "# all: *\n", " *\n", "\n\t*"])
def test_a_gitignore_that_says_more_is_read_to_its_end(text: str, here: Path) -> None:
    write(here, "made/b.py")
    write(here, "made/.gitignore", text=text)
    assert discover(["."]).files == ("made/b.py",)


def test_a_gitignore_with_a_senseless_line_keeps_its_other_lines(here: Path) -> None:
    write(here, "a.py", "b.py")
    write(here, ".gitignore", text="!\nb.py\n")
    assert found() == ["a.py"]


def test_pathspec_is_imported_for_gitignore_files_only(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(lines: object) -> None:
        raise AssertionError("pathspec was asked for")

    write(here, "a.py")
    monkeypatch.setattr(files, "matcher", forbidden)
    assert found() == ["a.py"]
    write(here, ".gitignore", text="b.py\n")
    with pytest.raises(AssertionError, match="pathspec"):
        found()


# -- results -------------------------------------------------------------------------------------------------------


def test_results_come_sorted_with_failures_in_their_place(here: Path, fake: Rule) -> None:
    write(here, "a.py", "c.py")
    seen: list[tuple[int, int]] = []
    results = check("c.py", "missing", "b", "a.py", progress=lambda done, total: seen.append((done, total)))
    assert [each.path for each in results] == ["a.py", "b", "c.py", "missing"]
    assert [str(each.report.failure) for each in results if each.report.failure] == [
        "b: error: cannot be read: No such file or directory",
        "missing: error: cannot be read: No such file or directory",
    ]
    assert [len(each.report.diagnostics) for each in results] == [1, 0, 1, 0]
    assert seen == [(1, 2), (2, 2)]


def test_rules_are_chosen_per_file(here: Path, fake: Rule) -> None:
    write(here, "a.py", "b.py", text="y = x.item()\nz = 1  # noqa: TPL190\n")
    results = check(rules_for=lambda path: [ITEM] if path == "a.py" else [], reports_unused=lambda path: path == "b.py")
    assert [[each.code for each in result.report.diagnostics] for result in results] == [["TPL190"], []]


def test_bytes_come_along_only_where_something_is_to_be_told(here: Path, fake: Rule) -> None:
    write(here, "a.py")
    write(here, "b.py", text="pass\n")
    told, clean = check()
    assert (told.before, told.data) == (b"y = x.item()\n", b"y = x.item()\n")
    assert (clean.before, clean.data) == (b"", b"")


def test_fixes_are_written_or_only_tried(here: Path, fake: Rule) -> None:
    write(here, "a.py")
    (tried,) = check(action=Action.TRY)
    assert (here / "a.py").read_bytes() == tried.before == b"y = x.item()\n"
    (fixed,) = check(action=Action.FIX)
    assert (here / "a.py").read_bytes() == fixed.data == tried.data == b"y = 0\n"
    assert [(each.code, each.message) for each in fixed.applied] == [("TPL190", "use 0")]
    assert check(action=Action.FIX)[0].applied == ()


def test_all_files_are_judged_once_before_the_first_is_fixed(
    here: Path, fake: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changes costs what is known of the project."""
    write(here, "a.py", "b.py")
    judged: list[tuple[str, bytes]] = []
    real = fixer.check_source

    def noted(path: str, data: bytes, *rest: Any, **options: Any) -> FileReport:
        judged.append((path, data))
        return real(path, data, *rest, **options)

    monkeypatch.setattr(fixer, "check_source", noted)
    monkeypatch.setattr(jobs, "check_source", noted)
    check(action=Action.FIX)
    before, after = b"y = x.item()\n", b"y = 0\n"
    assert judged == [("a.py", before), ("b.py", before), ("a.py", after), ("b.py", after)]


def test_what_is_tried_is_judged_without_reading_the_file(fake: Rule, here: Path) -> None:
    job = jobs.Job("a.py", (ITEM.code,), TARGET, HINTS, action=Action.JUDGE, given=b"y = x.item()\n")
    around = jobs.FileSystem(lambda: gather([], HINTS))
    assert [each.code for each in jobs.run_job(job, around).report.diagnostics] == [ITEM.code]
    assert jobs.run_job(job._replace(given=None), around).report.failure is not None, "there is no such file"


def test_files_are_written_only_when_all_are_judged(here: Path, fake: Rule) -> None:
    write(here, "a.py", "b.py", "c.py")
    seen = []

    def look(done: int, total: int) -> None:
        seen.append((done, total, [(here / name).read_text() for name in ("a.py", "b.py", "c.py")]))

    results = check(action=Action.FIX, progress=look)
    assert [each.data for each in results] == [b"y = 0\n"] * 3
    assert seen == [(done, 3, ["y = x.item()\n"] * 3) for done in (1, 2, 3)]
    assert (here / "a.py").read_text() == "y = 0\n"


@pytest.mark.parametrize("stopped_at", [1, 2])
def test_an_interrupt_before_all_are_judged_leaves_every_file(here: Path, fake: Rule, stopped_at: int) -> None:
    write(here, "a.py", "b.py")

    def interrupt(done: int, total: int) -> None:
        if done == stopped_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(action=Action.FIX, progress=interrupt)
    assert [(here / name).read_text() for name in ("a.py", "b.py")] == ["y = x.item()\n"] * 2


def test_a_file_that_does_not_change_is_not_held_until_the_end(here: Path, fake: Rule) -> None:
    write(here, "a.py")
    write(here, "b.py", text="item = 1\n")
    fixed, idle = check(action=Action.FIX)
    assert (fixed.before, fixed.data) == (b"y = x.item()\n", b"y = 0\n")
    assert (idle.before, idle.data) == (b"", b"")


def test_worker_processes_give_the_same_results(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Real rules only: a spawned process does not know those of a test.
    rules = registry.all_rules()
    code = rules[0].code
    triggers = " ".join(group[0].decode() for group in rules[0].triggers)
    for number in range(40):
        write(here, f"m{number}.py", text=f"x = 1  # noqa: {code}\ny = '{triggers}'\n")
    write(here, "n.py", text=f"def f(:  # {triggers}\n")
    serial = check(rules_for=lambda path: rules, jobs=1)
    monkeypatch.setattr(executors, "WORTH_A_POOL", 1)
    assert untimed(check(rules_for=lambda path: rules, jobs=2)) == untimed(serial)
    assert [each.code for each in serial[0].report.diagnostics] == ["TPL001"]
    assert serial[-1].report.failure is not None


def test_few_bytes_start_no_processes(here: Path, fake: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("a pool was started")

    write(here, "a.py")
    monkeypatch.setattr(pool, "in_pool", forbidden)
    check(jobs=8)
    monkeypatch.setattr(executors, "WORTH_A_POOL", 5)
    check(jobs=1)
    with pytest.raises(AssertionError, match="pool"):
        check(jobs=2)


@pytest.mark.parametrize("files_per_call", [1, 3, 16])
def test_a_file_that_ends_its_worker_costs_a_line_and_the_others_are_linted(
    here: Path, monkeypatch: pytest.MonkeyPatch, files_per_call: int
) -> None:
    rules = registry.all_rules()  # those of a test are not known to a spawned process
    text = f"x = 1  # noqa: {rules[0].code}\ny = '{' '.join(group[0].decode() for group in rules[0].triggers)}'\n"
    write(here, *(f"m{number:02}.py" for number in range(20)), "poison.py", "z.py", text=text)
    plain = check(rules_for=lambda path: rules, jobs=1)
    monkeypatch.setattr(executors, "WORTH_A_POOL", 1)
    monkeypatch.setattr(executors, "FILES_PER_CALL", files_per_call)
    monkeypatch.setattr(pool, "_work", end_process_at_poison)
    results = untimed(check(rules_for=lambda path: rules, jobs=2))
    lost = failed(Failure("poison.py", None, None, "not checked: a worker process was ended"))
    assert [each.code for each in plain[0].report.diagnostics] == ["TPL001"]
    assert results == [lost if each.path == "poison.py" else each for each in untimed(plain)]


def test_a_process_that_takes_the_place_of_another_leaves_interrupts_to_its_parent(here: Path) -> None:
    with pool._Pool(1, gather([], HINTS)) as workers:
        assert workers.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN
        with pytest.raises(BrokenProcessPool):
            workers.submit(os._exit, 1).result()
        assert workers.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN


def test_a_process_that_cannot_be_replaced_fails_as_one_that_ends(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with pool._Pool(1, gather([], HINTS)) as workers:
        monkeypatch.setattr(pool._Pool, "_start", refuse)
        for _ in range(2):
            with pytest.raises(BrokenProcessPool):
                workers.submit(os._exit, 1).result()


def test_processes_that_only_end_are_not_started_for_ever(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m{number:02}.py" for number in range(20)]
    write(here, *names)
    monkeypatch.setattr(executors, "WORTH_A_POOL", 1)
    monkeypatch.setattr(executors, "_MOST_ENDED", 2)
    monkeypatch.setattr(pool, "_work", end_process)
    begun: list[object] = []
    start = pool._Pool._start

    def counted(self: pool._Pool) -> ProcessPoolExecutor:
        begun.append(self)
        return start(self)

    monkeypatch.setattr(pool._Pool, "_start", counted)
    results = check(rules_for=lambda path: [], jobs=2)
    assert [str(each.report.failure) for each in results] == [
        f"{name}: error: not checked: a worker process was ended" for name in names
    ]
    assert len(begun) == 2 + 2 + 2  # at first, for each of two calls, and for the two files that were tried alone


def test_an_interrupt_ends_the_workers_and_the_collector_is_put_back(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gc
    import multiprocessing

    for number in range(60):
        write(here, f"m{number:02}.py")
    monkeypatch.setattr(executors, "WORTH_A_POOL", 1)
    before = gc.get_threshold()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(rules_for=lambda path: [], jobs=2, progress=interrupt)
    assert multiprocessing.active_children() == []
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


# -- writing -------------------------------------------------------------------------------------------------------


def test_writing_keeps_the_mode_and_leaves_nothing_beside(here: Path) -> None:
    write(here, "a.py")
    (here / "a.py").chmod(0o751)
    write_atomically("a.py", b"new")
    assert (here / "a.py").read_bytes() == b"new"
    assert stat.S_IMODE((here / "a.py").stat().st_mode) == 0o751
    assert os.listdir(here) == ["a.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_writing_keeps_the_owner(here: Path) -> None:
    write(here, "a.py")
    os.chown("a.py", 1234, 2345)
    (here / "a.py").chmod(0o6755)
    write_atomically("a.py", b"new")
    now = (here / "a.py").stat()
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (1234, 2345, 0o6755)


def test_an_owner_that_cannot_be_kept_does_not_stop_the_writing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refused(handle: int, uid: int, gid: int) -> None:
        asked.append((uid, gid))
        raise PermissionError

    write(here, "a.py")
    was = os.stat("a.py")
    other = os.stat_result((*was[:4], was.st_uid + 1, *was[5:]))
    monkeypatch.setattr(os, "stat", lambda path: other)
    monkeypatch.setattr(os, "fchown", refused)
    write_atomically("a.py", b"new")
    monkeypatch.undo()
    assert asked == [(was.st_uid + 1, was.st_gid)]
    assert (here / "a.py").read_bytes() == b"new"


def test_a_link_stays_and_its_target_is_written(here: Path) -> None:
    write(here, "real/a.py")
    (here / "link.py").symlink_to("real/a.py")
    write_atomically("link.py", b"new")
    assert (here / "link.py").is_symlink()
    assert (here / "real" / "a.py").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
def test_a_write_that_fails_leaves_the_file_as_it_was(here: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write(here, "a.py", text="old")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_atomically("a.py", b"new")
    monkeypatch.undo()
    assert (here / "a.py").read_bytes() == b"old"
    assert os.listdir(here) == ["a.py"]


def test_a_file_that_cannot_be_written_is_reported_with_its_findings(
    here: Path, fake: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, "a.py")
    (here / "a.py").chmod(0o444)
    (result,) = check(action=Action.FIX)
    assert str(result.report.failure) == "a.py: error: cannot be written: the file is read-only"
    assert [each.code for each in result.report.diagnostics] == ["TPL190"]
    assert result.applied == ()
    assert (here / "a.py").read_bytes() == result.data == b"y = x.item()\n"


_PARENT = """\
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from torchperf_lint.engine import pool as pool_module
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.knowledge.hints import Hints

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context, pool_module._begin, (gather([], Hints()),))
    pool.submit(print, "at work", flush=True).result()
    pool.submit(time.sleep, 600).result()
"""


def test_a_worker_ends_when_its_parent_is_killed(here: Path) -> None:
    write(here, "parent.py", text=_PARENT)
    with subprocess.Popen([sys.executable, "parent.py"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "at work\n"
        parent.kill()
        # The worker has the same output: its end is read only once both are gone.
        assert parent.communicate(timeout=30)[0] == ""
