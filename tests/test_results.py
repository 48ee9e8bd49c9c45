"""Reports that are kept between runs: a run with a cache says what a run without one would say, byte for byte."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linting import RESULTS, ROOT, few
from torchperf_lint.cli import main
from torchperf_lint.engine import executors, jobs, store
from torchperf_lint.engine.files import CACHE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECTS = ROOT / "fixtures" / "projects"
PARTS = (
    *("base_trainer", "deep_chain", "loaders", "metric_update", "metrics_from_elsewhere", "package_helper"),
    *("project_attribute", "reader_helpers", "reexports", "registry", "relative_imports", "star_names"),
    *("throttled_helpers", "wrapped_functions"),
)
HELPER = """\
import torch


def mean_of(x):
    return x.mean().item()
"""
TRAIN = """\
import torch
from helper import mean_of

device = torch.device("cuda")
model = torch.nn.Linear(2, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        print(mean_of(loss))
"""
METERS = "from torchmetrics import MeanMetric\n\n\nclass Mean(MeanMetric):\n    pass\n"
FEEDS = """\
import torch
from meters import Mean


def train(model, loader):
    losses = Mean().to("cuda")
    for x in loader:
        loss = model(x.to("cuda", non_blocking=True)).sum()
        loss.backward()
        losses.update(loss.item())
"""
OTHER = "import torch\n\n\ndef other(x):\n    return x.to('cuda').item()\n"

Run = "Callable[..., tuple[int, str]]"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, in which runs are made."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return folder


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file count as changed a moment ago, so that its times are believed."""
    monkeypatch.setattr(store, "SETTLED", -(10**12))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Lint from the current folder; the status and all that is printed."""

    def running(*arguments: str) -> tuple[int, str]:
        status = main([*arguments, "-j", "1"])
        printed = capfd.readouterr()
        return status, printed.out + printed.err

    return running


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are judged anew while a test runs."""
    seen: list[str] = []
    real = jobs._checked

    def noting(job: jobs.Job, *rest: object) -> jobs.Result:
        seen.append(job.path)
        return real(job, *rest)

    monkeypatch.setattr(jobs, "_checked", noting)
    return seen


def lay_out(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def again(judged: list[str]) -> list[str]:
    """What has been judged since this was asked last."""
    found = sorted(judged)
    judged.clear()
    return found


def documents(folder: Path) -> list[Path]:
    return sorted(each for each in (folder / CACHE_FOLDER).glob("*.json") if not each.name.startswith("facts"))


# -- what is judged anew -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trusting", [False, True], ids=["new files", "old files"])
def test_nothing_is_judged_twice(
    trusting: bool, here: Path, run: Run, judged: list[str], request: pytest.FixtureRequest
) -> None:
    if trusting:
        request.getfixturevalue("settled")
    lay_out(here, helper=HELPER, train=TRAIN, other=OTHER, broken="x = (\n", idle="x = 1\n")
    plain = run("--no-cache")
    assert again(judged) == ["broken.py", "helper.py", "idle.py", "other.py", "train.py"]
    assert run() == plain
    assert len(again(judged)) == 5
    assert [run() for _ in range(2)] == [plain] * 2
    assert again(judged) == []
    assert run("train.py") == run("--no-cache", "train.py")
    assert again(judged) == ["train.py"], "by the run without a cache"


def test_a_changed_file_is_judged_with_those_that_opened_it(here: Path, run: Run, judged: list[str]) -> None:
    lay_out(here, helper=HELPER, train=TRAIN, other=OTHER)
    run()
    again(judged)
    (here / "helper.py").write_text(HELPER.replace("x.mean().item()", "x.mean()"))
    assert run() == run("--no-cache")
    assert again(judged)[::2][:1] == ["helper.py"]


ARRAYS = """\
import torch


class Batch:
    def __init__(self, rows):
        self.rows = rows

    def move(self, device):
        return torch.from_numpy(self.rows.astype("float32")).to(device)


def loaded(rows):
    with open("rows") as file:
        return Batch(rows), file.read()
"""
USER = """\
import torch
from arrays import Batch, loaded


def train(model, loader):
    for x in loader:
        batch = Batch(x)
        loss = model(batch.move("cuda"), x.to("cuda"), loaded(x)).mean()
        loss.backward()
"""


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + b"\nx = 1\n",
        lambda text: b"# Rows move.\n\n" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\r\n") + b"\nx = 1\n",
    ],
    ids=["a statement at its end", "a comment on top", "other line ends", "both"],
)
def test_what_says_nothing_of_another_statement_concerns_no_other_file(
    change: Callable[[bytes], bytes], here: Path, run: Run, judged: list[str]
) -> None:
    lay_out(here, arrays=ARRAYS, user=USER, helper=HELPER, train=TRAIN)
    run("--select", "ALL")
    for path in (here / "arrays.py", here / "helper.py"):
        again(judged)
        path.write_bytes(change(path.read_bytes()))
        assert run("--select", "ALL")
        assert again(judged) == [path.name]


