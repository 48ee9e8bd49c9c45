"""Which findings are shown as one, and how: parts of a statement, rules about one expression, reads row by row."""

from __future__ import annotations

import itertools
import json

import pytest

from test_report import context
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Cost, Diagnostic, Loss, Rate
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.report import concise, sarif, text
from torchperf_lint.report import json as json_report
from torchperf_lint.report.groups import grouped, weight

LOOP = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(data):
    loader = DataLoader(data)
    log = []
    for x, y in loader:
{body}
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""


def findings(*lines: str, select: tuple[str, ...] | None = None) -> tuple[bytes, tuple[Diagnostic, ...]]:
    """A training loop with these lines, and its findings."""
    data = LOOP.format(body="\n".join(f"        {line}" for line in lines)).encode()
    report = check_source("train.py", data, registry.select(select), Target(), Hints())
    assert report.failure is None
    return data, report.diagnostics


def rows(*lines: str, select: tuple[str, ...] | None = None) -> list[list[tuple[str, int]]]:
    """The code and the row among `lines` of each finding, group by group."""
    groups = grouped(findings(*lines, select=select)[1])
    return [[(each.code, each.row - 11) for each in (group.head, *group.parts)] for group in groups]


def test_reads_of_one_statement_are_one_finding_with_parts() -> None:
    lines = ("out = model(x.cuda())", "now = {", "    'a': out.max().item(),", "    'b': out.min().item(),", "}")
    assert rows(*lines, select=("TPL101",)) == [[("TPL101", 3), ("TPL101", 4)]]


def test_reads_of_several_statements_are_not() -> None:
    lines = ("out = model(x.cuda())", "print(out.max().item())", "out = model(out)", "print(out.min().item())")
    assert rows(*lines, select=("TPL105",)) == [[("TPL105", 2)], [("TPL105", 4)]]


def test_reads_behind_one_that_has_waited_are_its_parts() -> None:
    lines = (
        "out = model(x.cuda())",
        "print(out.max().item())",
        "",
        "print(out.min().item())",
        "log += out[0].tolist()",
    )
    (found,) = rows(*lines, select=("TPL105", "TPL107"))
    assert found[:2] == [("TPL105", 2), ("TPL105", 4)]
    severities = {each.row - 11: each.severity for each in findings(*lines, select=("TPL105",))[1]}
    assert severities == {2: "error", 4: "note"}


def test_parts_of_one_value_row_by_row_are_one_finding() -> None:
    lines = ("x = x.cuda()", "y = y.cuda()")
    assert rows(*lines, select=("TPL203",)) == [[("TPL203", 1), ("TPL203", 2)]]
    out = "out = {'a': model(x.cuda()).sum(), 'b': model(x.cuda()).sum()}"
    reads = ("a = out['a'].item()", "b = out['b'].item()", "log.append((a, b))")
    assert [len(each) for each in rows(out, *reads, select=("TPL101",))] == [2]


def test_reads_of_other_values_are_not() -> None:
    lines = (
        "one, two = x.cuda(), y.cuda()",
        "a = model(one)",
        "print(a.max().item())",
        "print(model(two).max().item())",
    )
    assert rows(*lines, select=("TPL105",)) == [[("TPL105", 3)], [("TPL105", 4)]]


def test_rules_about_one_call_are_one_finding() -> None:
    lines = LOOP.format(body="        x = x.cuda(non_blocking=True)")
    data = lines.replace("DataLoader(data)", "DataLoader(torchvision.datasets.ImageFolder(data))").encode()
    data = data.replace(b"import torch\n", b"import torch\nimport torchvision\n", 1)
    found = check_source("train.py", data, registry.select(("TPL401", "TPL402")), Target(), Hints()).diagnostics
    assert [each.code for each in found] == ["TPL401", "TPL402"]
    (group,) = grouped(found)
    assert (group.head.code, [each.code for each in group.parts]) == ("TPL402", ["TPL401"])
    assert group.name == f"train.py:{found[0].row}:{found[0].column}"


