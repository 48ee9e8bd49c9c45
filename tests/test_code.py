"""What the code of a file is said to name, and what only looks so."""

from __future__ import annotations

import ast

import pytest

from torchperf_lint.model.syntax.code import Code
from torchperf_lint.model.syntax.indexing import index_of

SAID = '''"""Calls manual_seed() and cuda.graph."""
x = 1  # manual_seed(0), cuda.graph, fp16, x.bias
print("no manual_seed here, nor fp16 or cuda.graph", f"{x} of fp16")
'''


def code_of(text: str) -> Code:
    return Code(index_of(ast.parse(text)), text)


def test_what_is_said_is_not_named() -> None:
    code = code_of(SAID)
    assert not code.names("manual_seed", "cuda.graph", ".bias", "fp16")
    assert not code.speaks_of("manual", "fp16", "graph")
    assert not code.states("fp16", "no")
    assert not code.calls("manual_seed")
    assert code.calls("print")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nwith torch.cuda.graph(g): pass",
        "from torch.cuda import graph\ngraph(g)",
        "from torch.cuda import graph as record\nrecord(g)",
        "import torch.cuda as there\nthere.graph(g)",
        "from torch import cuda as c\nc.graph(g)",
        "import torch.cuda.graph",
    ],
)
def test_a_path_is_what_imports_make_of_it(text: str) -> None:
    assert code_of(text).names("torch.cuda.graph")
    assert code_of(text).names("cuda.graph")


@pytest.mark.parametrize(
    "text", ["import torch\ntorch.cuda.graphs.pool()", "from mine import graph\ngraph(g)", "cuda = 1; graph = 2"]
)
def test_another_path_is_none(text: str) -> None:
    assert not code_of(text).names("cuda.graph")


@pytest.mark.parametrize(
    "text",
    [
        "seeded(0)",
        "a.seeded",
        "def seeded(): pass",
        "def f(seeded): pass",
        "f(seeded=1)",
        "import seeded",
        "from m import seeded as s",
        "class seeded: pass",
    ],
)
def test_every_kind_of_name_counts(text: str) -> None:
    assert code_of(text).names("seeded")
    assert not code_of(text).names("seed")
    assert code_of(text).speaks_of("seed")


def test_an_attribute_is_behind_a_dot() -> None:
    assert code_of("layer.bias.zero_()").names(".bias")
    assert code_of("made(1)[0].bias").names(".bias")
    assert not code_of("Linear(2, 2, bias=False); bias = 1").names(".bias")


@pytest.mark.parametrize("text", ['parser.add("--fp16")', 'args["use_fp16"]', "mode = f'fp16:{x}'", "args.fp16 = True"])
def test_options_are_named(text: str) -> None:
    assert code_of(text).speaks_of("fp16")


def test_strings_are_stated_whole() -> None:
    assert code_of('compile(model, mode="reduce-overhead")').states("reduce-overhead")
    assert not code_of('compile(model, mode="reduce-overhead-2")').states("reduce-overhead")
    assert not code_of('"reduce-overhead"').states("reduce-overhead")


def test_calls() -> None:
    code = code_of("from m import opened as o\no(x.dump(y), MyTrainer())\nx.eval()\nz = dump")
    assert code.calls("opened", "nothing")
    assert code.calls(".dump")
    assert code.calls_ending_in("Trainer")
    assert code.calls("eval")
    assert not code.calls_plainly("eval")
    assert code.calls_plainly("opened")
    assert not code.calls("z")
    assert not code.calls(".opened")


def test_what_is_given() -> None:
    code = code_of("detect(False, level=2)\nTrainer(precision=16, devices=[1])\nisinstance(x, amp)")
    assert code.gives("detect", False)
    assert code.gives("detect", 2)
    assert not code.gives("detect", 0)
    assert not code.gives("Trainer", 1)
    assert code.passes("precision", 16)
    assert not code.passes("precision", 16.0)
    assert not code.passes("level", 16)
    assert code.hands_over("amp")
    assert not code.hands_over("level")


def test_what_is_assigned_and_taken_apart() -> None:
    code = code_of("loss.reduction = 'sum'\nids: list = []\nt.transforms[0]\nf(mean=1)")
    assert code.assigns("reduction")
    assert code.assigns("ids")
    assert not code.assigns("mean", "t", "transforms")
    assert code.takes_items("transforms")
    assert not code.takes_items("t", "ids")


@pytest.mark.parametrize(
    ("decorator", "is_method"),
    [
        ("size.setter", False),
        ("size.deleter", False),
        ("Base.size.setter", False),
        ("hooks.setter", True),
        ("registry.hooks.deleter", True),
        ("setter", True),
        ("size.getter", True),
    ],
)
def test_what_sets_or_deletes_a_property_is_no_method(decorator: str, is_method: bool) -> None:
    (made,) = index_of(ast.parse(f"class A:\n    @{decorator}\n    def size(self): pass\n")).all_classes
    assert ("size" in made.methods) is is_method