def test_a_new_caller_in_another_file_counts(here: Path, run: Run, judged: list[str]) -> None:
    lay_out(here, helper=HELPER, other=OTHER)
    before = run()
    assert run() == before
    again(judged)
    lay_out(here, train=TRAIN)
    after = run()
    assert "helper.py" in again(judged)
    assert after == run("--no-cache") != before
    (here / "train.py").unlink()
    assert run() == before


def test_a_file_that_can_be_read_again_counts(here: Path, run: Run) -> None:
    train = (
        "for x in loader:\n    loss = model(x.cuda(non_blocking=True)).mean()\n    loss.backward()\n    read(loss)\n"
    )
    lay_out(
        here,
        train=f"from other import read\nimport torch\nmodel, loader = build()\n{train}    print(loss.item())\n",
        other="def read(x:\n    return x.item()\n",
    )
    run("--output-format", "json")
    lay_out(here, other="def read(x):\n    return x.item()\n")
    with_cache = run("--output-format", "json")
    assert with_cache == run("--output-format", "json", "--no-cache")
    assert "this row has already waited" in with_cache[1]


def test_metrics_that_come_to_a_file_over_others_count(here: Path, run: Run, judged: list[str]) -> None:
    lay_out(here, train=FEEDS, meters=METERS.replace("torchmetrics", "averages"), other=OTHER)
    before = run()
    assert "TPL302" not in before[1]
    again(judged)
    lay_out(here, meters=METERS)
    after = run()
    assert again(judged) == ["meters.py", "train.py"]
    assert after == run("--no-cache")
    assert "TPL302" in after[1]
    lay_out(here, meters=METERS.replace("torchmetrics", "averages"))
    assert run() == before


def test_a_run_over_some_files_keeps_what_is_known_of_the_others(here: Path, run: Run, judged: list[str]) -> None:
    lay_out(here, helper=HELPER, train=TRAIN, other=OTHER)
    run("other.py")
    run("train.py")
    assert again(judged) == ["other.py", "train.py"]
    run()
    assert again(judged) == ["helper.py"]
    (here / "other.py").write_text(OTHER + "\n\ny = 1\n")
    run("other.py")
    assert again(judged) == ["other.py"]
    run()
    assert again(judged) == []


def test_settings_have_their_own_reports(here: Path, run: Run, judged: list[str]) -> None:
    lay_out(here, train=TRAIN, helper=HELPER)
    for options in ((), ("--select", "TPL1"), ("--target-torch", "2.0")):
        assert run(*options) == run("--no-cache", *options)
        again(judged)
        run(*options)
        assert again(judged) == []
    (here / "pyproject.toml").write_text('[tool.torchperf-lint]\nhot-functions = ["mean_of"]\n')
    assert run() == run("--no-cache")
    assert again(judged)


def test_what_requirement_files_state_counts(here: Path, run: Run) -> None:
    metrics = "import torchmetrics\n\nmetric = torchmetrics.MeanMetric()\nmetric.update(1.0)\n" + TRAIN
    lay_out(here, train=metrics, helper=HELPER)
    for text in ("", "torchmetrics==1.0\n", "torchmetrics==1.9\ntorch==1.9\n", "torch>=2.6\n"):
        (here / "requirements.txt").write_text(text)
        assert run() == run() == run("--no-cache")
    (here / "requirements.txt").unlink()
    assert run() == run("--no-cache")


