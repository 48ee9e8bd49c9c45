"""The user's program with our fixes: what is copied, what is fixed, and what counts as a change that a fix has made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from synthetic import event, run
from test_include import LIBRARY

from linting import ROOT
from torchperf_lint.verify import mirror
from torchperf_lint.verify.effects import PRINTED, RANDOM, RESULTS
from torchperf_lint.verify.mirror import as_it_is, lay_out
from torchperf_lint.verify.preview import BY_ITSELF, DIFFERENT, NOTHING, SAME, apply_fixes, compare, copy_of, fixes_of
from torchperf_lint.verify.preview import preview as previewed
from torchperf_lint.verify.sources import Linter, Sources

SCRIPT = """\
import torch
import trainer

print("loss", trainer.train([torch.ones(3, device="cuda")] * 6, "cuda"))
"""


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A project whose script trains by an installed package; the current folder is the project's."""
    project, package = tmp_path / "project", tmp_path / "site-packages" / "trainer"
    (project / "scripts").mkdir(parents=True)
    (project / ".git").mkdir()
    package.mkdir(parents=True)
    (package.parent / "neighbour.py").write_text("")
    (package / "__init__.py").write_text("from trainer.loop import train\n")
    (package / "loop.py").write_text(LIBRARY)
    (package / "data.json").write_text("{}")
    (project / "scripts" / "train.py").write_text(SCRIPT)
    (project / "note.txt").write_text("a note")
    monkeypatch.chdir(project)
    script = str(project / "scripts" / "train.py")
    modules = {script: "", str(package / "__init__.py"): "trainer", str(package / "loop.py"): "trainer.loop"}
    return Sources(script, modules, {"trainer": [str(package)]})


def test_a_copy_holds_the_project_and_what_is_included(sources, tmp_path):
    copy = copy_of(sources, tmp_path / "copy")
    assert copy.script.read_text() == SCRIPT
    assert copy.script.parent.parent == copy.folder
    assert (copy.folder / "note.txt").read_text() == "a note"
    ((old, new),) = copy.paths
    assert old == str(tmp_path / "site-packages")
    assert sorted(os.listdir(new)) == ["trainer"], "of other packages nothing is shadowed"
    assert (Path(new) / "trainer" / "data.json").read_text() == "{}"
    assert copy.files.keys() == set(sources.modules)
    for copied in copy.files.values():
        Path(copied).write_text("overwritten")
    (copy.folder / "note.txt").write_text("overwritten")
    assert Path(sources.script).read_text() == SCRIPT
    assert (tmp_path / "project" / "note.txt").read_text() == "a note"


def test_files_outside_the_project_are_copied_with_their_packages(sources, tmp_path):
    other = tmp_path / "elsewhere" / "tools"
    other.mkdir(parents=True)
    for name in ("__init__.py", "used.py", "unused.py"):
        (other / name).write_text("x = 1\n")
    unknown = tmp_path / "generated.py"
    unknown.write_text("")
    modules = {**sources.modules, str(other / "used.py"): "tools.used", str(unknown): "some.other.name"}
    copy = copy_of(sources._replace(modules=modules), tmp_path / "copy")
    assert (Path(copy.files[str(other / "used.py")]).parent / "unused.py").read_text() == "x = 1\n"
    assert str(tmp_path / "elsewhere") in dict(copy.paths)
    assert str(unknown) not in copy.files


@pytest.mark.parametrize("name", ["here", "project_2", os.path.join("project", "build")])
def test_a_program_that_runs_outside_its_project_gets_a_folder_to_run_in(sources, tmp_path, monkeypatch, name):
    here = tmp_path / name
    (here / "data").mkdir(parents=True)
    (here / "table.csv").write_text("1")
    monkeypatch.chdir(here)
    copy = copy_of(sources, tmp_path / "copy")
    (copy.folder / "table.csv").write_text("2")
    (copy.folder / "new.txt").write_text("2")
    assert sorted(os.listdir(copy.folder)) == ["data", "new.txt", "table.csv"]
    assert (here / "table.csv").read_text() == "1"
    assert not (here / "new.txt").exists()


