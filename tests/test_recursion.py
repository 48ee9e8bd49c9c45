"""Code that nests deeply without being a bomb: Python runs it, and it is checked."""

from __future__ import annotations

import sys

import pytest

from fake_rules import HINTS, TARGET
from torchperf_lint.engine import registry
from torchperf_lint.engine.runner import check_source
from torchperf_lint.syntax.recursion import FRAMES, has_room, with_room
from training_loop import FOUND_AT, LOOP

DEEP = {
    "elif": "if mode == 0:\n    pass\n" + "".join(f"elif mode == {n}:\n    pass\n" for n in range(1, 1000)),
    "sum": "total = " + " + ".join(f"parts[{n}]" for n in range(2000)),
    "chain": "table = builder" + ".add(1).flag" * 600,
    "subscripts": "table = parts" + "[0]" * 800,
    "choice": "word = " + "".join(f"'{n}' if mode == {n} else " for n in range(800)) + "None",
}
if sys.version_info >= (3, 12):  # these have a limit of their own, of the parser
    DEEP["elif"] = "".join(DEEP["elif"].partition("elif mode == 800")[:1])


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP)
def test_it_costs_no_finding(code: str) -> None:
    text = f"{LOOP}\n\ndef other(mode, parts, builder):\n    " + code.replace("\n", "\n    ") + "\n"
    rules = [rule for rule in registry.all_rules() if rule.default]
    report = check_source("f.py", text.encode(), rules, TARGET, HINTS)
    assert report.failure is None
    assert [f"{each.row}:{each.column}" for each in report.diagnostics if each.code == "TPL102"] == [FOUND_AT]


def test_findings_deep_in_a_chain_of_tests() -> None:
    (line,) = [line for line in LOOP.splitlines() if ".item()" in line]
    indent = line[: len(line) - len(line.lstrip())]
    branches = [f"{indent}{'el' * (n > 0)}if y is {n}:\n{indent}    pass\n" for n in range(400)]
    branches += [f"{indent}else:\n    {line}"]
    rules = [rule for rule in registry.all_rules() if rule.code == "TPL102"]
    report = check_source("f.py", LOOP.replace(line, "".join(branches)).encode(), rules, TARGET, HINTS)
    assert report.failure is None
    assert len(report.diagnostics) == 1


def test_room_is_for_one_call_and_leaves_nothing_behind() -> None:
    def depth(left: int) -> int:
        return has_room() and (1 + depth(left - 1) if left else 0)

    limit = sys.getrecursionlimit()
    assert not has_room()
    assert with_room(lambda: with_room(lambda: depth(FRAMES // 2))) == FRAMES // 2
    with pytest.raises(RecursionError):
        with_room(lambda: depth(FRAMES * 2))
    with pytest.raises(KeyError):
        with_room(lambda: {}["nothing"])
    assert not has_room()
    assert sys.getrecursionlimit() == limit