def test_the_weightiest_finding_is_the_head() -> None:
    _, found = findings(
        "log = {'a': model(x.cuda()).max().item(), 'b': model(y.cuda()).max().item()}", select=("TPL101",)
    )
    first, second = found
    assert grouped([first, second])[0].head is first
    lighter = first._replace(severity="note")
    assert grouped([lighter, second])[0] == (second, (lighter,))
    seldom = first._replace(cost=Cost(Rate.SELDOM, Loss.WAIT))
    assert grouped([seldom, second])[0].head is second


def test_what_weighs_more_sorts_first() -> None:
    _, found = findings("print(x.cuda().max().item())", select=("TPL105",))
    costs = [None, *(Cost(rate, loss) for rate in Rate for loss in Loss)]
    alike = [found[0]._replace(severity=each, cost=cost) for each in ("note", "error", "warning") for cost in costs]
    ordered = sorted(alike, key=weight)
    assert [each for each, _ in itertools.groupby(ordered, lambda each: each.severity)] == ["error", "warning", "note"]
    assert ordered[0].cost == Cost(Rate.ELEMENT, Loss.WAIT)
    assert ordered[-1].cost is None


def test_groups_keep_every_finding_and_their_order() -> None:
    lines = ("out = model(x.cuda())", "print(out.max().item(), out.min().item())", "y = y.cuda()")
    _, found = findings(*lines)
    groups = grouped(found)
    kept = [each for group in groups for each in (group.head, *group.parts)]
    assert sorted(map(id, kept)) == sorted(map(id, found))
    firsts = [min(each.start for each in (group.head, *group.parts)) for group in groups]
    assert firsts == sorted(firsts)
    assert grouped([]) == []


def test_files_are_grouped_apart() -> None:
    _, found = findings("print(x.cuda().max().item())", select=("TPL105",))
    assert len(grouped([found[0], found[0]._replace(path="other.py")])) == 2


def test_text_shows_a_group_once_with_its_parts_and_their_fixes() -> None:
    data, found = findings("x = x.cuda()", "y = y.cuda()", select=("TPL203",))
    lines = list(text.render(found, context(data)))
    assert [line for line in lines if "TPL203" in line] == [
        "train.py:12:13: TPL203 [*] `x.cuda()` makes the host wait until the copy is done, "
        "on every pass of the training loop",
        "   = also 13:13: TPL203 [*] `y.cuda()` makes the host wait until the copy is done, "
        "on every pass of the training loop",
    ]
    assert lines.count("   = cost: error, wait per step") == 1
    assert sum("= because:" in line for line in lines) == 1
    assert "   | +         x = x.cuda(non_blocking=True)" in lines
    assert "   | +         y = y.cuda(non_blocking=True)" in lines
    assert [line for line in lines if not line] == [""]


def test_text_shows_what_a_part_has_for_itself() -> None:
    data, found = findings("x = x.cuda()", "y = y.cuda()", select=("TPL203",))
    part = found[1]._replace(cost=Cost(Rate.SELDOM, Loss.WAIT), because=(found[1].because[0]._replace(text="other"),))
    lines = list(text.render([found[0], part], context(data)))
    after = lines[next(i for i, line in enumerate(lines) if "= also" in line) :]
    assert "   = cost: error, wait seldom" in after
    assert "   = because: train.py:11: other" in after


def test_formats_for_programs_keep_single_findings() -> None:
    data, found = findings("x = x.cuda()", "y = y.cuda()", "print(model(x).max().item())", select=("TPL203", "TPL105"))
    listed = json.loads("\n".join(json_report.render(found, context(data))))
    assert [each["group"] for each in listed] == ["train.py:12:13", "train.py:12:13", None]
    (run,) = json.loads("\n".join(sarif.render(found, context(data))))["runs"]
    assert [each["properties"].get("group") for each in run["results"]] == ["train.py:12:13", "train.py:12:13", None]
    assert len(list(concise.render(found, context(data)))) == 3


@pytest.mark.parametrize("row", [12, 13])
def test_parts_are_silenced_one_by_one(row: int) -> None:
    lines = ["x = x.cuda()", "y = y.cuda()"]
    lines[row - 12] += "  # noqa: TPL203"
    _, found = findings(*lines, select=("TPL203",))
    assert [each.row for each in found] == [25 - row]
