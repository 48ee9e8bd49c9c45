"""What happens beyond each bound of the model's searches: it is set low, and what that costs is stated here."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from linting import ROOT, RULE_FIXTURES, load_fixture
from test_model import revealed_in
from test_projects import Case, load_case
from torchperf_lint.config import Settings
from torchperf_lint.engine import memory
from torchperf_lint.idioms import caches
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.model import Model, bounds
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.callgraph.class_unions import alternatives
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.frequency import execution
from torchperf_lint.model.frequency.branches import _can_hold
from torchperf_lint.model.frequency.path_conditions import Scope, literal, negated
from torchperf_lint.model.project.file_symbols import symbols_of
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchperf_lint.engine.findings import Diagnostic

BOUNDS = {name for name in vars(bounds) if name.isupper()}

# A bound, what it is set to, a project or a fixture, what is no longer found there, and what is found instead.
IN_PROJECTS = [
    ("MOST_CLASSES", 0, "registries", "TPL101 x2", ""),
    ("MOST_ITEMS", 0, "average_meter", "TPL104 unsafe", "TPL101 x2"),
    ("MOST_STORES_ELSEWHERE", 0, "set_elsewhere", "TPL102", ""),
    ("MOST_LOOPS_DEEP", 0, "own_optimizer", "TPL101 unsafe x2", "TPL101"),
    ("MOST_LOOP_PASSES", 0, "alternative_imports", "TPL101", ""),
    ("MOST_CALLS_DEEP", 0, "containers", "TPL107", ""),
    ("MOST_CALLS_UP", 0, "alternative_imports", "TPL101", ""),
    ("MOST_CALLS_ELSEWHERE", 0, "alternative_imports", "TPL101", ""),
    ("MOST_QUERIES_DEEP", 1, "alternative_imports", "", ""),  # they are put off: the result is the same
    ("MOST_QUERIES_DEEP", 1, "handed_over", "", ""),
    ("MOST_STATEMENTS_FOLLOWED", 0, "containers", "TPL107", ""),
    ("MOST_CALLERS", 0, "alternative_imports", "TPL101", ""),
    ("MOST_BASES", 0, "ignite_engine", "TPL103 unsafe, TPL203 safe", "TPL101"),
    ("MOST_HOPS", 0, "average_meter", "TPL104 unsafe", "TPL104 shown"),
    (
        "MOST_IMPORTS_TO_METRICS",
        0,
        "metrics_from_elsewhere",
        "TPL301 shown, TPL302 safe, TPL303 safe, TPL304 safe, TPL306",
        "",
    ),
    ("MOST_FILES", 0, "called_by_default", "TPL201", ""),
    ("MOST_FILES_DEFINING", 0, "by_hierarchy", "TPL101 x2, TPL112 safe", ""),
    ("MOST_FILES_CALLING_METHOD", 0, "called_by_many", "TPL101", ""),
    ("MOST_HEIRS", 0, "inherited_constructors", "TPL102 unsafe, TPL105", ""),
    ("MOST_OVERRIDES", 0, "abstract_methods", "TPL101", ""),
    ("MOST_REGISTERED", 0, "registered_callables", "TPL101, TPL112 unsafe, TPL201 safe", ""),
    ("MOST_SUBCLASSES", 0, "chosen_by_subclasses", "TPL114 unsafe x2", ""),
    ("FEWEST_LETTERS", 99, "looked_up_by_name", "TPL101 x4", ""),
    ("MOST_CALLS_TO_TEXT", 0, "looked_up_by_name", "TPL101, TPL102", ""),
    ("MOST_PLACES_OF_VALUE", 1, "objects_called", "TPL101", ""),
    ("MOST_CALLS_HANDING", 0, "handed_over", "", "TPL101 x4"),
    ("MOST_WAYS_OF_VALUE", 1, "handed_over", "TPL101 x3", ""),
    ("MOST_BYTES", 10, "alternative_imports", "TPL101", ""),
    ("MOST_BYTES_LOADED", 0, "containers", "", ""),
    ("MOST_CALLS_TO_MODEL", 1, "batches_handed_on", "TPL107, TPL202 safe", ""),
    ("MOST_CALLERS_OF_CALLERS", 0, "alternative_imports", "TPL101", ""),
    ("MOST_FUNCTIONS_UP", 0, "first_pass", "", "TPL101"),
    ("MOST_CONDITIONS", 0, "overrides_that_set_flags", "", "TPL101"),
    ("MOST_CALLS_TO_BINDING", 0, "first_pass", "", "TPL101"),
    ("MOST_CALLS_TO_RAISE", 0, "needs_cuda", "TPL203 safe", "TPL203 unsafe"),
    ("MOST_STOPS", 0, "loaders", "TPL401 shown, TPL402 safe", ""),
    ("MOST_SINGLE_CALLS", 0, "loaders_of_subclasses", "TPL402 safe x4, TPL402 unsafe", ""),
    ("MOST_MAKING_STEPS", 0, "loaders", "TPL402 safe", "TPL402 unsafe"),
    ("MOST_FUNCTIONS_OF_WORKERS", 0, "images_in_workers", "TPL409 unsafe", ""),
]

IN_FIXTURES = [
    ("MOST_READ_AT_ONCE", 1, "sync/early_host_read/early.py", "TPL118 safe x2", "TPL118 shown x2"),
    ("MOST_NAMES_OF_ARRAY", 0, "ops/tensor_from_python_data/alias_names.py", "TPL805 unsafe x5", ""),
    ("MOST_CALLERS_OF_HELPER", 0, "data/blocking_io_in_hot_loop/hook.py", "TPL412", ""),
    ("MOST_SAMPLE_CALLS", 0, "data/dataloader_unpinned/made_by_functions.py", "TPL402 safe x3", "TPL402 unsafe x3"),
    ("MOST_SAMPLE_FUNCTIONS", 0, "data/dataloader_unpinned/made_by_functions.py", "TPL402 safe x3", "TPL402 unsafe x3"),
    ("MOST_CALLS_TO_EPOCHS", 0, "data/dataloader_workers_respawned/plain_loop.py", "TPL403 unsafe x2", ""),
    ("MOST_CALLERS_OF_SAMPLE_CODE", 0, "data/constant_rebuilt_per_call/alias.py", "TPL410, TPL410 unsafe", ""),
    ("MOST_PIPELINES_NESTED", 0, "data/late_crop/nested.py", "TPL406 x6", ""),
    ("MOST_CALLS_TO_CONDITION", 0, "compute/debug_mode_left_on/near_miss_flags.py", "", "TPL609 unsafe"),
    ("MOST_CALLS_TO_GRAD_MODE", 0, "memory/grad_enabled_inference/near_miss_modes.py", "", "TPL701 unsafe"),
    ("MOST_STEPS_OF_IMAGE", 0, "data/image_round_trip/calls.py", "TPL413 x3", ""),
    ("MOST_MODULES_DEEP", 0, "compute/module_built_per_step/plain_loop.py", "TPL612 x2", ""),
    ("MOST_CALLS_TO_BUILDER", 0, "compute/module_built_per_step/plain_loop.py", "", "TPL612"),
    ("MOST_TO_SHOWN", 0, "sync/implicit_tensor_bool/names_of_their_own.py", "TPL106", ""),
    ("MOST_CALLS_TO_HOST_WORK", 0, "sync/host_copy_in_hot_loop/worked_on.py", "", "TPL107 x4"),
    ("MOST_NAMES_OF_ROUND_TRIP", 0, "transfer/numpy_round_trip/policies.py", "TPL208 x3", ""),
    ("MOST_CALLS_TO_TABLE", 0, "transfer/python_data_to_cuda/tables.py", "TPL202 safe x2", ""),
    ("MOST_CALLS_TO_MASK", 0, "sync/causal_mask_check/not_shown.py", "TPL120 unsafe", ""),
    ("MOST_CALLS_TO_SEARCH", 0, "sync/host_copy_in_hot_loop/near_miss_searches.py", "", "TPL107"),
    ("MOST_STEPS_TO_OPTION", 0, "transfer/blocking_h2d_copy/options_left_off.py", "TPL203", ""),
    ("MOST_HELPERS_DEEP", 0, "transfer/cpu_construct_then_move/alias_helpers.py", "TPL201 safe", ""),
    (
        "MOST_NAMES_OF_BUFFER",
        0,
        "transfer/unregistered_buffer_transfer/alias_modules.py",
        "TPL205 unsafe x2",
        "TPL205 x2",
    ),
]

# A bound, what it is set to, a row of a fixture of the model, and what is then revealed there.
IN_REVEALS = [
    ("MOST_RECURSION", 0, "moving_helpers.py", 50, "unknown"),
    ("MOST_NESTED", 2, "nesting.py", 11, "unknown"),
    ("MOST_ROUNDS", 0, "cycles.py", 29, "method last"),
    ("MOST_STEPS_OF_WARM_UP", 0, "throttles.py", 85, "int, hot: batch loop"),
]

TRAINING = """
import torch
from steps import step


