"""Symbols of one file: the imports, calls and training steps that a scan of its bytes finds, and their JSON form."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linting import ROOT
from torchperf_lint.knowledge.topics import OTHER_ACCELERATORS, SCRIPTED, SCRIPTS_VALUES, TRACED
from torchperf_lint.model.project.file_symbols import FileSymbols, symbols_of
from torchperf_lint.syntax.identity import digest_of

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,8}", fullmatch=True)
ANY_FACTS = st.builds(
    FileSymbols,
    digest=st.text(),
    imports=st.lists(st.text()).map(tuple),
    called=st.frozensets(st.text()),
    steps=st.frozensets(st.text()),
    accelerated=st.booleans(),
    bound=st.frozensets(st.text()),
    handed=st.frozensets(st.text()),
    callers=st.frozensets(st.text()),
    topics=st.frozensets(st.text()),
)


def imports(code: str) -> tuple[str, ...]:
    return symbols_of(code.encode()).imports


def steps(code: str) -> frozenset[str]:
    return symbols_of(code.encode()).steps


# -- imports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a", ["a"]),
        ("import a.b.c", ["a.b.c"]),
        ("import a, b.c , d", ["a", "b.c", "d"]),
        ("import a.b as c, d as e", ["a.b", "d"]),
        ("import a  # b, c", ["a"]),
        ("import a; import b", ["a", "b"]),
        ("from a import b", ["a.b"]),
        ("from a.b import c, d", ["a.b.c", "a.b.d"]),
        ("from a import b as c", ["a.b"]),
        ("from a import b  # , c", ["a.b"]),
        ("from a import b, c; d = 1", ["a.b", "a.c"]),
        ("from a import *", ["a.*"]),
        ("from . import b", [".b"]),
        ("from .. import b, c", ["..b", "..c"]),
        ("from .a import b", [".a.b"]),
        ("from ...a.b import c as d", ["...a.b.c"]),
        ("from . a import b", [".a.b"]),
        ("from .a import *", [".a.*"]),
        ("from . import *", [".*"]),
        ("from a import (b)", ["a.b"]),
        ("from a import (b, c,)", ["a.b", "a.c"]),
        ("from a import (\n    b,\n    c as d,\n)", ["a.b", "a.c"]),
        ("from a import (\n    b,  # the first of two\n    # c,\n    d,\n)\n", ["a.b", "a.d"]),
        ("from a import(b)", ["a.b"]),
        ("from a import b, \\\n    c", ["a.b", "a.c"]),
        ("from a import \\\n    b, \\\n    c as d", ["a.b", "a.c"]),
        ("from\ta\timport\tb", ["a.b"]),
        ("def f():\n    from a import b\n    import c", ["a.b", "c"]),
        ("if x:\n\tfrom a import b\n", ["a.b"]),
        ("try:\n    import a\nexcept ImportError:\n    from b import a", ["b.a", "a"]),
        ("import a\r\nfrom b import c\r\n", ["b.c", "a"]),
        ("from a import (b,\r\n    c)\r\n", ["a.b", "a.c"]),
        ("from a import b, \\\r\n    c\r\n", ["a.b", "a.c"]),
        ("from a.b \\\n    import c", ["a.b.c"]),
        ("x = 1; from \\\r\n a . \\\r\n b import \\\r\n  c", ["a.b.c"]),
        ("import\\\n a, b", ["a", "b"]),
        ("x = '''\\\nimport a\n'''", ["a"]),
        ("important = from_ = 1\nimport_ = 2", []),
        ("x = 'import a'", []),
        ("", []),
    ],
)
def test_forms_of_imports(code: str, names: list[str]) -> None:
    assert sorted(imports(code)) == sorted(names)


@pytest.mark.parametrize(
    "code",
    [
        "x = 1; import a",
        "import a; import b",
        "if x: import a",
        "if x: from a import b",
        "from a import b; from c import d",
        "from a import (  # noqa: F401 (kept)\n    b,\n)",
        "from a import (\n    b,  # the first (of two)\n    c,\n)",
        "import a, \\\n    b",
    ],
)
def test_rare_forms_are_found(code: str) -> None:
    assert _imported_by(code) <= set(imports(code))


def test_each_name_comes_once_and_in_order_of_its_statement() -> None:
    assert imports("from a import b\nfrom a import c\nfrom a import b\n") == ("a.b", "a.c")


def test_text_that_looks_like_an_import_counts_as_one() -> None:
    assert imports('"""\nimport a\n"""\n') == ("a",)


@given(module=st.lists(NAMES, min_size=1, max_size=3), names=st.lists(NAMES, min_size=1, max_size=4), data=st.data())
def test_any_layout_of_a_from_import_says_the_same(module: list[str], names: list[str], data: st.DataObject) -> None:
    dots = data.draw(st.sampled_from(["", ".", "..", "..."]))
    alias = data.draw(st.sampled_from(["", " as other"]))
    separator = data.draw(st.sampled_from([", ", ",", " , "]))
    listed = [name + alias for name in names]
    written = data.draw(
        st.sampled_from(
            [
                separator.join(listed),
                f"({separator.join(listed)})",
                "(\n    " + ",\n    ".join(listed) + ",\n)",
                "(\n    " + ",  # why\n    ".join(listed) + "  # why\n)",
                ", \\\n    ".join(listed),
            ]
        )
    )
    root = dots + ".".join(module)
    assert set(imports(f"from {root} import {written}\n")) == {f"{root}.{name}" for name in names}


@pytest.mark.slow
def test_no_import_of_this_package_is_left_out() -> None:
    for path in sorted((ROOT / "torchperf_lint").rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        assert _imported_by(code) <= set(imports(code)), path


# -- calls ---------------------------------------------------------------------------------------------------------


def test_names_before_a_parenthesis_are_called() -> None:
    code = "a(1)\nb.c (2)\nx = [d(e) for e in f]\n@g(1)\ndef h(i): pass\nclass J(K): pass\n"
    assert symbols_of(code.encode()).called == {"a", "c", "d", "g"}


@pytest.mark.parametrize(
    ("code", "lookups"),
    [
        ('getattr(self, "on_end")(x)', {"on_end"}),
        ('getattr(self.model, f"{stage}_step")(x)', {"*_step"}),
        ("getattr(hooks[0], 'on_' + event)", {"on_*"}),
        ('getattr(self, event + "_end", None)', {"*_end"}),
        ('getattr(self, "%s_step" % stage)', {"*_step"}),
        ("getattr(callback, event)", {"*"}),
        ("setattr(self, name, 1); target(self, name)", set()),
    ],
)
def test_names_that_are_looked_up(code: str, lookups: set[str]) -> None:
    assert symbols_of(code.encode()).lookups == lookups


def test_names_of_several_words_in_strings() -> None:
    code = (
        b'fire("on_end"); kind = "big_one"\nprint("no name_here", d["a_key"], "word")\nfor e in ("a_b", \'c_d\'): pass'
    )
    assert symbols_of(code).texts == {"on_end", "big_one", "a_b", "c_d"}


def test_functions_that_may_call_what_they_are_given() -> None:
    code = """
