"""The labelled sites of real code: well formed, enough of them, hard enough; and the script that counts by them."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from linting import ROOT
from torchperf_lint.engine.registry import find_rule

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = ROOT / "benchmarks"
LEAST_SITES = 400
MOST_WORDS = 20

TRAIN = """\
import torch
from torch.utils.data import DataLoader

from helper import read


def train(model, dataset, optimizer, numbers):
    model.cuda()
    for x in DataLoader(dataset):
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers["loss"] = read(loss)
"""
HELPER = """\
def read(loss):
    print("a look at", loss)
    return loss.item()  # read in every step


def unused(loss):
    return loss.item()
"""


FILES = {"train.py": TRAIN, "helper.py": HELPER}
SHOWN, READ, UNUSED = "helper.py: print(", "helper.py: in every step", "helper.py: def unused"
LOADER = "train.py: in DataLoader("


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        return importlib.import_module("accuracy")


def versions(accuracy: ModuleType) -> dict[str, str]:
    """The projects of the tuning set."""
    return {project.name: project.version for project in sys.modules[accuracy.present.__module__].projects()}


# -- the table -----------------------------------------------------------------------------------------------------


def test_there_are_enough_sites_and_half_of_them_are_to_be_left_alone(accuracy: ModuleType) -> None:
    sites = accuracy.labelled()
    verdicts = Counter(site.verdict for site in sites)
    assert len(sites) >= LEAST_SITES
    assert set(verdicts) == {"flag", "ok"}
    assert verdicts["ok"] >= len(sites) / 2
    assert {site.reach for site in sites if site.verdict == "flag"} == set(accuracy.REACHES)


def test_sites_are_of_the_tuning_set_and_of_rules(accuracy: ModuleType) -> None:
    known = versions(accuracy)
    for site in accuracy.labelled():
        assert known.get(site.project) == site.version, site
        assert find_rule(site.code).code == site.code, site
        assert PurePosixPath(site.path).suffix == ".py", site
        assert not {"", "/", ".", ".."} & {*site.path.split("/")}, site


def test_no_line_is_labelled_twice(accuracy: ModuleType) -> None:
    places = Counter((site.project, site.path, site.line) for site in accuracy.labelled())
    assert [place for place, count in places.items() if count > 1] == []
    assert all(line > 0 for _, _, line in places)


def test_each_label_says_briefly_why(accuracy: ModuleType) -> None:
    assert [site for site in accuracy.labelled() if not 1 <= len(site.why.split()) <= MOST_WORDS] == []


# -- reading it ----------------------------------------------------------------------------------------------------

GOOD = ("timm", "1", "a.py", "3", "TPL101", "flag", "local", "why")


def written(accuracy: ModuleType, folder: Path, *rows: tuple[str, ...], columns: tuple[str, ...] = ()) -> Path:
    table = folder / "accuracy.tsv"
    lines = [columns or accuracy.COLUMNS, *rows]
    table.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return table


def test_a_table_is_read(accuracy: ModuleType, tmp_path: Path) -> None:
    (site,) = accuracy.labelled(written(accuracy, tmp_path, GOOD))
    assert site == accuracy.Site("timm", "1", "a.py", 3, "TPL101", "flag", "local", "why")


@pytest.mark.parametrize(
    "row",
    [
        GOOD[:-1],
        (*GOOD, "more"),
        (*GOOD[:3], "third", *GOOD[4:]),
        (*GOOD[:3], "-3", *GOOD[4:]),
        (*GOOD[:5], "maybe", *GOOD[6:]),
        (*GOOD[:6], "far", *GOOD[7:]),
        GOOD,
        (*GOOD[:4], "TPL105", "ok", *GOOD[6:]),
        (),
    ],
    ids=["short", "long", "no number", "below zero", "verdict", "reach", "twice", "twice otherwise", "empty"],
)
def test_a_malformed_line_is_named_by_its_number(row: tuple[str, ...], accuracy: ModuleType, tmp_path: Path) -> None:
    table = written(accuracy, tmp_path, GOOD, (*GOOD[:3], "4", *GOOD[4:]), row)
    with pytest.raises(SystemExit) as stopped:
        accuracy.labelled(table)
    assert str(stopped.value).startswith(f"{table}:4: ")


@pytest.mark.parametrize("columns", [("project", "path"), GOOD])
def test_a_table_has_its_columns_first(columns: tuple[str, ...], accuracy: ModuleType, tmp_path: Path) -> None:
    table = written(accuracy, tmp_path, GOOD, columns=columns)
    with pytest.raises(SystemExit) as stopped:
        accuracy.labelled(table)
    assert str(stopped.value).startswith(f"{table}:1: ")


# -- counting ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_up(accuracy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with one small project, which goes by the name of a real one."""
    corpus = tmp_path_factory.mktemp("corpus")
    folder = corpus / "timm"
    folder.mkdir()
    for path, text in FILES.items():
        (folder / path).write_text(text, encoding="utf-8")
    return corpus