def fit_all(network, loader, worker):
    network.cuda()
    for _ in range(1000):
        loss = network(torch.ones(4, device="cuda")).mean()
        step(loss)
        worker.weigh(loss)
        print(loss.item())
"""
STEPS = """
def step(loss):
    send(loss)


def send(loss):
    loss.backward()
"""
MAIN = """
from loop import fit_all
from workers import Worker


def main(network, loader):
    fit_all(network, loader, Worker())
"""
WORKERS = """
class Worker:
    def weigh(self, loss):
        self.weight = loss.cuda().exp().item()
"""
FILES = {"loop.py": TRAINING, "steps.py": STEPS, "main.py": MAIN, "workers.py": WORKERS}
CACHE = """
import torch


class Runner:
    def make(self):
        self.run = torch.compile(self.plain)

    def __call__(self, x):
        if self.run is None:
            self.make()
        return self.run(x)
"""


def changes(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> tuple[str, str]:
    """What is found before and not after, and the other way round: codes, grades of fixes, and how many."""
    ones, others = (Counter((each.start, told(each)) for each in found) for found in (before, after))
    return written(ones - others), written(others - ones)


def told(each: Diagnostic) -> str:
    return each.code if each.fix is None else f"{each.code} {each.fix.safety.value}"


def written(found: Counter[tuple[int, str]]) -> str:
    counted = Counter(text for _, text in found)
    return ", ".join(text if count == 1 else f"{text} x{count}" for text, count in sorted(counted.items()))


def found_in(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Diagnostic]:
    """The findings in all files of a project."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    case.lay_out(folder)
    return [each for found in case.findings().values() for each in found]


