"""What reports and fixes say in words, where no fixture can hold it: the titles of fixes."""

from __future__ import annotations

import pytest

from torchperf_lint.engine.registry import find_rule
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

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


def _titles(code: str, source: str) -> list[str]:
    rule = find_rule(code)
    assert rule is not None
    report = check_source("train.py", source.encode(), (rule,), Target(), Hints())
    return [found.fix.message for found in report.diagnostics if found.fix is not None]
