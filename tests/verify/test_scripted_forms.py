"""What TorchScript refuses to compile, by `idioms/scripting`, is refused by torch as well."""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.model import Model
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {
    "a try": "def f(x):\n    try:\n        return x + 1\n    except ValueError:\n        return x",
    "a lambda": "def f(x):\n    g = lambda y: y\n    return x",
    "an import": "def f(x):\n    import math\n    return x",
    "a set": "def f(x):\n    s = {1, 2}\n    return x",
    "a walrus": "def f(x):\n    if (y := x + 1).sum() > 0:\n        return y\n    return x",
    "any number of arguments": "def f(x, *args):\n    return x",
    "any keywords": "def f(x, **kwargs):\n    return x",
    "a function inside": "def f(x):\n    def g(y):\n        return y\n    return x",
    "a filter": "def f(x: List[int]):\n    return [y for y in x if y > 2]",
    "a format": "def f(x: float):\n    return f'{x:.2f}'",
    "a conversion": "def f(x: float):\n    return f'{x!r}'",
    "an else of a loop": "def f(x: List[int]):\n    for y in x:\n        pass\n    else:\n        x = x\n    return 0",
    "a global": "def f(x):\n    global z\n    return x",
    "keywords in a dict": "def f(x):\n    return torch.sum(x, **{'dim': 1})",
    "keys": "def f(x):\n    return x['a']",
    "keys of items": "def f(x):\n    return [len(y['a']) for y in x]",
    "keys in a loop": "def f(x):\n    n = 0\n    for y in x:\n        n += len(y['a'])\n    return n",
    "a method that tensors lack": "def f(x, optimizer):\n    optimizer.step()\n    return x",
    "a try that does not run": "def f(x):\n    if not torch.jit.is_scripting():\n"
    "        try:\n            pass\n        except ValueError:\n            pass\n    return x",
    "a generator": "def f(x):\n    yield x",
}
COMPILED = {
    "a list": "def f(x: List[int]):\n    return [y for y in x]",
    "keys with a type": "def f(x: Dict[str, torch.Tensor]):\n    return x['a']",
    "keys that it does not see": "def f(x):\n    if not torch.jit.is_scripting():\n        return x['a']\n    return x",
    "types in a comment": "def f(x):\n    # type: (Dict[str, Tensor]) -> Tensor\n    return x['a']",
}
CASES = [(name, text, True) for name, text in REFUSED.items()] + [
    (name, text, False) for name, text in COMPILED.items()
]


@pytest.mark.parametrize(("text", "is_refused"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_torch_refuses_what_is_taken_to_be_refused(text: str, is_refused: bool, tmp_path: Path) -> None:
    whole = f"from typing import Dict, List\n\nimport torch\nfrom torch import Tensor\n\n\n{text}\n"
    assert _taken_to_be_refused(whole) is is_refused
    assert _is_refused_by_torch(whole, tmp_path / "scripted.py") is is_refused


def _taken_to_be_refused(text: str) -> bool:
    source = Source("scripted.py", f"{text}\n\nscripted = torch.jit.script(f)\n".encode())
    model = Model(AnalyzedFile(source, index_of(source.parse(), source.path), Hints()), Target())
    (function,) = (each for each in model.functions if each.name == "f")
    return not may_be_scripted(model, function)


def _is_refused_by_torch(text: str, path: Path) -> bool:
    import torch

    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("scripted", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.jit.script(module.f)
        except Exception:  # whatever torch says of it
            return True
    return False