def test_what_is_stated_of_long_lines_counts(here: Path, run: Run, judged: list[str]) -> None:
    loop = "    for x in loader:\n        data = x.to('cuda', torch.float32)\n        loss = model(data).sum()\n"
    text = f"def train(model, loader):\n    model.cuda()\n{loop}        loss.backward()\n"
    lay_out(here, train="import torch\n\n\n" + text)
    seen = set()
    for length in ("", "[tool.black]\nline-length = 55\n", "[tool.ruff]\nline-length = 50\n", ""):
        (here / "pyproject.toml").write_text(length)
        told = run("--output-format", "json")
        assert told == run("--output-format", "json") == run("--output-format", "json", "--no-cache")
        seen.add(told)
    assert len(seen) == 3, "each length is another layout"
    assert again(judged)


def test_paths_are_told_as_the_run_names_them(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "part").mkdir()
    lay_out(here / "part", helper=HELPER, train=TRAIN)
    for arguments in ((".",), ("part",), (str(here),), ("part/helper.py",), (str(here / "part/helper.py"),)):
        assert run(*arguments) == run(*arguments) == run("--no-cache", *arguments)
    monkeypatch.chdir(here / "part")
    assert run() == run("--no-cache")
    (here / "linked.py").symlink_to("part/train.py")
    monkeypatch.chdir(here)
    for arguments in (("linked.py", "part/helper.py"), ("part/helper.py",), (".",)):
        assert run(*arguments) == run(*arguments) == run("--no-cache", *arguments)


def test_fixes_read_no_reports_and_leave_none_that_is_wrong(here: Path, run: Run) -> None:
    lay_out(here, train=TRAIN.replace("print(mean_of(loss))", "print(loss.cpu().item())"), helper=HELPER)
    run()
    assert run("--diff") == run("--diff", "--no-cache")
    run("--fix")
    assert run() == run("--no-cache")


