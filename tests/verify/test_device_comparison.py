"""The simulated device agrees with the GPU that it was held against, or gives a reason; so far it may be none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from torchperf_lint.measurements import Device, Measurement
from torchperf_lint.verify import device_comparison, programs
from torchperf_lint.verify.counters.disagreement import Step
from torchperf_lint.verify.device_comparison import Disagreement, compare, disagreements, stored
from torchperf_lint.verify.programs import Observed, Outcome, program

SIMULATED = {"scalars.item": {"waits": 1, "error": ""}, "copies.cpu": {"waits": 1, "to_device": 0}}
GPU = {"gpu": "a GPU", "torch": "2.11.0", "torchmetrics": "1.9.0", "python": "3.12.1", "date": "2026-01-02"}


def _measured(**waits):
    return {"scalars.item": {"waits": 1, "error": "", **waits}, "copies.cpu": {"waits": 1, "to_device": 0}}


# ---- the state of affairs


@pytest.mark.slow
def test_the_simulated_device_agrees_with_the_gpu():
    known = device_comparison.read()
    if known is None:
        assert device_comparison.status() == "simulated only"
        assert device_comparison.read_reasons() == {}, "there is nothing to disagree with"
    else:
        assert known["gpu"] in device_comparison.status()
        assert (
            compare(device_comparison.simulate(), device_comparison.measured(known), device_comparison.read_reasons())
            == []
        )


# ---- the comparison


def test_equal_counts_agree():
    assert compare(SIMULATED, _measured(), {}) == []


def test_a_disagreement_needs_a_reason():
    measured = _measured(waits=2)
    assert disagreements(SIMULATED, measured) == [Disagreement("scalars.item", "waits", 1, 2)]
    said = "scalars.item: waits is 1 on the simulated device, 2 on the GPU: no reason is given"
    assert compare(SIMULATED, measured, {}) == [said]
    assert compare(SIMULATED, measured, {"scalars.item": {"waits": " "}}) == [said]
    assert compare(SIMULATED, measured, {"scalars.item": {"waits": "the driver reads twice"}}) == []


def test_a_reason_holds_for_its_count_only():
    wrong = compare(SIMULATED, _measured(waits=2, error="ValueError"), {"scalars.item": {"waits": "it reads twice"}})
    assert wrong == ["scalars.item: error is  on the simulated device, ValueError on the GPU: no reason is given"]


@pytest.mark.parametrize("name", ["scalars.item", "no.such"])
def test_a_reason_without_a_disagreement_is_wrong(name):
    assert compare(SIMULATED, _measured(), {name: {"waits": "it reads twice"}}) == [
        f"{name}: waits has a reason to differ, and does not"
    ]


def test_only_what_both_have_counted_is_compared():
    measured = {"scalars.item": {"waits": None, "error": ""}, "gone.program": {"waits": 3}}
    assert compare(SIMULATED, measured, {}) == []


def test_every_count_of_a_program_is_compared_but_copies_to_the_host():
    entry = {**dict.fromkeys(programs.COUNTED, 0), "error": "", "debug_mode": 7}
    known = {**GPU, "programs": {"a.b": entry}, "experiments": {}}
    assert device_comparison.measured(known) == {
        "a.b": {"waits": 0, "synchronizations": 0, "staged": 0, "pins": 0, "to_device": 0, "error": ""}
    }


def test_a_program_that_the_simulated_device_refuses_is_not_compared():
    entry = {**dict.fromkeys(programs.COUNTS, 0), "error": ""}
    assert list(device_comparison.simulated_programs({"a.b": entry, "a.c": {**entry, "error": "NotSimulated"}})) == [
        "a.b"
    ]


# ---- what both detectors counted


def _outcome():
    observed = Observed(waits=1, synchronizations=0, staged=0, pins=0, copies={}, astray=0, errors=[])
    return Outcome("a.b", program(waits=1)(print), 7, observed, [])


def test_copies_to_the_device_are_the_profilers():
    profiled = Counter({"cudaStreamSynchronize": 3, "Memcpy HtoD (Pageable -> Device)": 2})
    entry = device_comparison.entry(_outcome(), Step(7, 1, Counter({"read": 1}), profiled))
    assert (entry["waits"], entry["debug_mode"], entry["to_device"], entry["runtime"]) == (1, 1, 2, dict(profiled))
    assert entry["detectors"][0] == "The runtime saw 3 cudaStreamSynchronize per step, the debug mode reported 1."


@pytest.mark.parametrize("step", [None, Step(7, 1, Counter(), None)])
def test_without_a_profile_copies_to_the_device_are_unknown(step):
    entry = device_comparison.entry(_outcome(), step)
    assert (entry["waits"], entry["to_device"], entry["runtime"], entry["detectors"]) == (1, None, None, [])


# ---- the file


def test_status_names_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "folder", lambda: tmp_path)
    assert device_comparison.status() == device_comparison.SIMULATED_ONLY == "simulated only"
    device_comparison.write(tmp_path / device_comparison.NAME, {**GPU, "programs": {}})
    assert device_comparison.read() == {**GPU, "programs": {}}
    assert device_comparison.status() == "held against a GPU with torch 2.11.0 on 2026-01-02"
    assert [path.name for path in tmp_path.iterdir()] == [device_comparison.NAME]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / device_comparison.NAME
    device_comparison.write(path, GPU)
    with pytest.raises(TypeError):
        device_comparison.write(path, {"programs": object()})
    assert json.loads(path.read_text(encoding="utf-8")) == GPU
    assert [each.name for each in tmp_path.iterdir()] == [device_comparison.NAME]


def test_each_part_is_kept_as_it_comes_from_the_same_circumstances(monkeypatch, tmp_path):
    path = tmp_path / device_comparison.NAME
    device_comparison.keep(path, "programs", {"a": {}}, "a GPU")
    device_comparison.keep(path, "experiments", {"c": {}}, "a GPU")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert (kept["programs"], kept["experiments"], kept["gpu"]) == ({"a": {}}, {"c": {}}, "a GPU")
    monkeypatch.setattr(programs, "versions", lambda: {"torch": "2.12.0", "torchmetrics": "1.9.0"})
    device_comparison.keep(path, "programs", {"b": {}}, "a GPU")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert (kept["programs"], kept["experiments"], kept["torch"]) == ({"b": {}}, {}, "2.12.0")


def test_the_workloads_of_a_gpu_are_those_that_the_rules_pages_have(monkeypatch):
    row = Measurement("sum", None, {"unfixed": 2.0, "safe": 0.0}, {"unfixed": 1.0, "safe": 1.0}, "equal")
    devices = {"a GPU": Device("a GPU", "2.11.0", "2026-01-02", {"TPL102": (row,)})}
    monkeypatch.setattr(device_comparison.pages, "measured", lambda: devices)
    counts = {"unfixed waits": 2.0, "safe waits": 0.0, "unfixed staged": 1.0, "safe staged": 1.0}
    assert device_comparison.measured({**GPU, "programs": {}, "experiments": {}}) == {"TPL102 sum": counts}


def test_without_a_gpu_nothing_is_written(tmp_path):
    path = tmp_path / device_comparison.NAME
    code = (
        "import sys, torch; torch.cuda.is_available = lambda: False;"
        "from torchperf_lint.verify import device_comparison; sys.exit(device_comparison.main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", code, "--out", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "agreement: there is no CUDA GPU here; simulated counts are never written\n"
    assert not path.exists()


@pytest.mark.parametrize("gpu", ["a GPU", None])
@pytest.mark.parametrize("named", ["not at all", "from the folder", "whole"])
def test_simulated_counts_are_never_written_as_a_gpus(monkeypatch, capsys, gpu, named):
    monkeypatch.setattr(device_comparison, "gpu_name", lambda: gpu)
    monkeypatch.setattr(device_comparison, "keep", None)
    monkeypatch.chdir(programs.folder())
    out = {"not at all": [], "from the folder": ["--out", "agreement.json"], "whole": ["--out", str(stored())]}[named]
    assert device_comparison.main(["--device", "sim", *out]) == device_comparison.NOT_WRITTEN
    assert "simulated counts are never written" in capsys.readouterr().err


def test_an_installation_is_not_written_into(monkeypatch, capsys):
    monkeypatch.setattr(device_comparison.pages, "in_checkout", lambda: False)
    assert device_comparison.main([]) == 2
    assert capsys.readouterr().err == "agreement: an installation is not written into; name a file with --out\n"


def test_a_simulated_gpu_is_none(tmp_path):
    code = (
        "import sys; from torchperf_lint.verify import simulated, device_comparison, events;"
        "simulated.install(events.Recorder()); import torch; assert torch.cuda.is_available();"
        "sys.exit(device_comparison.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--out", str(tmp_path / "x.json")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert list(tmp_path.iterdir()) == []