def model_of(text: str) -> Model:
    source = Source("file.py", text.encode())
    return Model(AnalyzedFile(source, index_of(source.parse(), source.path), Hints()), Target())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "low", "project", "lost", "gained"), IN_PROJECTS, ids=str)
def test_projects(
    name: str, low: int, project: str, lost: str, gained: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found_in(load_case(project), tmp_path / "before", monkeypatch)
    monkeypatch.setattr(bounds, name, low)
    monkeypatch.setattr(memory, "SHARE", 0)  # no memory lets more than the bound stay loaded
    assert changes(before, found_in(load_case(project), tmp_path / "after", monkeypatch)) == (lost, gained)


@pytest.mark.parametrize(("name", "low", "path", "lost", "gained"), IN_FIXTURES, ids=str)
def test_fixtures(name: str, low: int, path: str, lost: str, gained: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = load_fixture(RULE_FIXTURES / path)
    before = fixture.check()
    monkeypatch.setattr(bounds, name, low)
    assert changes(before, fixture.check_anew()) == (lost, gained)


@pytest.mark.parametrize(("name", "low", "path", "row", "says"), IN_REVEALS, ids=str)
def test_values(name: str, low: int, path: str, row: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ROOT / "fixtures" / "model" / path
    assert revealed_in(place)[row] != says
    monkeypatch.setattr(bounds, name, low)
    assert revealed_in(place)[row] == says


@pytest.mark.parametrize(
    ("name", "row"), [("MOST_CALLS_TO_STEP", "print(loss.item())"), ("MOST_FILES_CALLING", ".exp().item()")]
)
def test_calls(name: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case({path: text.encode() for path, text in FILES.items()}, {}, Settings().rules, Hints())

    def is_found(folder: str) -> bool:
        lines = {file: text.splitlines() for file, text in FILES.items()}
        return any(row in lines[each.path][each.row - 1] for each in found_in(case, tmp_path / folder, monkeypatch))

    assert is_found("before")
    monkeypatch.setattr(bounds, name, 0)
    assert not is_found("after")


def test_most_steps_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found_in(load_case("deep_chain"), tmp_path / "before", monkeypatch)
    monkeypatch.setattr(bounds, "MOST_STEPS_SHOWN", 2)
    after = found_in(load_case("deep_chain"), tmp_path / "after", monkeypatch)
    assert changes(before, after) == ("", "")
    assert max(len(each.because) for each in after) < max(len(each.because) for each in before)


def test_most_step_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert symbols_of(STEPS.encode()).steps == {"send", "step"}
    monkeypatch.setattr(bounds, "MOST_STEP_NAMES", 0)
    assert symbols_of(STEPS.encode()).steps == {"send"}


@pytest.mark.parametrize("name", ["MOST_MARKS", "MOST_HEAD_BYTES"])
def test_most_of_a_head(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function whose parameters are not told may call any of them."""
    text = b"def f(x): x.run()\n"
    assert not symbols_of(text).callers
    monkeypatch.setattr(bounds, name, 0)
    assert symbols_of(text).callers == {"f"}


def test_most_open_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("?", "flag")
    assert not _can_hold([asked, negated(asked)])
    monkeypatch.setattr(bounds, "MOST_OPEN_QUESTIONS", 0)
    assert _can_hold([asked, negated(asked)])


def test_most_tests_of_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def f():\n  q = True\n  if q:\n    n = 1\n  else:\n    n = 2\n  use(n)\n"
    (function,) = (each for each in model_of(code).functions if each.name == "f")
    use = function.statements[-1]
    (given,) = function.calls_made[-1].call.args
    found = literal(given, use, Scope(function))
    assert found is not None
    assert found.value == 1
    monkeypatch.setattr(bounds, "MOST_TESTS_OF_BINDINGS", 0)
    assert literal(given, use, Scope(function)) is None


def test_no_search_for_callers_goes_through_a_call_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    demands = execution.demands

    def noted(statement, function, way, node=None):
        asked.append(tuple(step.record for step in way))
        return demands(statement, function, way, node)

    monkeypatch.setattr(execution, "demands", noted)
    code = (
        "def ask(x, kind):\n  if kind is not None and kind == WANTED:\n    print(x.item())\n"
        "def one(x, kind):\n  ask(x, kind)\n  other(x, kind)\n"
        "def other(x, kind):\n  one(x, kind)\n"
        "def train(loader):\n  for x in loader:\n    x.backward()\n    other(x, None)\n"
    )
    model = model_of(code)
    (read,) = model.method_calls("item")
    model.hot_path(read)
    assert any(len(way) > 1 for way in asked)
    assert all(len(set(way)) == len(way) for way in asked)


def test_most_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("class One: pass\nclass Other: pass\n")
    either = Value(Kind.INSTANCE, among=tuple(model.classes))
    assert len(alternatives(model._inference, either)) == 2
    monkeypatch.setattr(bounds, "MOST_CHOICES", 1)
    assert not alternatives(model._inference, either)


def test_most_calls_to_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(CACHE)
    site = next(iter(model.calls("torch.compile")))
    monkeypatch.setattr(caches, "runs_in_every_step", lambda model, record: True)
    assert filled_once(model, site)
    monkeypatch.setattr(bounds, "MOST_CALLS_TO_CACHE", 0)
    assert not filled_once(model, site)


def test_every_bound_has_its_case_and_its_reason() -> None:
    files = ("test_bounds.py", "test_judge_edits.py", "test_query_cache.py")
    text = "".join((ROOT / "tests" / name).read_text(encoding="utf-8") for name in files)
    assert {name for name in BOUNDS if f'"{name}"' not in text} == set()
    body = ast.parse((ROOT / "torchperf_lint" / "model" / "bounds.py").read_bytes()).body
    stated = {each.targets[0].id for each in body if isinstance(each, ast.Assign)}  # type: ignore[attr-defined]
    reasons = [each for each in body[1:] if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
    assert stated == BOUNDS
    assert len(reasons) == len(stated)
