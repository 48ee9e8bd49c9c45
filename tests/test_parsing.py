"""Files are parsed one at a time, whatever thread asks: Python's parser itself may fail otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

PARSE_IN_THREADS = """
import gc, sys, threading
from torchperf_lint.syntax.parsing import parse_module

sys.setswitchinterval(1e-6)
gc.set_threshold(50)
gc.callbacks.append(lambda *_: sum(range(50)))  # lets another thread go on in the midst of a parse
text = "f(1, *(x, [2, {3: y}]))\\n" * 300
failed = []

def parse_often():
    try:
        for _ in range(20):
            PARSE(text)
    except SystemError as error:
        failed.append(str(error))

threads = [threading.Thread(target=parse_often) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*failed or ["parsed"], sep="; ")
"""


def _printed(parse: str) -> str:
    program = PARSE_IN_THREADS.replace("PARSE", parse)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_threads_parse_one_after_another() -> None:
    assert _printed("parse_module") == "parsed"


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 11, 8), reason="Python's parser keeps its depth for each thread")
def test_the_parser_of_this_python_fails_in_threads() -> None:
    assert "recursion depth mismatch" in _printed("__import__('ast').parse")