def test_large_files_are_linked_to_and_outputs_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "LARGEST", 10)
    monkeypatch.setattr(mirror, "MOST_BYTES", 12)
    folder = tmp_path / "folder"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "node_modules").mkdir()
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    for name, size in {"a.txt": 10, "b.txt": 10, "large.bin": 11, "last.pt": 11, "log.txt": 1, "main.py": 50}.items():
        (folder / name).write_bytes(b"x" * size)
        os.utime(folder / name, (1, 1))
    earlier = as_it_is([str(folder)])._replace(time=time.time() - 10)
    for name, size in {"last.pt": 11, "log.txt": 2, "made.txt": 2}.items():
        (folder / name).write_bytes(b"y" * size)
    lay_out(str(folder), str(tmp_path / "copy"), {str(folder / "main.py")}, earlier=earlier)
    copied = {path.name: path.is_symlink() for path in (tmp_path / "copy").iterdir()}
    linked = {"b.txt": True, "large.bin": True, "node_modules": True}
    assert copied == {"a.txt": False, "log.txt": False, "main.py": False} | linked


def test_folders_beyond_a_number_are_linked_to_but_for_those_that_hold_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "MOST_ENTRIES", 2)
    for name in ("images", "source"):
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / "x.py").write_text("")
    lay_out(str(tmp_path / "folder"), str(tmp_path / "copy"), {str(tmp_path / "folder" / "source" / "x.py")})
    assert (tmp_path / "copy" / "images").is_symlink()
    assert not (tmp_path / "copy" / "source").is_symlink()


def test_fixes_are_written_to_the_copy_alone(sources, tmp_path):
    """The library's loop is judged with what the script gives it."""
    loop = str(tmp_path / "site-packages" / "trainer" / "loop.py")
    linter = Linter(sources)
    assert [(each.path, each.code) for each in linter.findings()[0]] == [(loop, "TPL102")]
    fixes = fixes_of(linter, unsafe=False)
    assert {path: [each.code for each in fixed.applied] for path, fixed in fixes.items()} == {loop: ["TPL102"]}
    copy = copy_of(sources, tmp_path / "copy")
    apply_fixes(copy, fixes)
    assert "loss.detach()" in Path(copy.files[loop]).read_text()
    assert Path(loop).read_text() == LIBRARY


CALLING = """\
import torch
from trainer import shown

model = torch.nn.Linear(3, 1).to("{device}")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in [torch.ones(3, device="{device}")] * 6:
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    print(shown.shown(loss))
"""


@pytest.mark.parametrize(("device", "codes"), [("cuda", ["TPL105"]), ("cpu", [])])
def test_script_and_library_are_judged_as_one_program(sources, tmp_path, device, codes):
    shown = tmp_path / "site-packages" / "trainer" / "shown.py"
    shown.write_text("def shown(value):\n    return f'{value:.2f}'\n")
    Path(sources.script).write_text(CALLING.format(device=device))
    modules = {**sources.modules, str(shown): "trainer.shown"}
    found, failures = Linter(sources._replace(modules=modules)).findings()
    assert [each.code for each in found if each.path == str(shown)] == codes
    assert failures == []


def _started(sources, counts):
    """Runs that no process made: waits by whether the library's copy is fixed, in the order of `counts`' results."""
    results = iter(counts)

    def start(copy):
        loop = next(path for path in copy.files.values() if path.endswith("loop.py"))
        fixed = "detach" in Path(loop).read_text()
        events = [] if fixed else [event(step=step, row=12, file=loop) for step in range(4)]
        (copy.folder / "out.txt").write_text("same")
        return run(events, files=[str(copy.script), loop], results=next(results))

    return start


def test_a_preview_runs_the_copy_twice_as_it_is_and_once_fixed(sources, tmp_path):
    told = previewed(sources, fixes_of(Linter(sources), unsafe=False), _started(sources, [1, 1, 1]))
    loop = str(tmp_path / "site-packages" / "trainer" / "loop.py")
    assert [each.counts().waits for each in told.runs] == [1, 1, 0]
    assert {line.where.file for line in told.before.lines()} == {loop}, "it is told as if the files themselves had run"
    assert told.before.written.keys() == {"0/project/out.txt"}
    verdicts = {each.aspect: each.verdict for each in told.compared}
    assert {verdicts[aspect] for aspect in (RESULTS, RANDOM, "files written")} == {SAME}
    assert verdicts[PRINTED] == NOTHING
    assert told.stray == ()


