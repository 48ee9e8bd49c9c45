"""What a run does is counted, and no change may make it do more unseen: `pytest --bless` keeps what is counted."""

from __future__ import annotations

import cProfile
import importlib
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from linting import ROOT, few
from torchperf_lint.engine import registry
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.syntax import site, tree
from torchperf_lint.syntax.recursion import with_room

if TYPE_CHECKING:
    from types import FrameType, ModuleType

SMALL = """\
import sys
sys.path.insert(0, "benchmarks")
import work
work.CASES = "containers"
{change}
sys.argv[1:] = ["--counts"]
work.main()
"""
TWICE = """\
sys.path.insert(0, ".")
from torchperf_lint.engine import jobs
once = jobs.check_source
def twice(*arguments, **options):
    once(*arguments, **options)
    return once(*arguments, **options)
jobs.check_source = twice
"""


@pytest.fixture(scope="module")
def work() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("work")


def counts(*arguments: str, seed: str = "random") -> dict[str, int]:
    """What a process of its own counts."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {name: int(count) for name, count in rows}


@pytest.mark.slow
def test_a_run_does_what_it_did(work: ModuleType, bless: bool) -> None:
    now = counts("benchmarks/work.py", "--bless" if bless else "--counts")
    assert not work.complaints(work.kept(), now), "`pytest --bless` keeps it, if it has to be"


@pytest.fixture(scope="module")
def usual() -> dict[str, int]:
    """What a run over a part of the cases counts."""
    return counts("-c", SMALL.format(change=""), seed="1")


@pytest.mark.slow
def test_the_counts_rest_on_nothing_random(usual: dict[str, int]) -> None:
    assert usual == counts("-c", SMALL.format(change=""), seed="2")


@pytest.mark.slow
def test_work_that_is_done_twice_is_told(work: ModuleType, usual: dict[str, int]) -> None:
    slow = counts("-c", SMALL.format(change=TWICE))
    assert any(said.startswith(f"{work.ALL}: ") and "too much" in said for said in work.complaints(usual, slow))
    assert not work.complaints(usual, usual)


def test_savings_of_one_package_do_not_hide_costs_of_another(work: ModuleType) -> None:
    before = {"index": 500, "values": 500, work.ALL: 1000}
    assert not work.complaints(before, {"index": 520, "values": 520, work.ALL: 1040})
    assert [said.split(":")[0] for said in work.complaints(before, {"index": 560, "values": 500, work.ALL: 1060})] == [
        work.ALL
    ]
    assert [said.split(":")[0] for said in work.complaints(before, {"index": 700, "values": 300, work.ALL: 1000})] == [
        "index"
    ]


def test_a_gain_is_to_be_kept(work: ModuleType) -> None:
    before = {"index": 500, "values": 500, work.ALL: 1000}
    (said,) = work.complaints(before, {"index": 300, "values": 500, work.ALL: 800})
    assert "--bless" in said
    assert not work.complaints(before, {"index": 450, "values": 450, work.ALL: 900})


LOOP = """\
import torch


