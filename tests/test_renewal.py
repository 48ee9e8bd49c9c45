"""After one file's symbols have changed, what the symbol index takes over is what it would find out anew."""

from __future__ import annotations

import inspect
import itertools

import pytest

from torchperf_lint.model.project import renewal
from torchperf_lint.model.project.file_symbols import FileSymbols, symbols_of
from torchperf_lint.model.project.symbol_index import QUESTIONS, SymbolIndex

ROOT = "/p"
FILES = {
    "pkg/__init__.py": "from pkg.helpers import accuracy\nfrom pkg.many import *\n",
    "pkg/helpers.py": "import torchmetrics\ndef accuracy(f): return f()\nscore = 1\n",
    "pkg/many.py": "from pkg.helpers import *\ndef step(loss): loss.backward()\n",
    "train.py": "import torch\nfrom pkg import accuracy as score, helpers\nscore(helpers)\nx.cuda()\n"
    "getattr(helpers, 'accuracy')()\nif __name__ == '__main__':\n    step(score)\n",
    "other.py": "from pkg.helpers import accuracy\nuse(accuracy)\ngetattr(x, y)\ntorch.jit.script(accuracy)\n",
    "keeps.py": "import alone\nfrom pkg import helpers\nkept = alone.speed\nlater = helpers.accuracy\n",
    "rows.py": "from pkg.helpers import accuracy\nuse(\n    accuracy,\n)\n",
    "test_it.py": "from pkg.many import accuracy\naccuracy(step)\n",
    "alone.py": "def speed(): pass\nkept = speed\ngetattr(x, 'two_' + name)\nlook('more_words')\n",
}
FACTS = {f"{ROOT}/{path}": symbols_of(text.encode()) for path, text in FILES.items()}
FIELDS = [name for name in FileSymbols._fields if name != "digest"]
NAMES = [
    "accuracy",
    "score",
    "step",
    "speed",
    "two_words",
    "more_words",
    "pkg.helpers.accuracy",
    "many",
    "gpu",
    "scripted",
]
PARAMETERS = {name: list(inspect.signature(getattr(SymbolIndex, name)).parameters)[1:] for name in QUESTIONS}
ASKED = [
    (question, *texts)
    for question, parameters in PARAMETERS.items()
    for texts in itertools.product(*(FACTS if each in ("key", "home", "other") else NAMES for each in parameters))
]


def answers(index: SymbolIndex) -> dict[tuple[str, ...], object]:
    return {question: index.answer(question) for question in ASKED}


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_what_is_taken_over_is_what_would_be_found_anew(field: str) -> None:
    differing = 0
    for key, before in FACTS.items():
        others = (getattr(each, field) for each in FACTS.values())
        after = before._replace(**{field: next(each for each in others if each != getattr(before, field))})
        changed = {**FACTS, key: after}
        old, renewed = SymbolIndex(FACTS, ROOT), SymbolIndex(changed, ROOT)
        had = answers(old)
        renewal.take_over(renewed, old, key, before, after)
        given, anew = answers(renewed), answers(SymbolIndex(changed, ROOT))
        assert given == anew, key
        same = {question for question in ASKED if not renewal.may_change(question[0], before, after)}
        assert {question: anew[question] for question in same} == {question: had[question] for question in same}
        differing += anew != had
    assert differing, f"no answer rests on `{field}`"


def test_every_question_says_what_it_rests_on() -> None:
    assert renewal._ANSWERS.keys() == QUESTIONS.keys()
    fields = {name for made_of in renewal._ANSWERS.values() for name in made_of}
    assert fields == set(FIELDS)
