"""Scripts that only evaluate, by their names: `eval_configs.py`, `predict.py`."""

from __future__ import annotations

import ast
from pathlib import PurePath
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.frequency import names_evaluation, names_training
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo


def is_of_evaluating_script(function: FunctionInfo) -> bool:
    """Whether the function stands in such a script, and is not named for training itself."""
    module = function.index.module
    evaluates = module.note("evaluating script", lambda: _evaluates(module))
    return evaluates and not names_training(function.name)


def _evaluates(module: FunctionInfo) -> bool:
    """Whether the file is started as a program, and named for an evaluation and not for training."""
    name = PurePath(module.path).stem
    starts = (each.test for each in module.body if isinstance(each, ast.If))
    is_started = any(isinstance(node, ast.Name) and node.id == "__name__" for test in starts for node in subtree(test))
    return is_started and names_evaluation(name) and not names_training(name)
