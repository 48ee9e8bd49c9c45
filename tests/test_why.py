"""`torchperf-lint why`: the missing link, the lost device, the silent rule, and that there is always a reason."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from linting import few, fixture_paths, label, load_fixture
from torchperf_lint.cli import main
from torchperf_lint.config import Settings
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Severity
from torchperf_lint.why.answer import Cause, State
from torchperf_lint.why.asking import ask
from torchperf_lint.why.reasons import in_words
from torchperf_lint.why.sections import section_for
from training_loop import LOOP

if TYPE_CHECKING:
    from torchperf_lint.why.answer import Answer

HERE = "# here"
STEP = "loss.backward()\n        optimizer.step()"


def answer(
    folder: Path, code: str, settings: Settings | None = None, column: int | None = None, **others: str
) -> Answer:
    """The answer about the row of `main.py` that ends in `# here`, in a project with the other files."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in {"main": code, **others}.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    path = folder / "main.py"
    (row,) = (at for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if line.endswith(HERE))
    return ask(str(path), path.read_bytes(), row, column, settings or Settings())


# -- how often ------------------------------------------------------------------------------------------------------

MISSING = {
    "no call": (
        """
        def report(loss):
            print(loss.item())  # here
        """,
        "no call of `report` is known",
        2,
    ),
    "no call of the function with the call": (
        """
        def report(loss):
            print(loss.item())  # here

        def train(loss):
            report(loss)
        """,
        "no call of `train` is known",
        5,
    ),
    "called once": (
        """
        def report(loss):
            print(loss.item())  # here

        report(torch.ones(1).cuda())
        """,
        "the top level of a file runs once",
        5,
    ),
    "by name only": (
        """
        class Meter:
            def update(self, loss):
                print(loss.item())  # here

        def train(model, loader, optimizer, made):
            for x in loader:
                made.update(model(x.cuda()))
        """,
        "`made.update(...)` may mean `Meter.update` by its name, but what `made` is is not known",
        8,
    ),
    "no loader": (
        """
        def show(losses):
            for loss in losses:
                print(loss.item())  # here
        """,
        "this loop is no loop over batches: `losses` is not shown to be a loader",
        3,
    ),
    "counts only": (
        """
        def show(loss):
            for _ in range(10):
                print(loss.item())  # here
        """,
        "this loop is no loop over batches: it only counts",
        3,
    ),
    "no training step": (
        """
        def show(loss):
            while True:
                print(loss.item())  # here
        """,
        "this loop is no loop over batches: nothing in it shows a training step",
        3,
    ),
    "one pass": (
        """
        def show(model, loader):
            for x in loader:
                print(model(x.cuda()).item())  # here
                break
        """,
        "it makes one pass: it ends in `break`",
        3,
    ),
    "a loop of numbers in a function that runs once": (
        """
        def show(loss):
            for step in [1, 2]:
                print(loss.item())  # here

        show(torch.ones(1).cuda())
        """,
        "`[1, 2]` is no loader: list of int",
        3,
    ),
    "epochs": (
        """
        def train(model, loader, optimizer):
            for epoch in range(9):
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                print(loss.item())  # here
        """,
        "it runs once per pass of this loop over epochs",
        3,
    ),
    "sampling guard": (
        """
        def train(model, loader, optimizer):
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    print(loss.item())  # here
        """,
        "`if step % 100 == 0` is a sampling guard",
        7,
    ),
    "skipped before": (
        """
        def train(model, loader, optimizer):
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                if step % 100:
                    continue
                print(loss.item())  # here
        """,
        "`if step % 100: continue` is a sampling guard",
        7,
    ),
    "sampling guard around the call": (
        """
        def report(loss):
            print(loss.item())  # here

        def train(model, loader, optimizer):
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    report(loss)
        """,
        "`if step % 100 == 0` is a sampling guard",
        10,
    ),
    "handler": (
        """
        def train(model, loader, optimizer):
            for x in loader:
                try:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                except RuntimeError:
                    print(loss.item())  # here
        """,
        "it runs only where an error is handled",
        4,
    ),
    "left after it": (
        """
        def train(model, loader, optimizer, wanted):
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                if wanted(loss):
                    print(loss.item())  # here
                    break
        """,
        "`break` leaves the loop after it",
        9,
    ),
    "flags": (
        """
        class Loss:
            def __init__(self, shown=False):
                self.shown = shown

            def take(self, loss):
                self.show(loss)

            def show(self, loss):
                if self.shown:
                    print(loss.item())  # here

        def train(model, loader, optimizer):
            kept = Loss()
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                kept.take(loss)
        """,
        "the flags of the object whose `take` is called here exclude the row",
        19,
    ),
    "arguments": (
        """
        def report(loss, shown=True):
            if shown:
                print(loss.item())  # here

        def train(model, loader, optimizer):
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                report(loss, shown=False)
        """,
        "the arguments of this call of `report` exclude the row",
        11,
    ),
    "a hook that runs once per epoch": (
        """
        import lightning as L

        class Model(L.LightningModule):
            def on_train_epoch_end(self):
                print(self.total.cuda().item())  # here
        """,
        "no call of `Model.on_train_epoch_end` is known, nor a framework that calls it in every step",
        5,
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_first_link_that_is_missing(case: str, tmp_path: Path) -> None:
    code, says, row = MISSING[case]
    (statement,) = answer(tmp_path, f"import torch{textwrap.dedent(code)}").statements
    assert not statement.how_often.hot
    missing = statement.how_often.steps[-1]
    assert says in missing.text
    assert missing.row == row


def test_way_to_a_loop_in_another_file(tmp_path: Path) -> None:
    helper = """
        def report(loss):
            print(loss.item())  # here
        """
    train = """
        from main import report

        def train(model, loader, optimizer):
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                report(loss)
        """
    (statement,) = answer(tmp_path, helper, train=train).statements
    assert statement.how_often.hot
    assert [(Path(step.path or "").name, step.row) for step in statement.how_often.steps] == [
        ("train.py", 9),
        ("train.py", 5),
    ]


def test_missing_link_in_another_file(tmp_path: Path) -> None:
    helper = """
        def report(loss):
            print(loss.cuda().item())  # here
        """
    train = """
        from main import report

        def train(losses):
            for loss in losses:
                report(loss)
        """
    (statement,) = answer(tmp_path, helper, train=train).statements
    missing = statement.how_often.steps[-1]
    assert (Path(missing.path or "").name, missing.row) == ("train.py", 5)
    assert "`losses` is not shown to be a loader" in missing.text


# -- lost devices ---------------------------------------------------------------------------------------------------

LOST = {
    "call of something unknown": (
        """
        from elsewhere import blended
        def f(model, loader):
            for x in loader:
                y = blended(model(x.cuda()))
                print(y)  # here
        """,
        "`blended(model(x.cuda()))`: what",
        5,
    ),
    "return of a helper": (
        """
        def smoothed(x, store):
            return store.last(x)
        def f(model, loader, store):
            for x in loader:
                y = smoothed(model(x.cuda()), store)
                print(y)  # here
        """,
        "`store.last(x)`: what is called is not known",
        3,
    ),
    "parameter": (
        """
        def f(y):
            print(y, y.cuda())  # here
        """,
        "parameter `y` of `f`: no call of it is known",
        2,
    ),
    "calls that disagree": (
        """
        def f(y):
            print(y)  # here
        f(torch.ones(2).cuda())
        f([1, 2])
        """,
        "parameter `y` of `f`: its calls disagree",
        2,
    ),
    "attribute": (
        """
        from elsewhere import made
        class Meter:
            def __init__(self):
                self.total = made("cuda")
            def shown(self):
                print(self.total)  # here
        """,
        "`made('cuda')`: what",
        5,
    ),
    "attribute that nothing sets": (
        """
        class Meter:
            def shown(self):
                print(self.total, "cuda")  # here
        """,
        "nothing in class `Meter` sets `total`",
        4,
    ),
    "import": (
        """
        from other import total
        def shown():
            print(total, total.cuda())  # here
        """,
        "`elsewhere.made()`: what",
        4,
    ),
    "batch": (
        """
        def f(model, loader):
            model.cuda()
            for x in loader:
                print(x)  # here
        """,
        "`x` is a batch as the loader made it",
        5,
    ),
    "element": (
        """
        def f(parts, model):
            model.cuda()
            for part in parts:
                print(part)  # here
        """,
        "parameter `parts` of `f`: no call of it is known",
        2,
    ),
    "comprehension": (
        """
        def f(parts):
            print([part.cuda() for part in parts])  # here
        """,
        "parameter `parts` of `f`: no call of it is known",
        2,
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_where_a_device_is_lost(case: str, tmp_path: Path) -> None:
    code, says, row = LOST[case]
    other = "\nimport elsewhere\n\ntotal = elsewhere.made()\n"
    (statement,) = answer(tmp_path, f"import torch{textwrap.dedent(code)}", other=other).statements
    lost = [step for known in statement.values for step in known.lost]
    assert (True, row) in {(says in step.text, step.row) for step in lost}, lost


def test_known_value_comes_with_its_evidence(tmp_path: Path) -> None:
    code = """
        def f(model, loader):
            for x in loader:
                loss = model(x.cuda()).mean()
                print(loss)  # here
        """
    (statement,) = answer(tmp_path, code).statements
    (known,) = (each for each in statement.values if each.text == "loss")
    assert (known.device, known.lost) == ("cuda", ())
    assert known.because


# -- rules ----------------------------------------------------------------------------------------------------------

TRAINING = """
import torch

def train(model, loader, optimizer, keep):
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
"""


def in_training(line: str, more: str = "") -> str:
    """A training loop with this row, and others below it."""
    return f"{TRAINING}        {line}  {HERE}\n{textwrap.indent(textwrap.dedent(more), ' ' * 8)}"


SILENT = {
    "the step needs the number": (
        in_training("value = loss.item()", "if value > 100:\n    break\n"),
        "TPL101",
        "a use in the step decides a branch",
    ),
    "not hot": (in_training("if step % 50 == 0: print(loss.item())"), "TPL105", "not known to run in every step"),
    "on the host": (in_training("keep(torch.zeros(2).tolist())"), "TPL107", "on an accelerator"),
    "the host needs the copy": (
        in_training("keep(torch.nn.utils.rnn.pack_padded_sequence(x.cuda(), loss.cpu()))"),
        "TPL107",
        "the copy goes to something that only works on the host",
    ),
    "another rule's use": (in_training("print(loss.item())"), "TPL101", "the rule is not about this use: shown"),
    "no wait": (in_training("keep(x.cuda(non_blocking=True))"), "TPL203", "it has `non_blocking`"),
    "a test": (in_training("keep(loss.item())").replace("def train", "def test_train"), "TPL106", ""),
    "an argument": (
        f"import torch\nloader = torch.utils.data.DataLoader([], num_workers=2)  {HERE}\nmodel.cuda()\n",
        "TPL401",
        "`num_workers` is not written as `0`",
    ),
}


@pytest.mark.parametrize("case", SILENT)
def test_condition_that_silences_a_rule(case: str, tmp_path: Path) -> None:
    code, rule, says = SILENT[case]
    found = [each for each in answer(tmp_path, code).verdicts if each.code == rule]
    if not says:
        assert not [each for each in found if each.state is State.REPORTED]
        return
    assert any(says in each.says and each.state is State.SILENT and each.section for each in found), found


def test_silent_for_frequency_would_be_reported(tmp_path: Path) -> None:
    told = answer(tmp_path, in_training("if step % 50 == 0: print(loss.item())"))
    assert told.if_hot == ("TPL105 progress-display-sync",)
    assert {each.cause for each in told.verdicts if each.code == "TPL105"} == {Cause.FREQUENCY}


def test_what_a_rule_asks_of_another_row_is_no_question_about_this_one(tmp_path: Path) -> None:
    """TPL203 looks for writes to what it moves, in every call below."""
    code = f"""
        def train(model, loader, optimizer):
            for x in loader:
                x = x.cuda()
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
                keep(loss.mean(), x)  {HERE}
        """
    assert "TPL203" not in {each.code for each in answer(tmp_path, code).verdicts}


def test_reported(tmp_path: Path) -> None:
    (verdict,) = (each for each in answer(tmp_path, in_training("print(loss.item())")).verdicts if each.finding)
    assert (verdict.code, verdict.state) == ("TPL105", State.REPORTED)


@pytest.mark.parametrize(
    ("comment", "names"),
    [("# noqa: TPL105", "noqa: TPL105"), ("# torchperf-lint: ignore[TPL105]", "torchperf-lint: ignore[TPL105]")],
)
def test_suppressed_line(comment: str, names: str, tmp_path: Path) -> None:
    (verdict,) = (
        each for each in answer(tmp_path, in_training(f"print(loss.item())  {comment}")).verdicts if each.finding
    )
    assert verdict.state is State.SUPPRESSED
    assert names in verdict.says
    assert "row 9" in verdict.says


def test_suppressed_file(tmp_path: Path) -> None:
    told = answer(tmp_path, "# torchperf-lint: ignore-file\n" + in_training("print(loss.item())"))
    assert {each.state for each in told.verdicts if each.finding} == {State.SUPPRESSED}
    assert any("ignore-file" in note for note in told.notes)


def test_rule_that_is_off(tmp_path: Path) -> None:
    told = answer(tmp_path, in_training("print(loss.item())"), Settings(ignore=("TPL105",)))
    (verdict,) = (each for each in told.verdicts if each.finding)
    assert verdict.state is State.OFF
    assert "--extend-select TPL105" in verdict.says


def test_rule_that_the_file_ignores(tmp_path: Path) -> None:
    settings = Settings(root=str(tmp_path), per_file_ignores=(("main.py", ("TPL105",)),))
    told = answer(tmp_path, in_training("print(loss.item())"), settings)
    assert {each.state for each in told.verdicts if each.finding} == {State.OFF}
    assert any("`per-file-ignores` switches off TPL105" in note for note in told.notes)


def test_file_that_is_left_out(tmp_path: Path) -> None:
    settings = Settings(root=str(tmp_path), extend_exclude=("main.py",))
    told = answer(tmp_path, in_training("print(loss.item())"), settings)
    assert any("leaves `main.py` out" in note for note in told.notes)
    assert not answer(tmp_path, in_training("print(loss.item())")).notes


def test_file_without_an_accelerator(tmp_path: Path) -> None:
    told = answer(
        tmp_path, f"import torch\ndef f(loader):\n    for x in loader:\n        print(x.sum().item())  {HERE}\n"
    )
    assert any("speaks of an accelerator" in note for note in told.notes)
    assert not told.verdicts


def test_rule_that_is_silent_in_the_whole_file(tmp_path: Path) -> None:
    code = in_training("value = loss.item()", "y = model(x.cuda())\nkeep(y, value)\ny.to('cpu', non_blocking=True)\n")
    found = [each for each in answer(tmp_path, code, Settings(select=("ALL",))).verdicts if each.code == "TPL118"]
    assert any(each.says.startswith("in the whole file: ") for each in found)


def test_watching_leaves_no_trace_function(tmp_path: Path) -> None:
    import sys

    before = sys.gettrace()
    answer(tmp_path, in_training("print(loss.item())"))
    assert sys.gettrace() is before


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file to ask about."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(in_training("print(loss.item())"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_text(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "train.py:9"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("train.py:9: print(loss.item())")
    assert "In every step: on every pass of the training loop.\n  train.py:5: this loop trains" in out
    assert "TPL105 progress-display-sync reports it: " in out
    assert len(out.splitlines()) < 25


def test_a_row_of_a_cell(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Places are those of cells, behind prompts and magics too; a `.py` file of the project is seen."""
    (project / "moving.py").write_text("def moved(x):\n    return x.cuda(non_blocking=True)\n", encoding="utf-8")
    setup = "%matplotlib inline\nimport torch\nfrom moving import moved\nmodel = torch.nn.Linear(2, 1).cuda()"
    loop = [
        "for x, y in loader:",
        "    loss = model(moved(x)).mean()",
        "    loss.backward()",
        "    optimizer.step()",
        "    %time print(loss.item())",
        "    print(loss.item())  # noqa: TPL105",
        "!ls",
    ]
    sources = [setup, ">>> " + "\n... ".join(loop), "%%bash\nls"]
    cells = [{"cell_type": "raw", "source": ""}, *({"cell_type": "code", "source": each} for each in sources)]
    (project / "train.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert main(["why", "train.ipynb:cell 3:5"]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"train.ipynb:cell 3:5: ... {loop[4]}\n")
    assert "train.ipynb:cell 3:1: this loop trains" in out
    assert "moving.py:2: moved to the device" in out
    assert "TPL105 progress-display-sync reports it" in out
    assert "__cell" not in out
    assert main(["why", "train.ipynb:cell 3:2"]) == 0
    assert "    train.ipynb:cell 2:4: " in capsys.readouterr().out
    column = loop[4].index("loss") + len("... ") + 1
    assert main(["why", "--output-format", "json", f"train.ipynb:cell 3:5:{column}"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["path"], told["cell"], told["row"], told["column"]) == ("train.ipynb", 3, 5, column)
    assert told["text"] == f"... {loop[4]}"
    (statement,) = told["statements"]
    assert statement["row"] == 5
    assert statement["steps"][0]["cell"] == 3
    assert {(each["text"], each["row"], each["column"]) for each in statement["values"]} == {
        ("loss", 5, column),
        ("loss.item()", 5, column),
    }
    assert main(["why", "train.ipynb:cell 3:6"]) == 0
    assert "`# noqa: TPL105` in row 6 silences it" in capsys.readouterr().out
    assert main(["why", "train.ipynb:cell 4:2"]) == 0
    assert "no statement begins" in capsys.readouterr().out


def test_row_without_a_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "train.py:6"]) == 0
    assert "reports it" not in capsys.readouterr().out


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--output-format", "json", "train.py:9"]) == 1
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["path"], told["row"], told["column"], told["text"]) == (
        "train.py", 9, None, f"print(loss.item())  {HERE}",
    )  # fmt: skip
    (statement,) = told["statements"]
    assert statement["in_every_step"] is True
    assert statement["steps"][0]["path"] == "train.py"
    assert {"loss", "loss.item()"} <= {each["text"] for each in statement["values"]}
    reported = [each for each in told["rules"] if each["state"] == "reported"]
    assert [each["code"] for each in reported] == ["TPL105"]
    assert all(each["says"] and each["section"] for each in told["rules"])


def test_column(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--output-format", "json", "train.py:6:22"]) == 0
    values = json.loads(capsys.readouterr().out)["statements"][0]["values"]
    assert "x" in {each["text"] for each in values}
    assert "loss" not in {each["text"] for each in values}


def test_row_without_a_statement(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "train.py:3"]) == 0
    assert "no statement begins or goes on in this row" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("missing.py:3", "missing.py: error: cannot be read: No such file or directory"),
        ("train.py:0", "train.py: error: there is no row 0: the file has 9"),
        ("train.py:99", "train.py: error: there is no row 99: the file has 9"),
        ("train.py:9:99", "train.py: error: there is no column 99 in row 9"),
        (".:3", ".: error: cannot be read: Is a directory"),
        ("broken.py:1", "broken.py:1:"),
        ("notes.txt:1", "notes.txt: error: "),
        ("book.ipynb:1", "book.ipynb: error: a line of a notebook is one of a cell: `FILE:cell 3:LINE` is needed"),
        ("book.ipynb:cell 1:1", "book.ipynb: error: it is no notebook: it has no list of cells"),
        ("cells.ipynb:cell 1:1", "cells.ipynb: error: there is no code cell 1"),
        ("cells.ipynb:cell 2:1", "cells.ipynb: error: cell 2, line 1: syntax error: '(' was never closed"),
        ("cells.ipynb:cell 3:2", "cells.ipynb: error: there is no row 2: cell 3 has 1"),
        ("cells.ipynb:cell3:1:6", "cells.ipynb: error: there is no column 6 in row 1: it has 5"),
        ("train.py:cell 2:1", "train.py: error: it is no notebook, and has no cell 2"),
        ("latin.py:1", "latin.py:1:"),
    ],
)
def test_bad_input(place: str, says: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "broken.py").write_text("def f(:\n", encoding="utf-8")
    (project / "notes.txt").write_text("words\n", encoding="utf-8")
    (project / "book.ipynb").write_text("{}\n", encoding="utf-8")
    cells = [{"cell_type": "raw", "source": ""}, *({"cell_type": "code", "source": text} for text in ("(", "x = 1"))]
    (project / "cells.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    (project / "latin.py").write_bytes(b"x = '\xe9'\n")
    assert main(["why", place]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(says)
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["train.py"], ["train.py:x"], ["train.py:1", "train.py:2"]])
def test_bad_arguments(arguments: list[str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("torchperf-lint why: error: ")


def test_bad_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool.torchperf-lint]\nselect = 3\n", encoding="utf-8")
    assert main(["why", "train.py:9"]) == 2
    assert "pyproject.toml" in capsys.readouterr().err


def test_configuration_is_honoured(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.torchperf-lint]\nignore = ["TPL105"]\n', encoding="utf-8")
    assert main(["why", "train.py:9"]) == 0
    assert "would report it, but it is off" in capsys.readouterr().out
    assert main(["why", "--isolated", "train.py:9"]) == 1


# -- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "answer", "says"),
    [
        ("Whether the copy is needed at once.", True, "the copy is needed at once"),
        ("Whether the copy is needed at once; else unknown.", False, "it is not shown that the copy is needed at once"),
        ("The parsed move; None if a star may hold anything.", None, "a star may hold anything"),
        ("The parsed move; None if unknown.", None, "the rule looks for the parsed move, and finds none"),
        ("The calls that make it; () if all of it is host data, None if one is not.", (), "all of it is host data"),
        ("`x.f()` of `x`.", None, "the rule looks for `x.f()` of `x`, and finds none"),
    ],
)
def test_docstring_of_a_question_says_what_its_answer_means(document: str, answer: object, says: str) -> None:
    assert in_words(document, answer) == says


def test_section_of_the_page_states_the_condition() -> None:
    rule = registry.find_rule("TPL107")
    assert rule is not None
    assert section_for(rule, "the copy goes to text that is decoded, or to files that are written") == "What it does"
    assert section_for(rule, "what is collected does not fit on the device beside the model") == "When to leave it"


# -- laws -----------------------------------------------------------------------------------------------------------

FOUND = [path for path in fixture_paths() if path.name == "alias.py"]
LOOK_ALIKES = [path for path in fixture_paths() if path.name == "near_miss.py"]


def alone(path: Path, folder: Path, row: int) -> Answer:
    """The answer about a row of a fixture, as a project of its own under its options."""
    fixture = load_fixture(path)
    (folder / ".git").mkdir(exist_ok=True)
    place = folder / path.name
    place.write_bytes(fixture.data)
    settings = Settings(
        select=tuple(rule.code for rule in fixture.rules),
        target_torch=getattr(fixture.target, "torch", None),
        target_torchmetrics=getattr(fixture.target, "torchmetrics", None),
        hot_functions=fixture.hints.hot_functions,
        loader_names=fixture.hints.loader_names,
    )
    return ask(str(place), fixture.data, row, None, settings)


@pytest.mark.parametrize("path", few(FOUND), ids=label)
def test_every_finding_is_told(path: Path, tmp_path: Path) -> None:
    for found in load_fixture(path).check()[:3]:
        verdicts = alone(path, tmp_path, found.row).verdicts
        assert (found.code, State.REPORTED) in {(each.code, each.state) for each in verdicts}, found


@pytest.mark.parametrize("path", few(LOOK_ALIKES, 24), ids=label)
def test_every_look_alike_has_a_reason(path: Path, tmp_path: Path) -> None:
    """The rule says why it is silent, or the row is not known to run in every step, or a value is not known."""
    fixture = load_fixture(path)
    words = [word.decode() for rule in fixture.rules for word in rule.triggers[0]]
    rows = [at for at, line in enumerate(fixture.data.decode().splitlines(), 1) if any(map(line.__contains__, words))]
    for row in rows[:: max(1, len(rows) // 4)]:
        told = alone(path, tmp_path, row)
        if not told.statements:
            continue
        reasons = [
            *(each.says for each in told.verdicts),
            *(step.text for each in told.statements if not each.how_often.hot for step in each.how_often.steps),
            *(step.text for each in told.statements for known in each.values for step in known.lost),
            *told.notes,
        ]
        assert all(reasons)
        assert reasons, f"{path.name}:{row}: {told.text}"


def test_what_settings_leave_out_is_told(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    place = tmp_path / "train.py"
    place.write_text(LOOP.replace("optimizer.step()", "optimizer.zero_grad(set_to_none=False)"), encoding="utf-8")
    row = 1 + place.read_text(encoding="utf-8").splitlines().index("        optimizer.zero_grad(set_to_none=False)")
    settings = Settings(root=str(tmp_path), min_severity=Severity.ERROR, baseline="known.json")
    told = ask(str(place), place.read_bytes(), row, None, settings)
    (verdict,) = [each for each in told.verdicts if each.code == "TPL605"]
    assert (verdict.state, verdict.says) == (State.OFF, "it is only a warning (`--min-severity warning`)")
    assert "a run leaves out what the baseline `known.json` holds (`--no-baseline`)" in told.notes
    mild = settings._replace(min_severity=Severity.NOTE, baseline=None)
    (verdict,) = [v for v in ask(str(place), place.read_bytes(), row, None, mild).verdicts if v.code == "TPL605"]
    assert verdict.state is State.REPORTED
