"""What reports and fixes say in words, where no fixture can hold it: titles of fixes, and evidence within a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_lint.engine.registry import find_rule
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Diagnostic

LOOP = """\
import gc

import torch


def train(model, loader, optimizer):
    model.to("cuda")
    for x, y in loader:
        loss = model(x.to("cuda")).sum()
        loss.backward()
        optimizer.step()
        {call}
"""


@pytest.mark.parametrize(
    ("call", "title"),
    [
        ("torch.cuda.empty_cache()", "let the allocator keep its memory"),
        ("gc.collect()", "let Python collect its garbage when it is due"),
        ("torch.cuda.ipc_collect()", "leave shared memory to the allocator"),
    ],
)
def test_removing_a_flush_says_who_does_the_work_then(call: str, title: str) -> None:
    assert _titles("TPL703", LOOP.format(call=call)) == [title]


OWN_TRAINER = """\
from transformers import Trainer


class Own(Trainer):
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        return self.compute(model, inputs), None, None

    def training_step(self, model, inputs):
        loss = self.compute(model, inputs)
        loss.backward()
        return loss

    def compute(self, model, inputs):
        loss = model(**inputs).loss
        self.seen = loss.item() + 1.0
        return loss
"""


def test_a_value_that_training_and_an_evaluation_give_is_told_by_training() -> None:
    (found,) = _found("TPL101", OWN_TRAINER)
    said = [step.text for step in found.because]
    assert "the Trainer calls `training_step` for every batch" in said
    assert not any("prediction_step" in text for text in said)


def _titles(code: str, source: str) -> list[str]:
    return [found.fix.message for found in _found(code, source) if found.fix is not None]


def _found(code: str, source: str) -> tuple[Diagnostic, ...]:
    rule = find_rule(code)
    assert rule is not None
    return check_source("train.py", source.encode(), (rule,), Target(), Hints()).diagnostics
