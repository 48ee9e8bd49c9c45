"""One file of a project: on the command line, from standard input, under flake8; and what is kept of the project."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fake_rules import HINTS
from torchperf_lint import cli
from torchperf_lint.engine import jobs, project_root, project_snapshot, registry, store
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.project_root import root_of
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.flake8_plugin import Plugin, _data_of
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.syntax.identity import key_of
from training_loop import LOOP

FILES = {
    "lib/__init__.py": "",
    "lib/helper.py": """\
def record(history, loss):
    scaled = 100 * loss
    history.append(scaled.item())


def repeat(history, loss):
    history.append(loss)
""",
    "lib/base.py": """\
import torch


class BaseTrainer:
    def __init__(self, model, loader, optimizer):
        self.model = model.cuda()
        self.loader = loader
        self.optimizer = optimizer

    def run(self):
        for batch in self.loader:
            batch = batch.cuda(non_blocking=True)
            self.optimizer.zero_grad()
            loss = self.step(batch)
            loss.backward()
            self.optimizer.step()
""",
    "train.py": """\
from lib.base import BaseTrainer
from lib.helper import record


class Trainer(BaseTrainer):
    def step(self, batch):
        outputs = self.model(batch)
        self.seen.append(outputs.max().item())
        loss = outputs.mean()
        record(self.history, loss)
        return loss
""",
}
"""The loop is in the base class, the model's step in the subclass, a wait there and another one in a helper."""

STORE = f"{CACHE_FOLDER}/facts.json"

posix_only = pytest.mark.skipif(os.name == "nt", reason="links and modes are other ones there")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, as the current folder."""
    folder = tmp_path / "project"
    lay_out(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return folder


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file count as changed a moment ago, so that its times are believed."""
    monkeypatch.setattr(store, "SETTLED", -(10**12))


def lay_out(folder: Path) -> None:
    (folder / ".git").mkdir(parents=True)
    for path, text in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)


