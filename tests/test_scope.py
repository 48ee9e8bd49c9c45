"""Whether a file gives a builtin's name another meaning: told alike by the text and by the tree."""

from __future__ import annotations

import ast

import pytest

from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.model.syntax.scope import binds

BINDING = """
iter = 1
def iter(x): pass
def  iter(x): pass
async  def  iter(x): pass
class iter: pass
import iter
from a import b as iter
import iter.inner
for iter in x: pass
def f(iter): pass
lambda iter: iter(x)
[iter for iter in x]
with a as iter: pass
try: pass\\nexcept E as iter: pass
if (iter := f()): pass
match x:\\n    case [*iter]: pass
match x:\\n    case {"a": 1, **iter}: pass
match x:\\n    case (1 | 2) as iter: pass
class	iter(A): pass
ｉter = 3
""".strip().splitlines()

FREE = """
iter(x)
x = iter (y)
x.iter = 1
def many_iter(x): pass
make(iter)
import a.iter
f(iter=1)
""".strip().splitlines()


def is_bound(code: str) -> bool:
    text = code.replace("\\n", "\n") + "\n"
    return binds(index_of(ast.parse(text)), "iter", text)


@pytest.mark.parametrize("code", BINDING)
def test_bound(code: str) -> None:
    assert is_bound(code)


@pytest.mark.parametrize("code", FREE)
def test_free(code: str) -> None:
    assert not is_bound(code)