def site(accuracy: ModuleType, place: str, code: str, verdict: str, reach: str = "local", version: str = "") -> Any:
    """A label in the made-up project; `place` is a file and a text of the one line that is meant."""
    path, text = place.split(": ", 1)
    (line,) = [row for row, each in enumerate(FILES[path].splitlines(), start=1) if text in each]
    return accuracy.Site("timm", version or versions(accuracy)["timm"], path, line, code, verdict, reach, "because")


def test_sites_are_held_against_what_a_run_on_the_project_reports(accuracy: ModuleType, made_up: Path) -> None:
    labels = [
        site(accuracy, SHOWN, "TPL101", "flag", "project"),
        site(accuracy, UNUSED, "TPL101", "flag"),
        site(accuracy, "train.py: read(loss)", "TPL101", "ok"),
    ]
    found = list(accuracy.outcomes(labels, made_up, None))
    assert [(each.site, each.flagged, each.right) for each in found] == [
        (labels[0], True, True),
        (labels[1], False, False),
        (labels[2], False, True),
    ]
    assert found[0].reported == {"TPL105"}, "the loop that shows it is in a file without labels"


def test_rules_of_one_kind_stand_for_each_other_and_no_others_do(accuracy: ModuleType, made_up: Path) -> None:
    labels = [site(accuracy, SHOWN, code, "flag") for code in ("TPL101", "TPL107", "TPL202", "TPL302", "TPL402")] + [
        site(accuracy, LOADER, code, "flag") for code in ("TPL402", "TPL401", "TPL501", "TPL101")
    ]
    found = [each.flagged for each in accuracy.outcomes(labels, made_up, None)]
    assert found == [True, True, False, False, False, True, False, False, False]


def test_tables_and_errors(accuracy: ModuleType, made_up: Path) -> None:
    labels = [
        site(accuracy, LOADER, "TPL402", "flag"),
        site(accuracy, SHOWN, "TPL101", "flag", "project"),
        site(accuracy, UNUSED, "TPL101", "flag", "project"),
        site(accuracy, READ, "TPL101", "ok"),
        site(accuracy, "train.py: x.cuda", "TPL203", "ok"),
    ]
    found = list(accuracy.outcomes(labels, made_up, None))
    by_rule = accuracy.table(found, "rule", lambda site: site.code, ["TPL101", "TPL102", "TPL203", "TPL402"])
    by_reach = accuracy.table(found, "reach", lambda site: site.reach, accuracy.REACHES)
    assert [line.split() for line in by_rule] == [
        ["rule", "flag", "found", "recall", "ok", "flagged", "false", "alarms", "precision"],
        ["TPL101", "2", "1", "50.0%", "1", "1", "100.0%", "50.0%"],
        ["TPL203", "0", "0", "-", "1", "0", "0.0%", "-"],
        ["TPL402", "1", "1", "100.0%", "0", "0", "-", "100.0%"],
        ["all", "3", "2", "66.7%", "2", "1", "50.0%", "66.7%"],
    ]
    assert [line.split()[:5] for line in by_reach][1:] == [
        ["local", "1", "1", "100.0%", "2"],
        ["project", "2", "1", "50.0%", "0"],
        ["all", "3", "2", "66.7%", "2"],
    ]
    assert list(accuracy.errors(found)) == [
        "timm/helper.py:3: wrong TPL101 (local): because",
        "timm/helper.py:6: missed TPL101 (project): because",
    ]


def test_labels_of_another_version_are_not_counted(accuracy: ModuleType, made_up: Path) -> None:
    labels = [site(accuracy, SHOWN, "TPL101", "flag", version="0.1")]
    with pytest.raises(SystemExit, match=r"^timm: labelled at another version"):
        list(accuracy.outcomes(labels, made_up, None))


def test_a_project_that_is_not_there_is_no_project_without_errors(accuracy: ModuleType, made_up: Path) -> None:
    labels = [site(accuracy, SHOWN, "TPL101", "flag"), accuracy.labelled()[0]]
    assert labels[1].project != "timm"
    with pytest.raises(SystemExit, match=f"^not in .*: {labels[1].project};"):
        list(accuracy.outcomes(labels, made_up, None))
    assert len(list(accuracy.outcomes(labels, made_up, "timm"))) == 1


def test_a_run_that_fails_is_no_run_that_finds_nothing(
    accuracy: ModuleType, made_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[accuracy.lint.__module__], "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(SystemExit, match=r"^timm: the linter failed"):
        list(accuracy.outcomes([site(accuracy, SHOWN, "TPL101", "flag")], made_up, None))