def run(loader, step=None, *, hook: Callable[[int], None] = noop):
    hook(step)
def keep(step): return step
def take(*functions, **others):
    return others["a"](functions)
class Runner:
    def each(
        self,
        function,  # run(twice)
    ) -> None:
        self.function(function)
"""
    assert symbols_of(code.encode()).callers == {"run", "each"}


@pytest.mark.parametrize(
    "code",
    [
        'def run(a, sep="#", fn=None):\n    fn(a)',
        'def run(sep="):", fn=None):\n    fn(sep)',
        "def run(a=(lambda q=(2): q), fn=None):\n    fn(a)",
        "def run(a: dict[(1): 2], fn):\n    fn(a)",
        "def run(a, # it's (\n fn):\n    fn(a)",
        "def run(a, fn \\\n):\n    fn(a)",
        "def run(fn):\n    (fn)(1)",
        "def run(fn):\n    x = fn\\\n(1)",
        "def run(fün):\n    fün(1)",
        "def run[T](fn, x: T):\n    fn(x)",
        "def run(a='''\n(''', fn=1):\n    fn(a)",
        "def  run(fn):\n    fn(1)",
        "def run(a='''it's''', sep='):', fn=None):\n    fn(a)",
        'def run(a="""a"b""", sep="):", fn=None):\n    fn(a)',
        "def run(fn):\n    ((fn))(1)",
        "def run(fn):\n    fn\f(1)",
        "def run(fn):\n    fn \\\n\\\n (1)",
    ],
)
def test_a_function_whose_parameters_are_hard_to_read_may_call_them(code: str) -> None:
    assert symbols_of(code.encode()).callers == {"run"}


def test_a_head_with_comments_and_texts_is_read_to_its_end() -> None:
    code = "def run(a, # it's (\n  sep='):', text='''it's): (''', fn=None):\n    pass\nother(sep)\n"
    assert symbols_of(code.encode()).callers == set()
    assert symbols_of(f"{code}fn(1)\n".encode()).callers == {"run"}


def test_renamed_imports_are_pairs_of_names() -> None:
    assert symbols_of(b"from helper import read as number\nnumber(x)\n").renamed == (("read", "number"),)
    assert symbols_of(b"from helper import read\n").renamed == ()


@given(st.text())
def test_every_call_of_a_name_is_found(text: str) -> None:
    code = f"{text}\nsome_helper(x)\n".encode(errors="replace")
    assert "some_helper" in symbols_of(code).called


# -- steps ---------------------------------------------------------------------------------------------------------


