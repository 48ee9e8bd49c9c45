"""Scripts that only evaluate, by their names: `eval_configs.py`, `predict.py`."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.frequency import names_evaluation, names_training
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo


_TRAINS = re.compile(r"backward|zero_grad|optim|(?:^|_)(?:fit|tune)(?:_|$)|^(?:adamw?|sgd)$|probe|adapt")
"""In the names of calls and functions: something is trained, or adapted."""


def is_of_evaluating_script(function: FunctionInfo) -> bool:
    """Whether the function stands in such a script, and is not named for training itself."""
    module = function.index.module
    evaluates = module.note("evaluating script", lambda: _evaluates(module))
    return evaluates and not names_training(function.name)


def _evaluates(module: FunctionInfo) -> bool:
    """Whether the file is started as a program, named for an evaluation and not for training, and trains nothing."""
    name = PurePath(module.path).stem
    starts = (each.test for each in module.body if isinstance(each, ast.If))
    is_started = any(isinstance(node, ast.Name) and node.id == "__name__" for test in starts for node in subtree(test))
    return is_started and names_evaluation(name) and not names_training(name) and not _may_train(module)


def _may_train(module: FunctionInfo) -> bool:
    """Whether the file calls or defines something that is named for training: the linear probe of an evaluation."""
    names = {*module.index.calls, *(each.name for each in module.index.functions)}
    return any(_TRAINS.search(name.lower()) for name in names)