@pytest.mark.parametrize(("results", "verdict"), [([1, 1, 2], DIFFERENT), ([1, 2, 3], BY_ITSELF)])
def test_only_what_two_runs_share_can_be_changed_by_a_fix(sources, results, verdict):
    told = previewed(sources, fixes_of(Linter(sources), unsafe=False), _started(sources, results))
    assert {each.aspect: each.verdict for each in told.compared}[RESULTS] == verdict


def test_a_file_that_is_not_loaded_from_the_copy_is_named(sources, tmp_path):
    told = previewed(sources, fixes_of(Linter(sources), unsafe=False), lambda copy: run(files=[str(copy.script)]))
    assert told.stray == (str(tmp_path / "site-packages" / "trainer" / "loop.py"),)


def test_what_cannot_be_compared_is_said(sources):
    fixes = fixes_of(Linter(sources), unsafe=False)
    assert previewed(sources, {}, lambda copy: run()).obstacle == "there is no fix to apply"
    runs = iter([run(), run(), run(status="failed", error="ValueError: no")])
    told = previewed(sources, fixes, lambda copy: next(runs))
    assert (told.obstacle, told.compared) == ("the fixed copy failed: ValueError: no", ())


def _compared(*runs):
    return {each.aspect: (each.verdict, each.texts) for each in compare(*runs)}


def test_a_line_that_no_two_runs_share_hides_no_other():
    first, again = run(stdout="loss 1\n3 ms\n"), run(stdout="loss 1\n4 ms\n")
    assert _compared(first, again, run(stdout="loss 1\n5 ms\n"))[PRINTED] == (BY_ITSELF, ())
    changed = (DIFFERENT, ("line 1 is `loss 2`, `loss 1` before",))
    assert _compared(first, again, run(stdout="loss 2\n5 ms\n"))[PRINTED] == changed
    assert _compared(first, run(stdout="loss 1\n"), run(stdout="loss 2\n9 ms\n"))[PRINTED] == (BY_ITSELF, ())


def test_a_part_of_the_results_that_differs_by_itself_hides_no_other():
    first, again = run(results={"loss": 1, "took": [3]}), run(results={"loss": 1, "took": [4, 5]})
    assert _compared(first, again, run(results={"loss": 1, "took": [9]}))[RESULTS] == (BY_ITSELF, ())
    verdict, texts = _compared(first, again, run(results={"loss": 2, "took": [9]}))[RESULTS]
    assert (verdict, texts) == (DIFFERENT, ("results['loss']: 1 became 2",))


def test_results_without_an_exact_record_are_not_called_the_same():
    odd = run(results=None, not_comparable="results is an object")
    assert _compared(odd, odd, odd)[RESULTS] == (NOTHING, ("results is an object",))


@pytest.mark.slow
def test_a_preview_of_a_real_program(sources, tmp_path):
    """It prints a time and writes a file, includes a package, and is told in JSON: what it prints goes elsewhere."""
    script = Path(sources.script)
    script.write_text(
        f"{SCRIPT}import time\nprint(time.perf_counter())\nopen('note.txt', 'a').write('!')\nresults = object()\n"
    )
    command = [sys.executable, "-m", "torchperf_lint", "verify", "--script", str(script), "--device", "sim"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site-packages"), str(ROOT)])}
    done = subprocess.run(
        [*command, "--include", "trainer", "--fix-preview", "--output-format", "json", "--python", sys.executable],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("loss ")
    told = json.loads(done.stdout)
    (line,) = told["loops"][0]["lines"]
    assert line["location"] == {"filename": os.path.join("trainer", "loop.py"), "row": 12}
    assert [each["code"] for each in line["findings"]] == ["TPL102"]
    preview = told["preview"]
    assert (preview["before"]["waits_per_step"], preview["after"]["waits_per_step"]) == (1, 0)
    verdicts = {each["aspect"]: each["verdict"] for each in preview["compared"]}
    assert verdicts == {
        "printed text": BY_ITSELF,
        "standard error": NOTHING,
        "results": NOTHING,
        "random states": SAME,
        "settings": SAME,
        "files written": SAME,
    }
    assert (tmp_path / "project" / "note.txt").read_text() == "a note!", "once, by the user's own run"
    assert (tmp_path / "site-packages" / "trainer" / "loop.py").read_text() == LIBRARY