def test_functions_that_go_backward_are_steps_and_so_are_their_callers() -> None:
    code = """\
class Trainer:
    def optimise(self, loss):
        loss.backward()

    def train_step(self, batch):
        self.optimise(self.loss(batch))

    def outer(self, batch):
        return self.train_step(batch)

    def loss(self, batch):
        return batch


def evaluate(batch):
    return batch
"""
    assert steps(code) == {"optimise", "train_step", "outer"}


def test_a_step_ends_where_the_next_function_begins() -> None:
    assert steps("def first(x):\n    return x\n\n\ndef second(loss):\n    loss.backward()\n") == {"second"}
    assert steps("def outer():\n    def inner(loss):\n        loss.backward()\n    return inner\n") == {
        "outer",
        "inner",
    }
    assert steps("async def step(loss):\n    self.manual_backward(loss)\n") == {"step"}
    assert steps("def backward(ctx, grad):\n    return grad\n") == set()


# -- the rest ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["cuda", ".to(", "device", "GPU", "Trainer", "Accelerator", "lightning"])
def test_words_of_accelerators_are_seen(word: str) -> None:
    assert symbols_of(f"x = '{word}'\n".encode()).accelerated
    assert not symbols_of(b"import torch\nx = torch.ones(3)\n").accelerated
    assert not symbols_of(f"'''On the {word}.'''\nx = 1  # no {word} here\n".encode()).accelerated


def test_digests_tell_contents_apart() -> None:
    assert digest_of(b"a") == digest_of(b"a")
    assert len({digest_of(data) for data in (b"", b"a", b"b", b"a\n", b"a\r\n")}) == 5
    assert symbols_of(b"import a\n").digest == digest_of(b"import a\n")


@given(st.binary())
def test_symbols_of_any_bytes_can_be_encoded_as_json(data: bytes) -> None:
    facts = symbols_of(data)
    assert FileSymbols.from_plain(json.loads(json.dumps(facts.plain()))) == facts


@given(ANY_FACTS)
def test_encoded_symbols_decode_to_the_same(facts: FileSymbols) -> None:
    assert FileSymbols.from_plain(facts.plain()) == facts
    assert FileSymbols.from_plain(json.loads(json.dumps(facts.plain()))) == facts


@pytest.mark.parametrize(
    "plain",
    [
        *(None, 1, "facts", {}, [], ["digest"]),
        ["digest", [], [], []],
        ["digest", [], [], [], False, 1],
        [1, [], [], [], False],
        ["digest", [1], [], [], False],
        ["digest", [], [None], [], False],
        ["digest", [], [], [[]], False],
        ["digest", "ab", [], [], False],
        ["digest", [], [], [], 1],
        ["digest", [], [], [], None],
    ],
)
def test_malformed_symbols_are_rejected(plain: Any) -> None:
    with pytest.raises(ValueError, match="no facts"):
        FileSymbols.from_plain(plain)


def _imported_by(code: str) -> set[str]:
    """The imports that Python itself sees, in the form of file symbols."""
    found = set()
    for node in ast.walk(ast.parse(re.sub(r"\r\n", "\n", code))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            root = "." * node.level + (node.module or "")
            found |= {root + ("" if root.endswith(".") else ".") + alias.name for alias in node.names}
    return found


# -- topics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('device = "mps"', {OTHER_ACCELERATORS}),
        ("torch.backends.mps.is_available()", {OTHER_ACCELERATORS}),
        ("use_mps_device = is_torch_xla_available()", {OTHER_ACCELERATORS}),
        ("class MPSAccelerator: pass", {OTHER_ACCELERATORS}),
        ("device = torch.accelerator.current_accelerator()", {OTHER_ACCELERATORS}),
        ("timestamps, TIMESTAMPS, inputs, relaxlags, bumps, mpsx = 0", set()),
        ("torch.onnx.export(model, x, path)", {TRACED}),
        ("from torch.export import export", {TRACED}),
        ("torch.jit.trace(model, x)", {TRACED}),
        ("from torch.jit import trace", {TRACED}),
        ("@torch.jit.script\ndef f(x): pass", {SCRIPTED}),
        ("scripted = torch.jit.script(module)", {SCRIPTED, SCRIPTS_VALUES}),
        ("class Net(torch.jit.ScriptModule): pass", {SCRIPTED, SCRIPTS_VALUES}),
        ("from torch.jit import script", {SCRIPTED, SCRIPTS_VALUES}),
        ("manuscripts = scripted.scripts", set()),
        ("torch.compile(model)", set()),
        ("x = 1  # not on mps, and no torch.onnx", set()),
        ('"""Say `torch.jit.trace(model)` on mps."""', set()),
        ("print('neither mps nor xla', \"# it's xla\")", set()),
        ("x = '#'; device = 'mps'", {OTHER_ACCELERATORS}),
        ("device = f'mps:{rank}'", {OTHER_ACCELERATORS}),
    ],
)
def test_what_a_file_mentions(code: str, found: set[str]) -> None:
    assert symbols_of(code.encode()).topics == found