def lint(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The concise lines of a run of our command line."""
    cli.main(["--isolated", "-q", "--output-format", "concise", *arguments])
    out, err = capfd.readouterr()
    assert err == ""
    return out.splitlines()


def lint_input(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str
) -> list[str]:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return lint(capfd, "-", *arguments)


def flake8(*arguments: str, data: str | None = None) -> list[str]:
    """The lines of the real flake8."""
    command = [sys.executable, "-m", "flake8", "--isolated", "--select", "TPL", *arguments]
    done = subprocess.run(command, input=data, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def bare(lines: list[str]) -> list[str]:
    """The lines without the marks of our command line that flake8 has no room for."""
    return [re.sub(r" \(see [^()]*\)$", "", line.replace(" [*]", "")) for line in lines]


def of(path: str, lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(f"{path}:")]


# -- the same answers ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("state", ["no cache", "cold", "warm"])
def test_every_entry_says_the_same_of_a_file(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    whole = lint(capfd, "--no-cache", ".")
    assert {line.partition(":")[0] for line in whole} == {"lib/helper.py", "train.py"}
    assert lint(capfd, "--no-cache", "-j", "2", ".") == whole

    def ready() -> tuple[str, ...]:
        if state == "no cache":
            return ("--no-cache",)
        for each in (here / CACHE_FOLDER).glob("facts*"):
            each.unlink()
        if state == "warm":
            lint(capfd, ".")
        return ()

    for path, text in FILES.items():
        wanted = of(path, whole)
        assert lint(capfd, *ready(), path) == wanted
        assert lint_input(capfd, monkeypatch, text, *ready(), "--stdin-filename", path) == wanted
    options = [option.replace("--no", "--torchperf-no") for option in ready()]
    assert flake8(*options, "lib/helper.py") == bare(of("lib/helper.py", whole))
    assert flake8(*options, "--stdin-display-name", "train.py", "-", data=FILES["train.py"]) == bare(
        of("train.py", whole)
    )
    assert flake8(*options, "-j2", *FILES) == bare(whole)


def test_a_file_by_itself_shows_less(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert flake8("--torchperf-no-project", *FILES) == []
    for path, text in FILES.items():
        assert lint_input(capfd, monkeypatch, text) == []
        assert flake8("-", data=text) == []
        assert flake8("--stdin-display-name", "stdin", "-", data=text) == []
        assert flake8("--stdin-display-name", f"elsewhere/{path}", "-", data=text) == []


def test_some_files_of_a_project_are_judged_as_all(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = lint(capfd, ".")
    assert lint(capfd, "train.py", "lib/base.py") == of("train.py", whole)
    assert lint(capfd, "lib") == of("lib/helper.py", whole)


def test_a_change_elsewhere_is_seen(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settled: None
) -> None:
    train = here / "train.py"
    for number, name in enumerate(("record", "repeat", "record")):
        before = train.stat()
        train.write_text(FILES["train.py"].replace("record", name))
        os.utime(train, ns=(before.st_atime_ns, before.st_mtime_ns // 10**9 * 10**9 + number))
        assert train.stat().st_size == before.st_size
        found = lint(capfd, "lib/helper.py")
        assert len(found) == (1 if name == "record" else 0)
        assert lint_input(capfd, monkeypatch, FILES["lib/helper.py"], "--stdin-filename", "lib/helper.py") == found
        assert flake8("lib/helper.py") == bare(found)


@posix_only
def test_a_change_is_seen_though_size_and_time_are_put_back(
    here: Path, capfd: pytest.CaptureFixture[str], settled: None
) -> None:
    assert len(lint(capfd, "lib/helper.py")) == 1
    train = here / "train.py"
    before = train.stat()
    train.write_text(FILES["train.py"].replace("record", "repeat"))
    os.utime(train, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert lint(capfd, "lib/helper.py") == []


def test_a_file_that_changed_a_moment_ago_is_read_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a disk whose clock knows only seconds: nothing but the content has changed.
    key = key_of("train.py")
    status = os.stat(key)
    monkeypatch.setattr(os, "stat", lambda path, real=os.stat: status if path == key else real(path))
    imports = []
    for name in ("record", "repeat"):
        (here / "train.py").write_text(FILES["train.py"].replace("record", name))
        snapshot = project_snapshot.gather(["lib/helper.py"], HINTS, CACHE_FOLDER)
        imports.append(snapshot.facts[key].imports)
    assert imports == [("lib.base.BaseTrainer", f"lib.helper.{name}") for name in ("record", "repeat")]


def test_what_is_not_saved_counts_and_is_not_kept(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILES["train.py"].replace("(BaseTrainer)", "").replace("BaseTrainer", "trainers")
    assert lint_input(capfd, monkeypatch, text, "--stdin-filename", "train.py") == []
    assert flake8("--stdin-display-name", "train.py", "-", data=text) == []
    assert "trainers" not in (here / STORE).read_text()
    assert len(lint(capfd, "train.py")) == 1


def test_what_is_fixed_in_a_file_does_not_count_for_the_others(here: Path) -> None:
    (here / "loop.py").write_text(LOOP)
    program = functools.cache(project_snapshot.gather(["loop.py", "train.py"], HINTS).program)
    job = jobs.Job("loop.py", ("TPL102",), Target(), HINTS, jobs.Action.FIX)
    result = jobs.run_on(job, LOOP.encode(), program)
    assert len(result.applied) == 1
    assert program().analyzed(key_of("loop.py")).source.utf8 == LOOP.encode() != result.data


def test_what_the_user_excludes_still_runs(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = lint(capfd, ".")
    assert lint(capfd, "--exclude", "train.py", ".") == of("lib/helper.py", whole)
    (here / ".gitignore").write_text("train.py\n")
    assert lint(capfd, ".") == []


METRIC = """\
from torchmetrics import MeanMetric


def train(model, loader, optimizer):
    model.cuda()
    running = MeanMetric().cuda()
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running.update(loss.detach())
"""


def test_flake8_knows_the_versions_of_the_project(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "metric.py").write_text(METRIC)
    (here / "requirements.txt").write_text("torchmetrics==1.4.0\n")
    cli.main(["-q", "--output-format", "concise", "metric.py"])
    stated = capfd.readouterr().out.splitlines()
    assert [line for line in stated if " TPL303 " in line and line.endswith("(see requirements.txt:1)")]
    assert flake8("metric.py") == bare(stated)
    assert not [line for line in flake8("--torchperf-no-project", "metric.py") if "TPL303" in line]


def test_flake8_hands_over_the_bytes_that_are_known_already(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    for data in (b"x = 1\n", b"\xef\xbb\xbfx = 1\r\n", b"# coding: latin-1\r\nx = '\xe9'\n"):
        file.write_bytes(data)
        with open(file, encoding="latin-1" if b"latin" in data else "utf-8-sig") as lines:
            assert _data_of(str(file), lines.read()) == data
    assert _data_of(str(file), "y = 1\n") == b"y = 1\n"
    assert _data_of("stdin", "y = 1\n") == b"y = 1\n"


# -- causes in other files -----------------------------------------------------------------------------------------


def test_a_cause_in_another_file_is_named(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cli.main(["--isolated", "-q", "lib/helper.py"])
    text = capfd.readouterr().out
    assert "  = because: train.py:10: " in text
    assert "  = because: lib/base.py:11: " in text
    (line,) = lint(capfd, "lib/helper.py")
    (places,) = re.findall(r" \(see (.*)\)$", line)
    assert {place.partition(":")[0] for place in places.split(", ")} == {"train.py", "lib/base.py"}
    cli.main(["--isolated", "--output-format", "json", "lib/helper.py"])
    (found,) = json.loads(capfd.readouterr().out)
    assert {"lib/base.py", "train.py"} <= {step["filename"] for step in found["because"]}
    assert flake8("lib/helper.py") == bare([line])


def test_paths_of_causes_are_written_like_those_of_findings(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absolute(lines: list[str]) -> list[str]:
        return [re.sub(r"(?<![\w/.])(?=(train|lib/\w+)\.py:)", f"{os.path.realpath(here)}/", line) for line in lines]

    whole = lint(capfd, ".")
    assert lint(capfd, os.path.realpath(here)) == absolute(whole)
    assert lint(capfd, os.path.realpath("train.py")) == absolute(of("train.py", whole))
    monkeypatch.chdir(here / "lib")
    (line,) = lint(capfd, "helper.py")
    assert "see base.py:" in line
    assert f"{os.path.realpath(here)}/train.py:" in line


# -- cost ----------------------------------------------------------------------------------------------------------


def test_no_project_is_looked_at_for_a_file_that_no_rule_is_about(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("the project is looked at")

    monkeypatch.setattr(project_root, "_files_below", forbidden)
    (here / "idle.py").write_text("import torch\n\nx = 1\n")
    assert lint(capfd, "idle.py") == []
    assert lint_input(capfd, monkeypatch, "x = 1\n", "--stdin-filename", "idle.py") == []
    monkeypatch.setattr(Plugin, "rules", jobs._rules(("TPL101", "TPL102")))
    assert list(Plugin(None, "idle.py", ["x = 1\n"]).run()) == []
    assert cli.main(["--isolated", "train.py"]) == 2
    assert "the project is looked at" in capfd.readouterr().err
    ((_, _, said, _),) = Plugin(None, "train.py", FILES["train.py"].splitlines(keepends=True)).run()
    assert "the project is looked at" in said


def test_home_and_the_top_are_no_projects(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(here))
    assert root_of([key_of("lib/helper.py")]) == key_of("lib/helper.py").removesuffix("/lib/helper.py")
    snapshot = project_snapshot.gather(["train.py"], HINTS, CACHE_FOLDER)
    assert list(snapshot.facts) == [key_of("train.py")]
    assert not (here / CACHE_FOLDER).exists()
    top = os.path.abspath(os.sep).replace(os.sep, "/")
    assert project_root._files_below(top) == set()


def test_flake8_looks_at_a_project_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = project_root._files_below
    monkeypatch.setattr(project_root, "_files_below", lambda root: asked.append(root) or real(root))
    lay_out(here.parent / "other")
    projects = project_snapshot.Projects(HINTS, None)
    first = projects.around("train.py")
    assert projects.around("lib/helper.py") is first
    assert projects.around("../other/train.py") is not first
    assert projects.around("lib/base.py") is first
    assert asked == [key_of("."), key_of("../other")]


def test_under_flake8_a_file_that_is_left_out_is_a_part_of_the_project_for_itself(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "made.py").write_text("from train import Trainer\n\n\n" + FILES["train.py"].partition("\n\n\n")[2])
    made = (here / "made.py").read_text().replace("class Trainer(BaseTrainer)", "class Made(Trainer)")
    (here / "made.py").write_text(made.replace("record(", "list("))
    (here / ".gitignore").write_text("made.py\n")
    whole = [*lint(capfd, "lib/helper.py"), *lint(capfd, "made.py"), *lint(capfd, "train.py")]
    assert {line.partition(":")[0] for line in whole} == {"lib/helper.py", "made.py", "train.py"}
    for order in (("made.py", "train.py", "lib/helper.py"), ("lib/helper.py", "train.py", "made.py")):
        assert sorted(flake8("-j1", *order)) == bare(whole)


@pytest.mark.parametrize(
    ("name", "most", "cache"),
    [
        ("MOST_FILES", 3, CACHE_FOLDER),
        ("MOST_FILES", 3, None),
        ("MOST_ENTRIES", 5, CACHE_FOLDER),
        ("MOST_UNKEPT", 400, None),
    ],
)
def test_where_there_is_too_much_only_what_is_linted_is_looked_at(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int, cache: str | None
) -> None:
    linted = ["lib/helper.py", "train.py"]
    module = project_snapshot if name == "MOST_UNKEPT" else project_root
    assert len(project_snapshot.gather(linted, HINTS, cache).facts) == len(FILES)
    monkeypatch.setattr(module, name, most)
    assert list(project_snapshot.gather(linted, HINTS, cache).facts) == [key_of(path) for path in linted]
    monkeypatch.setattr(module, name, 10 * most)
    assert len(project_snapshot.gather(linted, HINTS, cache).facts) == len(FILES)


def test_all_files_of_a_run_without_a_cache_are_looked_at(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_snapshot, "MOST_UNKEPT", 0)
    assert len(project_snapshot.gather(list(FILES), HINTS).facts) == len(FILES)


# -- what is kept --------------------------------------------------------------------------------------------------


def kept() -> dict[str, object]:
    with open(STORE, encoding="utf-8") as file:
        files: dict[str, object] = json.load(file)["files"]
    return files


def test_nothing_is_kept_where_that_is_not_wanted(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lint(capfd, "--no-cache", ".")
    assert flake8("--torchperf-no-cache", "lib/helper.py") != []
    assert not (here / CACHE_FOLDER).exists()
    lint(capfd, "--cache-dir", "../kept", ".")
    assert flake8("--torchperf-cache-dir", "../kept", "lib/helper.py") != []
    assert not (here / CACHE_FOLDER).exists()
    facts, *reports = sorted(each.name for each in (here.parent / "kept").glob("*.json"))
    assert re.fullmatch(r"facts-[0-9a-f]{16}\.json", facts)
    assert [re.sub("-[0-9a-f]{16}", "", each) for each in reports] == ["grounds.json", "results.json"]


def test_the_cache_is_written_only_when_something_has_changed(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settled: None
) -> None:
    written = []
    real = store.replace

    def replace(path: str, data: bytes) -> None:
        written.extend([path] if "facts" in path else [])
        real(path, data)

    monkeypatch.setattr(store, "replace", replace)
    lint(capfd, "train.py")
    for arguments in ((".",), ("lib/helper.py",), ("lib", "train.py")):
        lint(capfd, *arguments)
    assert len(written) == 1
    (here / ".gitignore").write_text("left_out.py\n")
    (here / "left_out.py").write_text(FILES["train.py"])
    lint(capfd, "left_out.py")
    assert len(written) == 1
    (here / "new.py").write_text("x = 1\n")
    lint(capfd, "train.py")
    assert len(written) == 2


@posix_only
def test_a_cache_of_another_kind_is_left_alone(here: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    whole = lint(capfd, "--no-cache", ".")
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (here / CACHE_FOLDER).mkdir()
    for name in (".gitignore", "CACHEDIR.TAG", "facts.json"):
        (here / CACHE_FOLDER / name).symlink_to(precious)
    assert lint(capfd, ".") == whole
    assert precious.read_text() == "precious"
    (here / STORE).unlink()
    os.mkfifo(here / STORE)
    assert lint(capfd, ".") == whole

    for each in (here / CACHE_FOLDER).iterdir():
        each.unlink()
    (here / CACHE_FOLDER).rmdir()
    (tmp_path / "elsewhere").mkdir()
    (here / CACHE_FOLDER).symlink_to(tmp_path / "elsewhere")
    assert lint(capfd, ".") == whole
    assert os.listdir(tmp_path / "elsewhere") == []
    (here / CACHE_FOLDER).unlink()
    (here / CACHE_FOLDER).write_text("a file")
    assert lint(capfd, ".") == whole


def test_runs_at_the_same_time_do_no_harm(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = lint(capfd, "--no-cache", ".")
    command = [sys.executable, "-m", "torchperf_lint", "--isolated", "-q", "--output-format", "concise", "."]
    for _ in range(2):
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        assert [run.communicate()[0].splitlines() for run in runs] == [whole] * 4
        names = sorted(re.sub("-[0-9a-f]{16}", "", name) for name in os.listdir(CACHE_FOLDER))
        assert names == [".gitignore", "CACHEDIR.TAG", "facts.json", "grounds.json", "results.json"]
        assert sorted(kept()) == sorted(FILES)


def test_a_cache_that_another_run_has_replaced_is_left(here: Path) -> None:
    entry = project_snapshot._looked_up(key_of("train.py"), None)
    first, second = (project_snapshot._Store(key_of("."), CACHE_FOLDER) for _ in range(2))
    assert first.read() == second.read() == {}
    second.write({key_of("train.py"): entry})
    first.write({key_of("lib/base.py"): entry})
    assert list(kept()) == ["train.py"]


def test_a_project_that_is_moved_keeps_its_cache(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settled: None
) -> None:
    whole = lint(capfd, ".")
    moved = here.parent / "moved"
    here.rename(moved)
    monkeypatch.chdir(moved)
    monkeypatch.setattr(project_snapshot, "symbols_of", None)
    assert lint(capfd, ".") == whole


def test_a_process_that_stays_says_what_a_fresh_one_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(projects: project_snapshot.Projects, path: str) -> FileReport:
        data = (here / path).read_bytes()
        return check_source(path, data, registry.select(), Target(), HINTS, program=lambda: projects.around(path))

    helper, base, train = (FILES[path] for path in ("lib/helper.py", "lib/base.py", "train.py"))
    staying = project_snapshot.Projects(HINTS, None)
    seen = {report(staying, "train.py")}
    for path, text in (
        ("train.py", train.replace(".item()", "")),
        ("train.py", train.replace("        record", "        # record")),
        ("train.py", train.replace("helper import record", "helper import repeat as record")),
        ("train.py", train + "\n# the end\n"),
        ("lib/helper.py", helper.replace("100 * loss", "loss")),
        ("lib/base.py", base.replace("for batch in self.loader:", "if batch := next(self.loader):")),
        ("lib/base.py", base),
        ("lib/helper.py", helper.replace(".item()", "")),
    ):
        (here / path).write_text(text)
        for each in (path, "train.py", "lib/helper.py"):
            now = report(staying, each)
            assert now == report(project_snapshot.Projects(HINTS, None), each), f"{each}, after a change of {path}"
            seen.add(now)
    assert len(seen) >= 5, "the changes change hardly anything"

    read = []
    monkeypatch.setattr(project_snapshot, "read_file", lambda key: read.append(key) or Path(key).read_bytes())
    staying = project_snapshot.Projects(HINTS, None)
    for end in range(3):
        (here / "train.py").write_text(f"{train}\nEND = {end}\n")
        report(staying, "train.py")
    once = {each for each in read if each.endswith("base.py")}
    assert once, "the loop is in another file"
    assert read.count(*once) == 2, "once for its facts and once for its tree, whatever changes elsewhere"