def test_worker_processes_keep_the_same(
    here: Path, capfd: pytest.CaptureFixture[str], run: Run, judged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(here, helper=HELPER, train=TRAIN, other=OTHER, broken="x = (\n")
    plain = run("--no-cache")
    again(judged)
    monkeypatch.setattr(executors, "WORTH_A_POOL", 0)
    main(["-j", "2"])
    capfd.readouterr()
    assert run() == plain
    assert again(judged) == []
    lay_out(here, helper=HELPER.replace(".item()", ""))
    assert run() == run("--no-cache")


# -- documents that are not ours ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", ["torn", "empty", "list", "other mark", "other stamp", "odd reports", "folder"])
@pytest.mark.parametrize("which", [0, 1], ids=["grounds", "results"])
def test_a_document_that_is_not_ours_is_no_document(spoil: str, which: int, here: Path, run: Run) -> None:
    lay_out(here, helper=HELPER, train=TRAIN, other=OTHER)
    plain = run()
    path = documents(here)[which]
    data = path.read_bytes()
    if spoil == "folder":
        path.unlink()
        path.mkdir()
    elif spoil in ("torn", "empty", "list"):
        path.write_bytes({"torn": data[: len(data) // 2], "empty": b"", "list": b"[1, 2]"}[spoil])
    else:
        document = json.loads(data)
        if spoil == "odd reports":
            for each in ("reports", "state", "entries", "asked", "answers"):
                if each in document:
                    document[each] = {"0": [None, 1]} if each != "answers" else [1]
        else:
            document["mark" if spoil == "other mark" else "stamp"] = "0" * 16
        path.write_text(json.dumps(document))
    assert run() == plain
    (here / "other.py").write_text(OTHER + "\n\ny = 1\n")
    assert run() == run("--no-cache")


def test_documents_of_many_settings_do_not_pile_up(here: Path, run: Run) -> None:
    lay_out(here, train=TRAIN, helper=HELPER)
    for minor in range(8):
        run("--target-torch", f"2.{minor}")
    assert len(documents(here)) == 8, "two for each of the last four"


def test_no_cache_writes_nothing(here: Path, run: Run) -> None:
    lay_out(here, train=TRAIN, helper=HELPER)
    run("--no-cache")
    assert not (here / CACHE_FOLDER).exists()


def test_a_cache_of_the_user_s_lies_where_they_say(here: Path, tmp_path: Path, run: Run, judged: list[str]) -> None:
    lay_out(here, train=TRAIN, helper=HELPER)
    run("--cache-dir", str(tmp_path / "mine"))
    again(judged)
    run("--cache-dir", str(tmp_path / "mine"))
    assert again(judged) == []
    assert not (here / CACHE_FOLDER).exists()


# -- any edits ---------------------------------------------------------------------------------------------------------


class Editor:
    """Changes a project at random, as those do who work on it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)

    def edit(self) -> None:
        """Make one change of any kind."""
        kinds = (
            self._body,
            self._body,
            self._rename,
            self._add,
            self._remove,
            self._restore,
            self._state,
            self._configure,
        )
        self.random.choice(kinds)()

    def lay_out(self) -> None:
        for part in self.random.sample(PARTS, 4):
            for path in sorted((PROJECTS / part).rglob("*.py")):
                if not path.name.endswith(RESULTS):
                    place = self.folder / part / path.relative_to(PROJECTS / part)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(path.read_bytes())

    def _files(self) -> list[Path]:
        return sorted(each for each in self.folder.rglob("*.py") if CACHE_FOLDER not in each.parts)

    def _functions(self, path: Path) -> list[str]:
        lines = (line.split() for line in path.read_text().splitlines())
        return [words[1].partition("(")[0] for words in lines if words[:1] == ["def"]]

    def _body(self) -> None:
        path = self.random.choice(self._files())
        lines = path.read_text().splitlines()
        places = [place for place, line in enumerate(lines) if line.startswith("    ") and line.endswith(")")]
        if places:
            place = self.random.choice(places)
            indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
            new = self.random.choice(
                ["pass", "print(torch.cuda.is_available())", "x = y.item()", "helper(x).cpu()", "("]
            )
            lines[self.random.choice([place, place + 1]) : place + 1] = [indent + new]
            path.write_text("\n".join(lines) + "\n")

    def _rename(self) -> None:
        path = self.random.choice(self._files())
        names = self._functions(path)
        if names:
            old = self.random.choice(names)
            everywhere = self.random.random() < 0.5
            for each in self._files() if everywhere else [path]:
                each.write_text(each.read_text().replace(old, f"{old}_{self.random.randrange(3)}"))

    def _add(self) -> None:
        path = self.random.choice(self._files())
        names = self._functions(path)
        called = self.random.choice(names) if names else "main"
        text = (
            f"import torch\nfrom {path.stem} import {called}{self.random.choice(['', ' as renamed'])}\n\n\n"
            "def train(model, loader, optimizer):\n    for x, y in loader:\n        loss = model(x.cuda())\n"
            f"        loss.backward()\n        optimizer.step()\n        {called}(loss, y)\n"
        )
        path.with_name(f"added_{self.random.randrange(4)}.py").write_text(text)

    def _remove(self) -> None:
        files = self._files()
        if len(files) > 6:
            self.random.choice(files).unlink()

    def _restore(self) -> None:
        part = self.random.choice(sorted(each.name for each in self.folder.iterdir() if each.name in PARTS))
        for path in sorted((PROJECTS / part).rglob("*.py")):
            if not path.name.endswith(RESULTS):
                place = self.folder / part / path.relative_to(PROJECTS / part)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(path.read_bytes())

    def _state(self) -> None:
        version = self.random.choice(["", "torchmetrics==1.0", "torchmetrics>=1.9\ntorch>=2.6", "torch==1.9"])
        part = self.random.choice([self.folder, *(each.parent for each in self._files())])
        (part / "requirements.txt").write_text(version)

    def _configure(self) -> None:
        table = self.random.choice(['hot-functions = ["main"]', 'ignore = ["TPL101"]', "", 'loader-names = ["x"]'])
        (self.folder / "pyproject.toml").write_text(f"[tool.torchperf-lint]\n{table}\n")


@pytest.mark.parametrize("seed", few(range(6), 24))
def test_no_edit_makes_a_difference(
    seed: int, here: Path, run: Run, judged: list[str], request: pytest.FixtureRequest
) -> None:
    if seed % 2:
        request.getfixturevalue("settled")
    editor = Editor(here, seed)
    editor.lay_out()
    spared = 0
    for step in range(12):
        with_cache = run("--output-format", "json")
        anew = len(again(judged))
        without = run("--output-format", "json", "--no-cache")
        assert with_cache == without, f"after edit {step}"
        spared += len(again(judged)) - anew
        for _ in range(editor.random.choice([1, 1, 3])):
            editor.edit()
    assert spared, "the cache has spared nothing"