def train(model, loader, optimizer, mode):
    model.cuda()
    total, losses = 0.0, {{}}
    for inputs in loader:
        optimizer.zero_grad()
        loss = model(inputs.cuda()).sum()
        loss.backward()
        optimizer.step()
{lines}    return total
"""


READS = (
    "total += loss.item()",
    "total{} += loss.item()",
    "x = loss.item()",
    "x{} = loss.item()",
    'losses["a{}"] = loss.item()',
    "print(loss.item())",
)


@pytest.mark.parametrize("fix", [False, True])
@pytest.mark.parametrize("line", few(READS, len(READS)))
def test_twice_the_reads_in_one_loop_are_twice_the_work(line: str, fix: bool) -> None:
    def calls(reads: int) -> int:
        found = "".join(f"        {line.format(at)}\n" for at in range(reads))
        return calls_for(LOOP.format(lines=found), 0 if fix else reads, fix)

    calls(2)  # what is imported and kept is no work of a file
    assert calls(400) < 2.2 * calls(200)


@pytest.mark.parametrize(
    ("test", "line"),
    [
        ("inputs.shape[0] == {}", "a{} = loss.item()"),
        ("loss.item() == {}", "total += 1"),
        pytest.param("mode[{}]", "total += loss.item()", marks=pytest.mark.slow),
        pytest.param("model.kind == 'a{}'", "a = loss.item()", marks=pytest.mark.slow),
    ],
)
def test_twice_the_branches_in_one_loop_are_twice_the_work(test: str, line: str) -> None:
    def calls(branches: int) -> int:
        found = "".join(
            f"        {'elif' if at else 'if'} {test.format(at)}:\n            {line.format(at)}\n"
            for at in range(branches)
        )
        return calls_for(LOOP.format(lines=found), branches if "item" in line else 0)

    calls(2)
    assert calls(150) < 2.3 * calls(75)


@pytest.mark.parametrize(
    "line",
    few(
        [
            "a{0} = f(x{0}).item()",
            "x{0} = inputs.cuda(); a{0} = x{0}.item()",
            "x{0} = inputs.cuda(); model.x{0} = x{0}.item()",
            "x{0} = inputs * x{0}; a{0} = x{0}.item()",
            'a{0} = losses["k{0}"].item()',
            'losses["k{0}"] = model(inputs.cuda()).sum(); print(losses["k{0}"].item())',
            'a{0} = {{"loss": loss.item(), "norm": inputs.cuda().norm().item()}}',
        ],
        4,
    ),
)
def test_twice_the_names_in_one_loop_are_twice_the_work(line: str) -> None:
    def calls(names: int) -> int:
        found = "".join(f"        {line.format(at)}\n" for at in range(names))
        return calls_for(LOOP.format(lines=found))

    calls(2)
    assert calls(160) < 2.2 * calls(80)


def test_twice_the_lambdas_in_one_loop_are_twice_the_work() -> None:
    def calls(lambdas: int) -> int:
        found = "".join(f"        g{at} = lambda: loss.item()\n        g{at}()\n" for at in range(lambdas))
        return calls_for(LOOP.format(lines=found), lambdas)

    calls(2)
    assert calls(160) < 2.2 * calls(80)


def test_twice_the_classes_that_with_enters_are_twice_the_work() -> None:
    methods = "    def __enter__(self):\n        self.x.cuda().item()\n    def __exit__(self, *error):\n        pass\n"

    def calls(classes: int) -> int:
        made = "".join(f"class A{at}:\n{methods}" for at in range(classes))
        found = "".join(f"        with A{at}():\n            pass\n" for at in range(classes))
        return calls_for(LOOP.format(lines=found) + made)

    calls(2)
    assert calls(160) < 2.4 * calls(80)


def test_calls_in_branches_of_expressions_are_asked_once() -> None:
    """Each function calls the next one twice, so the number of paths doubles with each; the work must not.

    It grows with the third power, which is 8 for twice the functions: of each function, the conditions of all calls
    above it are asked, and each condition is taken through the calls below it. The paths would be 32 times as many.
    """

    def calls(functions: int) -> int:
        chain = "".join(
            f"def f{at}(x, a, b):\n"
            f"    y = f{at + 1}(x, a, b) if a else 0\n"
            f"    return y + f{at + 1}(x, b, a) if b else y\n"
            for at in range(functions)
        )
        last = f"def f{functions}(x, a, b):\n    return x.cuda().item() if a else 0\n"
        return calls_for(LOOP.format(lines="        f0(loss, inputs, model)\n") + chain + last)

    calls(2)
    assert calls(10) < 8 * calls(5)


def test_helpers_of_a_module_are_looked_through_once() -> None:
    """Each helper of a level calls all of the next one: the ways through them multiply, and the work must not."""

    def calls(helpers: int) -> int:
        def level(depth: int, body: str) -> str:
            return "".join(f"def make{depth}_{at}(n):\n{body}" for at in range(helpers))

        def all_of(depth: int, indent: str) -> str:
            return "".join(f"{indent}make{depth}_{at}(n)\n" for at in range(helpers))

        levels = level(0, all_of(1, "    ")) + level(1, all_of(2, "    ")) + level(2, "    return n\n")
        block = f"class Block(nn.Module):\n    def __init__(self, n):\n{all_of(0, '        ')}"
        loop = LOOP.format(lines="        Block(3)\n")
        return calls_for(f"from torch import nn\n{loop}{levels}{block}")

    calls(2)
    assert calls(8) < 4 * calls(4)  # there are four times as many calls from one level to the next


def test_no_module_of_the_model_scans_all_names_for_each() -> None:
    """Walks over all that there is are one call each: the steps of the interpreter tell them."""

    def steps(names: int) -> Counter[str]:
        found = "".join(f"        a{at} = f(x{at}).item()\n" for at in range(names))
        return steps_for(LOOP.format(lines=found))

    steps(2)
    once, twice = steps(60), steps(120)
    assert twice["slices.py"]
    assert twice["binding.py"]
    assert {module: count / once[module] for module, count in twice.items() if count > 2.2 * once[module]} == {}


def steps_for(text: str) -> Counter[str]:
    """The instructions that each module of the model runs for the values of a file."""
    given = "train.py", text.encode(), registry.all_rules(), Target(), Hints((), ())
    done: Counter[str] = Counter()

    def enter(frame: FrameType, event: str, _: object) -> object:
        folder, _, module = frame.f_code.co_filename.rpartition("/")
        if not folder.endswith(("values", "syntax")):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def step(frame: FrameType, event: str, _: object) -> object:
            done[module] += 1
            return step

        return step

    def run() -> None:
        before = sys.gettrace()
        sys.settrace(enter)
        try:
            check_source(*given)
        finally:
            sys.settrace(before)

    with_room(run)
    return done


def calls_for(text: str, least: int = 0, fix: bool = False) -> int:
    """How many functions are called for a file that has so many findings at least, if it is the first."""
    for kept in (site._kept, tree.own_nodes, tree.own_expressions):
        kept.cache_clear()
    given = "train.py", text.encode(), registry.all_rules(), Target(), Hints((), ())
    profile = cProfile.Profile()

    def run() -> None:
        profile.enable()
        if fix:
            fix_source(*given, True)
        else:
            assert len(check_source(*given).diagnostics) >= least
        profile.disable()

    with_room(run)  # no profile sees the thread that deep files are checked in
    return sum(entry.callcount for entry in profile.getstats() if not isinstance(entry.code, str))
