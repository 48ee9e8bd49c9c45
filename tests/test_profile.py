"""`torchperf-lint profile`: whose wait is whose, how long each is, and what is said where a trace does not tell."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
import tracemalloc

import pytest

from linting import ROOT
from made_up_trace import (
    DEVICE_TO_PAGEABLE,
    DEVICE_TO_PINNED,
    ITEM,
    ON_DEVICE,
    PAGEABLE_TO_DEVICE,
    PINNED_TO_DEVICE,
    RUN_BACKWARD,
    Trace,
)
from torchperf_lint.cli import main
from torchperf_lint.profile import reading, recording

TRAIN = """\
import torch
from helpers import shown

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    total = 0.0
    for x in loader:
        loss = model(x.to(device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        text = shown(loss)
    return total, text
"""
HELPERS = """\
def shown(t):
    return getattr(t, "it" + "em")()  # out of the linter's sight, and not out of the profiler's


def largest(a, b):
    first = a.item()
    second = b.item()
    return max(first, second)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helpers.py").write_text(HELPERS)
    return tmp_path


def profile(capsys, *arguments):
    """The exit status, and the object that is printed."""
    status = main(["profile", "--output-format", "json", *arguments])
    return status, json.loads(capsys.readouterr().out)


def places(report):
    return [(line["filename"], line["row"], line["function"]) for line in report["lines"]]


def test_each_wait_has_its_row_its_time_and_its_finding(project, capsys):
    trace = Trace()
    for number in range(2):
        start = 1000.0 * number
        trace.step(number, start, 900)
        trace.item_in(start + 10, "train.py(9): train")
        trace.frame("train.py(9): train", start + 300, 500)
        trace.frame("helpers.py(1): shown", start + 310, 300)
        trace.frame(ITEM, start + 320, 200)
        trace.item(start + 330, 30.0, 5.0)
    status, report = profile(capsys, trace.write(project))
    assert status == 1
    assert (report["steps"], report["step_ms"], report["waits"], report["wait_ms"]) == (2, 0.9, 2.0, 0.125)
    assert places(report) == [("train.py", 16, "train"), ("helpers.py", 1, "shown")]
    first, second = report["lines"]
    assert (first["waits"], first["wait_ms"], first["operator"]) == (1.0, 0.09, "aten::item")
    assert first["calls"] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    assert [finding["code"] for finding in first["findings"]] == ["TPL102"]
    assert first["found"]
    assert first["findings"][0]["fix"]["applicability"] == "safe"
    assert (second["wait_ms"], second["findings"], second["rows"]) == (0.035, [], [])
    assert report["not_seen"] == []


def test_people_read_the_same(project, capsys):
    trace = Trace()
    trace.step(1, 0.0, 1000)
    trace.item_in(10, "train.py(9): train")
    trace.item_in(300, "train.py(9): train", "helpers.py(1): shown")
    assert main(["profile", trace.write(project)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "trace.json: 1 step of 1 ms; per step the host waits 2 times, 0.18 ms in all (18%)."
    found = lines.index("found and measured")
    assert lines[found + 1] == (
        "  train.py:16  0.09 ms (50%), 1 wait: aten::item (cudaMemcpyAsync and cudaStreamSynchronize)"
    )
    assert lines[found + 2].startswith("      train.py:16:18: TPL102 [*] ")
    missed = lines.index("measured, not found")
    assert lines[missed + 1].startswith("  helpers.py:1 in shown  0.09 ms (50%), 1 wait: aten::item")


def test_a_row_is_told_only_where_one_makes_the_call(project, capsys):
    trace = Trace()
    trace.item_in(10, "helpers.py(5): largest")
    _, report = profile(capsys, trace.write(project))
    (line,) = report["lines"]
    assert (line["row"], line["rows"], line["found"]) == (5, [6, 7], False)
    main(["profile", "trace.json"])
    assert "  helpers.py:5 in largest, row 6 or 7  0.09 ms" in capsys.readouterr().out


def test_findings_on_rows_that_may_wait_are_possible_ones(project, capsys):
    text = TRAIN.replace("text = shown(loss)", "text = loss.detach().cpu().item()")
    (project / "train.py").write_text(text)
    trace = Trace()
    trace.item_in(10, "train.py(9): train")
    _, report = profile(capsys, trace.write(project))
    (line,) = report["lines"]
    assert line["rows"] == [16, 17]
    assert {finding["code"] for finding in line["findings"]} == {"TPL101", "TPL102"}
    assert line["found"], "whichever it is"
    (project / "train.py").write_text(text.replace("loss.detach()", "loss.detach()  # noqa\\\n        "))
    (project / "train.py").write_text(text + "        # noqa\n")
    (project / "train.py").write_text(text.replace(".cpu().item()", ".cpu().item()  # noqa"))
    _, report = profile(capsys, "trace.json")
    (line,) = report["lines"]
    assert [finding["code"] for finding in line["findings"]] == ["TPL102"]
    assert not line["found"]
    main(["profile", "trace.json"])
    lines = capsys.readouterr().out.splitlines()
    possible = lines.index("measured, perhaps found: the trace tells the function, and not the row")
    assert lines[possible + 1].startswith("  train.py:9 in train, row 16 or 17  0.09 ms")


def test_findings_of_a_function_are_possible_ones_where_no_row_is_known(project, capsys):
    trace = Trace()
    trace.item_in(10, "train.py(1): <module>", "train.py(9): train", "nn.Module: Net_0")
    trace.item_in(300, "train.py(1): <module>", "nn.Module: Net_0")
    _, report = profile(capsys, trace.write(project))
    assert places(report) == [("train.py", None, "<module>"), ("train.py", 9, "train")]
    at_top, inside = report["lines"]
    assert ([finding["code"] for finding in inside["findings"]], inside["found"]) == (["TPL102"], False)
    assert (at_top["findings"], report["not_seen"]) == ([], [])
    assert at_top["on_disk"]


# ---- what is a wait


def waits_of(trace, folder, capsys):
    _, report = profile(capsys, trace.write(folder))
    return [(line["operator"], line["waits"], line["wait_ms"], line["certain"]) for line in report["lines"]]


@pytest.mark.parametrize(
    ("copy", "synchronized", "expected"),
    [
        (PAGEABLE_TO_DEVICE, True, [("aten::to", 1.0, 0.06, True)]),
        (PAGEABLE_TO_DEVICE, False, [("aten::to", 1.0, 0.04, False)]),
        (PINNED_TO_DEVICE, True, [("aten::to", 1.0, 0.02, True)]),
        (PINNED_TO_DEVICE, False, []),
        (DEVICE_TO_PAGEABLE, True, [("aten::to", 1.0, 0.06, True)]),
        (DEVICE_TO_PAGEABLE, False, [("aten::to", 1.0, 0.04, True)]),
        (DEVICE_TO_PINNED, True, [("aten::to", 1.0, 0.06, True)]),
        (DEVICE_TO_PINNED, False, []),
        (ON_DEVICE, False, []),
        (None, False, []),
    ],
)
def test_a_copy_waits_by_its_memory_and_by_what_follows(tmp_path, capsys, copy, synchronized, expected):
    trace = Trace()
    for depth, name in enumerate(("aten::to", "aten::_to_copy", "aten::copy_")):
        trace.operator(name, 10.0 + depth, 100 - 2 * depth)
    trace.call("cudaMemcpyAsync", 20, 40, copy=copy)
    if synchronized:
        trace.call("cudaStreamSynchronize", 65, 20)
    trace.operator("aten::add", 200, 5)
    trace.call("cudaLaunchKernel", 201, 3)
    assert waits_of(trace, tmp_path, capsys) == expected


def test_two_copies_in_one_operator_are_two_waits(tmp_path, capsys):
    trace = Trace()
    trace.operator("aten::_unique2", 0, 200)
    for start in (10, 110):
        trace.call("cudaMemcpyAsync", start, 20, copy=DEVICE_TO_PAGEABLE)
        trace.call("cudaStreamSynchronize", start + 30, 10)
    assert waits_of(trace, tmp_path, capsys) == [("aten::_unique2", 2.0, 0.06, True)]


def test_an_operator_that_runs_python_is_not_what_that_calls(project, capsys):
    trace = Trace()
    trace.operator("aten::checkpoint", 0, 900)
    trace.item_in(10, "train.py(9): train")
    assert waits_of(trace, project, capsys) == [("aten::item", 1.0, 0.09, True)]


def test_a_call_that_lies_in_another_is_the_same_wait(tmp_path, capsys):
    trace = Trace()
    trace.call("cudaStreamSynchronize", 10, 50)
    trace.call("cuStreamSynchronize", 10, 48)
    trace.call("cuStreamSynchronize", 20, 40)
    trace.call("cudaStreamSynchronize", 60, 5)
    trace.call("cudaEventSynchronize", 65, 0)
    trace.call("cudaStreamSynchronize", 30, 10, thread=2)
    trace.operator("aten::add", 200, 5)
    assert sorted(waits_of(trace, tmp_path, capsys)) == [
        ("cudaEventSynchronize", 1.0, 0.0, True),
        ("cudaStreamSynchronize", 1.0, 0.01, True),
        ("cudaStreamSynchronize", 2.0, 0.055, True),
    ]


def test_what_is_read_on_the_host_is_no_wait(tmp_path, capsys):
    trace = Trace()
    trace.item(10)
    trace.operator("aten::item", 200, 50)
    trace.operator("aten::_local_scalar_dense", 201, 48)
    trace.operator("aten::nonzero", 300, 48)
    assert waits_of(trace, tmp_path, capsys) == [("aten::item", 1.0, 0.09, True)]


def test_without_the_runtime_reads_may_wait(tmp_path, capsys):
    trace = Trace()
    trace.operator("aten::is_nonzero", 0, 100)
    trace.operator("aten::item", 0, 100)
    trace.operator("aten::_local_scalar_dense", 0, 100)
    trace.operator("aten::index", 200, 60)
    trace.operator("aten::nonzero", 210, 40)
    assert waits_of(trace, tmp_path, capsys) == [
        ("aten::is_nonzero", 1.0, 0.1, False),
        ("aten::index", 1.0, 0.04, False),
    ]
    assert main(["profile", "trace.json"]) == 1
    assert "No call of the CUDA runtime was recorded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        *((name, 1) for name in ("cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpy_ptsz")),
        *((name, 1) for name in ("cuStreamSynchronize", "cuCtxSynchronize", "hipStreamSynchronize")),
        *((name, 1) for name in ("hipMemcpyWithStream", "hipDeviceSynchronize", "hipEventSynchronize")),
        *((name, 0) for name in ("cudaStreamWaitEvent", "cudaEventQuery", "cudaLaunchKernel", "hipEventRecord")),
    ],
)
def test_calls_of_every_runtime(tmp_path, capsys, name, waits):
    trace = Trace()
    trace.call(name, 10, 5)
    trace.operator("aten::add", 200, 5)
    assert sum(count for _, count, *_ in waits_of(trace, tmp_path, capsys)) == waits


def test_old_exports_have_other_categories(tmp_path, capsys):
    trace = Trace()
    trace.step(3, 0, 500)
    trace.item(10)
    for event in trace.events:
        old = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "gpu_memcpy": "Memcpy", "user_annotation": "Operator"}
        event["cat"] = old.get(event.get("cat"), event.get("cat"))
    assert waits_of(trace, tmp_path, capsys) == [("aten::item", 1.0, 0.09, True)]


def test_what_the_profiler_waits_for_is_its_own(project, capsys):
    trace = Trace()
    trace.frame("train.py(9): train", 0, 1000)
    trace.frame("torch/profiler/profiler.py(1135): stop", 100, 500)
    trace.frame("torch/autograd/profiler.py(419): __exit__", 110, 400)
    trace.call("cudaDeviceSynchronize", 120, 50)
    trace.frame("<built-in function _cuda_synchronize>", 700, 80)
    trace.call("cudaDeviceSynchronize", 701, 70)
    trace.operator("aten::add", 900, 5)
    assert waits_of(trace, project, capsys) == [("cudaDeviceSynchronize", 1.0, 0.07, True)]
    without_stacks = Trace()
    without_stacks.operator("aten::add", 900, 5)
    without_stacks.call("cudaDeviceSynchronize", 950, 70)
    assert waits_of(without_stacks, project, capsys) == []


def test_steps_leave_out_what_is_around_them(tmp_path, capsys):
    trace = Trace()
    for start in (0, 1000, 2000, 3000):
        trace.item(start)
    trace.step(8, 1990, 500)
    trace.step(7, 990, 500)
    _, report = profile(capsys, trace.write(tmp_path))
    assert (report["steps"], report["waits"], report["wait_ms"]) == (2, 1.0, 0.09)
    assert report["outside_of_steps"] == {"waits": 2, "wait_ms": 0.18}


# ---- whose line it is


def test_a_library_on_the_way_is_named(project, capsys):
    trace = Trace()
    trace.item_in(
        10,
        "train.py(9): train",
        "torch/optim/optimizer.py(509): wrapper",
        "torch/optim/adam.py(214): step",
        "typing.py(2268): cast",
    )
    trace.item_in(300, "train.py(9): train", "accelerate/optimizer.py(140): step", "torch/optim/adam.py(214): step")
    _, report = profile(capsys, trace.write(project))
    assert sorted((line["row"], line["via"]["filename"], line["via"]["row"]) for line in report["lines"]) == [
        (15, "accelerate/optimizer.py", 140),
        (15, "torch/optim/adam.py", 214),
    ]


def test_autograd_works_for_whoever_calls_backward(project, capsys):
    trace = Trace()
    trace.frame("train.py(9): train", 0, 1000)
    trace.frame("torch/_tensor.py(566): backward", 10, 700)
    trace.frame(RUN_BACKWARD, 20, 600)
    trace.operator("autograd::engine::evaluate_function: IndexBackward0", 25, 300, thread=2)
    trace.item(30, thread=2)
    trace.item(800, thread=2)
    _, report = profile(capsys, trace.write(project))
    assert places(report) == [("<thread 2>", None, None), ("train.py", 14, "train")]
    assert {line["operator"] for line in report["lines"]} == {"aten::item"}


def test_stacks_of_old_exports_tell_the_row(project, capsys):
    stack = "/opt/lib/python3.7/site-packages/torch/optim/adam.py(61): step;train.py(15): train;train.py(21): <module>"
    trace = Trace()
    trace.item(10, stack=stack)
    trace.item(300, stack="helpers.py(7): largest;train.py(17): train")
    _, report = profile(capsys, trace.write(project))
    assert sorted(places(report)) == [("helpers.py", 7, "largest"), ("train.py", 15, "train")]
    assert {line["via"]["row"] for line in report["lines"] if line["via"]} == {61}


def test_stacks_that_the_tracer_gave_do_not_tell_the_row(project, capsys):
    trace = Trace()
    trace.item(10, stack=f"{ITEM};train.py(9): train;train.py(1): <module>;")
    _, report = profile(capsys, trace.write(project))
    assert places(report) == [("train.py", 16, "train")]


MANY_BODIES = """\
@decorated
@decorated_again
def outer(values):
    def inner(value):
        return (
            value.item()
        )

    numbers = [
        value.item()
        for value in values
        if value is not None
    ]
    return sorted(values, key=lambda value: value.item()), inner(values[0]), numbers, values[-1].item()


class Reader:
    def read(self, value):
        return 0

    def outer(self, value):
        float(value)
        return value.item()

    def __init__(self, parts):
        super().__init__()
        self.part = Reader(parts)

    def short(self, value): return self.part(value)
"""


@pytest.mark.parametrize(
    ("frames", "operator", "rows"),
    [
        (["many.py(1): outer", ITEM], "aten::item", [10, 14]),
        (["many.py(1): outer", "many.py(9): <listcomp>", ITEM], "aten::item", [10]),
        (["many.py(1): outer", "many.py(4): inner", ITEM], "aten::item", [6]),
        (["many.py(1): outer", "many.py(14): <lambda>", ITEM], "aten::item", [14]),
        (["many.py(21): outer", ITEM], "aten::item", [23]),
        (["many.py(22): Reader.outer", ITEM], "aten::item", [23]),
        (["many.py(21): outer"], "aten::item", [22]),
        (["many.py(21): outer"], "aten::is_nonzero", []),
        (["many.py(25): __init__", "many_others.py(3): __init__"], "aten::item", []),
        (["many.py(29): short", "nn.Module: Net_0"], "aten::item", [29]),
        (["many.py(21): outer", "nn.Module: Net_0"], "aten::item", []),
        (["many.py(21): outer", "many_others.py(3): __init__"], "aten::item", []),
        (["many.py(21): outer", "<built-in method cpu of Tensor object at 0x7f>"], "aten::item", []),
    ],
)
def test_rows_are_those_of_the_function_that_ran(tmp_path, capsys, frames, operator, rows):
    (tmp_path / "many.py").write_text(MANY_BODIES)
    trace = Trace()
    for depth, name in enumerate(frames):
        trace.frame(name, depth, 500 - depth)
    trace.operator(operator, 20, 200)
    trace.call("cudaStreamSynchronize", 30, 100)
    _, report = profile(capsys, trace.write(tmp_path))
    assert [line["rows"] for line in report["lines"]] == [rows]


def test_a_function_that_ran_already_is_known_by_any_of_its_rows(project, capsys):
    trace = Trace()
    trace.item_in(10, "train.py(17): train")
    _, report = profile(capsys, trace.write(project))
    assert places(report) == [("train.py", 16, "train")]


def test_a_file_that_is_another_by_now_is_not_joined(project, capsys):
    trace = Trace()
    trace.item_in(10, "train.py(1): <module>", "train.py(29): train")
    status, report = profile(capsys, trace.write(project))
    (line,) = report["lines"]
    assert (line["row"], line["changed"], line["on_disk"], line["findings"]) == (29, True, False, [])
    assert [finding["code"] for finding in report["not_seen"]] == ["TPL102"]
    assert status == 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/else/work/app/train.py", "app/train.py"),
        ("C:\\\\work\\\\app\\\\train.py", "app/train.py"),
        ("app/train.py", "app/train.py"),
        ("other/train.py", None),
        ("/usr/lib/python3.11/site-packages/app/train.py", None),
        ("/home/else/app/training.py", None),
    ],
)
def test_paths_from_elsewhere_are_found_by_their_ends(tmp_path, capsys, path, expected):
    for folder in ("app", "lib"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(TRAIN)
    trace = Trace()
    trace.item_in(10, f"{path}(9): train".replace("\\\\", "\\"))
    _, report = profile(capsys, trace.write(tmp_path))
    (line,) = report["lines"]
    assert (line["filename"] if line["on_disk"] else None) == expected


def test_a_path_of_this_machine_is_the_file_itself(project, capsys):
    (project / "copy").mkdir()
    (project / "copy" / "train.py").write_text(TRAIN)
    trace = Trace()
    trace.item_in(10, f"{project / 'train.py'}(9): train")
    _, report = profile(capsys, trace.write(project))
    assert places(report) == [("train.py", 16, "train")]
    assert report["lines"][0]["found"]
    _, report = profile(capsys, "trace.json", "--root", "copy")
    assert places(report) == [("train.py", 16, "train")]


def test_what_is_ambiguous_is_not_guessed(tmp_path, capsys):
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(TRAIN if folder < "c" else HELPERS)
    trace = Trace()
    trace.item_in(10, "train.py(9): train")
    _, report = profile(capsys, trace.write(tmp_path))
    (line,) = report["lines"]
    assert line["may_be"] == [os.path.join("a", "train.py"), os.path.join("b", "train.py")]
    assert (line["findings"], report["not_seen"]) == ([], [])
    main(["profile", "trace.json"])
    assert "train.py may be any of a/train.py, b/train.py: --root names the folder." in capsys.readouterr().out
    _, report = profile(capsys, "trace.json", "--root", "b")
    assert [line["filename"] for line in report["lines"]] == [os.path.join("b", "train.py")]
    assert report["lines"][0]["found"]


def test_what_runs_tells_which_of_several_files_it_is(tmp_path, capsys):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(TRAIN if folder == "a" else HELPERS)
    trace = Trace()
    trace.item_in(10, "train.py(9): train")
    _, report = profile(capsys, trace.write(tmp_path))
    assert [line["filename"] for line in report["lines"]] == [os.path.join("a", "train.py")]


def test_a_file_called_like_one_of_python_is_the_users_only_if_it_ran(project, capsys):
    (project / "threading.py").write_text("x = 1\n")
    trace = Trace()
    trace.item_in(10, "threading.py(1016): _bootstrap_inner", "train.py(9): train", "threading.py(7): run")
    _, report = profile(capsys, trace.write(project))
    assert places(report) == [("train.py", 9, "train")]


def test_without_files_the_trace_is_told(tmp_path, capsys):
    trace = Trace()
    trace.item_in(10, "app/main.py(7): run", "app/loop.py(3): step", "torch/_tensor.py(5): __format__")
    _, report = profile(capsys, trace.write(tmp_path))
    assert places(report) == [("app/loop.py", 3, "step")]
    assert not report["lines"][0]["on_disk"]


# ---- how it is read


def test_a_trace_comes_in_any_form(project, capsys):
    trace = Trace()
    trace.item_in(10, "train.py(9): train")
    _, expected = profile(capsys, trace.write(project))
    text = trace.text().encode()
    forms = {
        "packed.json.gz": gzip.compress(text),
        "packed": gzip.compress(text),
        "list.json": json.dumps(trace.events).encode(),
        "marked.json": b"\xef\xbb\xbf" + text,
        "tail.json": text.rstrip()[:-1] + b', "traceName": "x", "n": 12}',
    }
    for name, data in forms.items():
        (project / name).write_bytes(data)
        status, report = profile(capsys, name)
        assert (status, report) == (1, expected | {"trace": name}), name


def test_standard_input_and_no_torch(project):
    trace = Trace()
    trace.item_in(10, "train.py(9): train")
    program = "import sys; from torchperf_lint.cli import main; status = main(['profile', '-'])\n"
    program += "print('torch' in sys.modules, status)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=gzip.compress(trace.text().encode()),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("standard input: no steps are marked; in the whole trace the host waits once, ")
    assert lines[-1] == "False 1"


def test_statuses(project, capsys):
    trace = Trace()
    trace.operator("aten::add", 10, 5)
    trace.call("cudaLaunchKernel", 11, 3)
    assert main(["profile", trace.write(project)]) == 0
    trace.frame("train.py(9): train", 0, 100)
    assert main(["profile", trace.write(project)]) == 1, "a finding in what ran"
    (project / "train.py").write_text("def train(:\n")
    assert main(["profile", trace.write(project)]) == 2
    assert "train.py:1:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\x00\x01\x02\xff" * 100, "it is no JSON"),
        (b"import torch\n", "it is no JSON"),
        (b"PK\x03\x04", "it is no JSON"),
        (b"{}", "it is no trace: there is no list `traceEvents` in it"),
        (b'{"a": 1, "b": [2]}', "it is no trace: there is no list `traceEvents` in it"),
        (b'{"traceEvents": {}}', "it is no trace: there is no list `traceEvents` in it"),
        (b"[[1, 2], [3, 4]]", "it is no trace: not all of its events are objects"),
        (b"[1, 2]", "it is no trace: not all of its events are objects"),
        (b"[]", "it is no trace of torch.profiler: there is no operator and no call of the CUDA runtime in it"),
        (b'[{"ph": "X", "name": "Paint", "cat": "blink", "ts": 1, "dur": 2}]', "it is no trace of torch.profiler"),
        (b'{"a": 1 "b": 2}', "it is no valid JSON at character 8"),
        (b'{"traceEvents": [{"ph": X}]}', "it is no valid JSON at character 24: Expecting value"),
        (b'{"traceEvents": [{"ph": 1} {"ph": 2}]}', "it is no valid JSON at character 27"),
        (b'[{"ts": ' + b"9" * 5000 + b"}]", "it is no trace: Exceeds the limit"),
        (b"[" * 100_000, "it is too deeply nested"),
        (b"\x1f\x8b\x08\x00" + b"\x00" * 30, "the compressed data is damaged: "),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "it is cut off: the compressed data has no end"),
    ],
)
def test_what_is_no_trace_is_said_in_one_line(tmp_path, capsys, data, said):
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    assert main(["profile", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"torchperf-lint profile: error: {path}: {said}")
    assert printed.err.count("\n") == 1


def test_a_trace_that_is_cut_off_anywhere_is_refused(tmp_path, capsys):
    trace = Trace()
    trace.item_in(10.125, "tr\u00e4in.py(9): \\train\n")
    text = trace.text().encode().rstrip()
    path = tmp_path / "trace.json"
    for length in range(1, len(text), 7):
        path.write_bytes(text[:length])
        assert main(["profile", str(path)]) == 2, length
        printed = capsys.readouterr()
        assert printed.err.startswith(f"torchperf-lint profile: error: {path}: it is cut off after"), length


@pytest.mark.parametrize("what", ["gone.json", "."])
def test_what_cannot_be_read_is_said(tmp_path, capsys, what):
    assert main(["profile", what]) == 2
    assert capsys.readouterr().err.startswith(f"torchperf-lint profile: error: {what}: it cannot be read: ")
    assert main(["profile", what, "--root", "nowhere"]) == 2
    assert capsys.readouterr().err == "torchperf-lint profile: error: nowhere: there is no such folder\n"


def test_odd_events_are_passed_over_and_nothing_steers_a_terminal(tmp_path, capsys):
    trace = Trace()
    trace.item(10)
    trace.operator("aten::add\x1b[31m", 300, 50)
    trace.call("cudaDeviceSynchronize", 310, 5)
    trace.operator("aten::add", 900, 50)
    odd = {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 7, "tid": 1}
    for change in ({}, {"ts": 1}, {"ts": "1", "dur": 1}, {"ts": 1, "dur": 10**400}, {"ts": 1, "dur": float("nan")}):
        trace.events.append(odd | change)
    trace.events += [{}, {"ph": "X", "ts": 1, "dur": 1, "name": 5}, {"args": [], "cat": [], "pid": {}, "tid": []}]
    trace.write(tmp_path)
    assert main(["profile", str(tmp_path / "trace.json")]) == 1
    printed = capsys.readouterr().out
    assert "the host waits 2 times" in printed
    assert "\x1b" not in printed


def test_the_page_says_what_is_printed(project, capsys):
    trace = Trace()
    trace.step(1, 0, 1000)
    trace.item_in(10, "train.py(9): train")
    trace.item_in(300, "train.py(9): train", "helpers.py(1): shown")
    assert main(["profile", trace.write(project, "<b>.json"), "--report", "out", "--output-format", "json"]) == 1
    printed = capsys.readouterr()
    json.loads(printed.out)
    page = (project / "out" / "report.html").read_text(encoding="utf-8")
    assert printed.err == f"wrote {os.path.join('out', 'report.html')}\n"
    assert "<code>total += loss.item()</code>" in page
    assert "<b>TPL102</b>" in page
    assert "+         total = float(total_" not in page
    assert "&lt;b&gt;.json" in page
    assert "<b>.json" not in page
    assert "src=" not in page
    (project / "file").write_text("")
    assert main(["profile", "<b>.json", "--report", "file"]) == 2
    assert "file: the report cannot be written: " in capsys.readouterr().err


@pytest.mark.parametrize("window", [1, 2, 5, 13, 64])
def test_where_a_file_is_divided_changes_nothing(monkeypatch, window):
    trace = Trace()
    trace.item_in(10.125, "tr\u00e4in.py(9): \\train\n")
    written = {"first": [1, {"a": None}], "n": -12.5e-3, "text": "]}\\", "traceEvents": trace.events, "m": 125e5}
    monkeypatch.setattr(reading, "WINDOW", window)
    for data in (json.dumps(written, indent=1), json.dumps(written, ensure_ascii=False), json.dumps(trace.events)):
        for blanks in range(7):
            file = io.BytesIO(b" " * blanks + data.encode())
            assert list(reading.events(io.BufferedReader(file))) == trace.events


def test_of_a_large_trace_a_window_is_held(monkeypatch):
    monkeypatch.setattr(reading, "WINDOW", 1 << 14)
    trace = Trace()
    trace.item(10)
    piece = json.dumps(trace.events)[1:-1].encode()

    class Long(io.RawIOBase):
        pieces = iter([b"[", *[piece + b","] * 1999, piece, b"]"])
        held = b""

        def readable(self):
            return True

        def readinto(self, buffer):
            while len(self.held) < len(buffer) and (more := next(self.pieces, b"")):
                self.held += more
            data, self.held = self.held[: len(buffer)], self.held[len(buffer) :]
            buffer[: len(data)] = data
            return len(data)

    tracemalloc.start()
    try:
        number = sum(1 for _ in reading.events(io.BufferedReader(Long())))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert number == 2000 * len(trace.events)
    assert peak < 1_000_000 < 2000 * len(piece)


def test_one_value_may_not_fill_the_memory(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(reading, "WINDOW", 100)
    monkeypatch.setattr(reading, "LARGEST", 1000)
    (tmp_path / "trace.json").write_text('{"a": [' + "1, " * 5000)
    assert main(["profile", "trace.json"]) == 2
    assert "trace.json: it is broken, or an event in it is longer than 1000 characters" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(20))
def test_open_spans_are_those_that_hold_the_time(seed):
    chance = random.Random(seed)
    spans, held = recording.Spans(), []

    def fill(start, end, depth):
        held.append((start, end, depth))
        while depth < 5 and (first := start + chance.randrange(4)) < (last := first + chance.randrange(1, 20)) <= end:
            fill(first, last, depth + 1)
            start = last

    fill(0, 100, 0)
    if seed % 2:
        chance.shuffle(held)
    for start, end, depth in held:
        spans.add(start, end, depth, 0)
    times = sorted(chance.choices(range(110), k=40))
    for time, found in zip(times, spans.at(times, [str(depth) for depth in range(9)]), strict=True):
        around = sorted(depth for start, end, depth in held if start <= time < end)
        assert sorted(int(each.name) for each in found) == around
        starts = [each.start for each in found]
        assert starts == sorted(starts)
