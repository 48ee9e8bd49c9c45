"""Code that nests deeply without being a bomb: Python runs it, and it is checked."""

from __future__ import annotations

import sys
import threading

import pytest

from fake_rules import HINTS, TARGET
from torchperf_lint.engine import registry
from torchperf_lint.engine.runner import check_source
from torchperf_lint.syntax.recursion import FRAMES, NoRoom, has_room, with_room
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


def test_threads_do_not_wait_for_each_other() -> None:
    """Each of them has room, and keeps its recursion limit after another one has ended."""
    both = threading.Barrier(2)
    first_is_done = threading.Event()
    limit = sys.getrecursionlimit()

    def first() -> bool:
        both.wait(20)
        return has_room()

    def second() -> int:
        both.wait(20)
        first_is_done.wait(20)
        return sys.getrecursionlimit() if with_room(has_room) else 0

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(with_room(second)), daemon=True)
    thread.start()
    assert with_room(first)
    first_is_done.set()
    thread.join(20)
    assert found == [FRAMES]
    assert sys.getrecursionlimit() == limit


def test_an_interrupt_leaves_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted call runs on; its end takes nothing from the next one."""
    goes_on = threading.Event()
    threads: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        threads.append(thread)
        raise KeyboardInterrupt

    limit = sys.getrecursionlimit()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            with_room(lambda: goes_on.wait(20))

    def after_it() -> tuple[bool, int]:
        goes_on.set()
        threads[0].join(20)
        return has_room(), sys.getrecursionlimit()

    assert with_room(after_it) == (True, FRAMES)
    assert not has_room()
    assert sys.getrecursionlimit() == limit


def test_a_thread_that_cannot_be_started_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = sys.getrecursionlimit(), threading.stack_size()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fails)
        with pytest.raises(NoRoom):
            with_room(has_room)
    assert (sys.getrecursionlimit(), threading.stack_size()) == before
    assert with_room(has_room)
