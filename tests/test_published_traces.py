"""`torchperf-lint profile` on traces that others have published: the small ones lie here, `traces.tsv` lists all.

What is expected stands in the traces' own events, which somebody has read: calls of the runtime that wait, without the
profiler's own `cudaDeviceSynchronize`, the last call of a trace.
"""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from linting import ROOT
from torchperf_lint.cli import main

with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    published = importlib.import_module("traces")

KEPT = ROOT / "tests" / "data" / "traces"
LISTED = {trace.path: trace for trace in published.traces()}
HERE = sorted(path.relative_to(KEPT).as_posix() for path in KEPT.rglob("*.gz"))

READ = {
    # 16 pageable uploads of 16 parameters, and 4 synchronisations of the device; no step is marked
    "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": {
        ("aten::to", "cudaMemcpyAsync", "cudaStreamSynchronize"): 16,
        ("[param|pytorch.model.alex_net|0|0|0|measure|forward]", "cudaDeviceSynchronize"): 2,
        ("[param|pytorch.model.alex_net|0|0|0|warmup|forward]", "cudaDeviceSynchronize"): 2,
    },
    # one step, in which a condition reads a tensor, and the program waits for an event
    "critical_path/cuda_event_sync/event_sync_trace.json.gz": {
        ("aten::is_nonzero", "cudaMemcpyAsync", "cudaStreamSynchronize"): 1,
        ("cudaEventSynchronize", "cudaEventSynchronize"): 1,
    },
    # an event that another stream waits for, and not the host
    "critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz": {},
    # an AMD GPU: 2 uploads in 2 steps
    "amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": {("aten::to", "hipMemcpyWithStream"): 1},
    # no call of the runtime was recorded: 5 reads, which may wait
    "rank_non_gpu/rank_non_gpu.json.gz": {("aten::item",): 5},
}


def test_each_trace_that_lies_here_is_listed():
    assert set(READ) < set(HERE) < set(LISTED)


@pytest.mark.parametrize("path", HERE)
def test_the_command_says_what_the_table_holds(path):
    file = published.brought(LISTED[path], KEPT)
    assert published.profiled(LISTED[path], file) == LISTED[path]


@pytest.mark.parametrize("path", READ)
def test_the_waits_are_those_that_the_events_hold(path, capsys):
    main(["profile", "--output-format", "json", str(KEPT / path)])
    report = json.loads(capsys.readouterr().out)
    seen = {}
    for line in report["lines"]:
        key = line["operator"], *line["calls"]
        seen[key] = seen.get(key, 0) + line["waits"]
    assert seen == READ[path]


def test_a_foreign_file_gets_one_line(capsys):
    foreign = KEPT / "execution_trace" / "benchmark_simple_add_et.json.gz"
    assert main(["profile", str(foreign)]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"torchperf-lint profile: error: {foreign}: it is no trace: there is no list `traceEvents` in it\n",
    )


def test_a_cut_trace_gets_one_line(tmp_path, capsys):
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes((KEPT / HERE[0]).read_bytes()[:4000])
    assert main(["profile", str(cut)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert str(cut) in err


def test_another_file_under_a_listed_name_is_refused(tmp_path):
    trace = published.Trace("a.json.gz", "0" * 64)
    (tmp_path / "a.json.gz").write_bytes(b"")
    with pytest.raises(published.NotBrought, match="its digest is another"):
        published.brought(trace, tmp_path)


def test_where_the_traces_come_from_is_written_beside_them():
    assert published.COMMIT in (KEPT / "README.md").read_text("utf-8")
    assert "MIT License" in (KEPT / "LICENSE").read_text("utf-8")
