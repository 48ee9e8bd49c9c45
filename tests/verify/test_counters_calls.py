"""Watched calls and the debug mode note, line by line, what the simulated device notes of itself."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter

import pytest
import torch

from torchperf_lint.verify.counters import calls
from torchperf_lint.verify.counters.debug_mode import Claim
from torchperf_lint.verify.events import Event, Kind, Recorder

PROGRAM = """
import json, sys, threading, warnings
from torchperf_lint.verify import simulated
from torchperf_lint.verify.events import Recorder

truth, ours = Recorder(), Recorder()
simulated.install(truth)
import torch
from torchperf_lint.verify.counters.session import Watch

watch = Watch(ours)
watch.start()
host, pinned = torch.ones(4, 4), torch.ones(4, 4).pin_memory()
device = torch.ones(4, 4, device="cuda")
scalar = device.sum()

def from_a_thread():
    host.to("cuda", non_blocking=True)

class Copying(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.cpu().cuda()

for step in range(3):
    for recorder in (truth, ours):
        recorder.begin_step(0)
    warnings.simplefilter("ignore")
    # calls
    host.cuda()
    host.to("cuda", non_blocking=True)
    host.to("cuda", torch.float16, True)
    host.cuda(0, True)
    pinned.cuda()
    pinned.cuda(non_blocking=True)
    pinned[:, :2].to("cuda", non_blocking=True)
    pinned.t().to("cuda", non_blocking=True)
    pinned.t().to("cuda", torch.float16, non_blocking=True)
    device.cpu()
    device.to("cpu", non_blocking=True)
    device.tolist()
    device.numpy(force=True)
    host.copy_(device)
    host.copy_(device, True)
    device.copy_(host, non_blocking=True)
    device.copy_(pinned, True)
    torch.tensor(1.0, device="cuda")
    torch.as_tensor([1.0], device="cuda")
    torch.as_tensor(host, device="cuda")
    device.new_tensor([1.0])
    device.type("torch.FloatTensor")
    host.pin_memory()
    pinned.pin_memory()
    torch.cuda.synchronize()
    torch.cuda.Event().synchronize()
    torch.cuda.current_stream().synchronize()
    scalar.item()
    bool(scalar > 0), float(scalar)
    torch.tensor([scalar, scalar])
    torch.tensor([scalar, 1.0], device="cuda")
    device[device > 0]
    device[0, 0] = 1.0
    device[[0, 1]]
    torch.nn.Linear(2, 2).to("cuda")
    device.to("cuda"), device.half(), host.to(torch.float64), host.cpu(), device.type(), host.tolist()
    thread = threading.Thread(target=from_a_thread); thread.start(); thread.join()
    Copying.apply(device.clone().requires_grad_()).sum().backward()
for recorder in (truth, ours):
    recorder.go_to(None)
kept = watch.stop()
host.cuda()
print(json.dumps({
    "truth": [each.as_json() for each in truth.events],
    "ours": [each.as_json() for each in ours.events],
    "reported": {step: count for step, count in watch.debug_mode.reported.items() if step is not None},
    "kept": kept,
}))
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """What the simulated device noted of the program, and what the watched calls and the debug mode made of it."""
    script = tmp_path_factory.mktemp("counters") / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return {
        **report,
        "truth": [Event.from_json(each) for each in report["truth"]],
        "ours": [Event.from_json(each) for each in report["ours"]],
    }


def in_steps(events):
    return [each for each in events if each.step is not None]


def what_matters(events, *, reads_alone=False):
    """The events by line. A wait that no call explains is a read for us, even if the device knows it for a copy."""
    return sorted(
        (each.step, each.where.row, each.waits, each.in_debug_mode, each.staged, each.kind is Kind.SYNCHRONIZE)
        for each in events
    )


def lines(text):
    return [row for row, line in enumerate(PROGRAM.splitlines(), 1) if line.strip() == text]


def test_watched_calls_note_the_waits_and_staged_copies_that_the_device_knows_of(simulated):
    truth = what_matters(in_steps(simulated["truth"]))
    assert what_matters(in_steps(simulated["ours"])) == truth
    assert len(truth) > 3 * 40


UNNAMED_COPIES = ("device[0, 0] = 1.0", "device[[0, 1]]")


def test_watched_calls_know_which_way_a_copy_goes_and_from_which_memory(simulated):
    def copies(events):
        unnamed = [row for text in UNNAMED_COPIES for row in lines(text)]
        return sorted(
            (each.step, each.where.row, each.kind.value, each.pinned, each.asynchronous, each.waits)
            for each in in_steps(events)
            if each.kind is not Kind.READ and each.where.row not in unnamed
        )

    assert copies(simulated["ours"]) == copies(simulated["truth"])


@pytest.mark.parametrize(
    ("line", "kind", "waits", "pinned", "asynchronous"),
    [
        ("host.cuda()", Kind.TO_DEVICE, True, False, False),
        ('host.to("cuda", non_blocking=True)', Kind.TO_DEVICE, False, False, True),
        ('host.to("cuda", torch.float16, True)', Kind.TO_DEVICE, False, False, True),
        ("host.cuda(0, True)", Kind.TO_DEVICE, False, False, True),
        ("pinned.cuda()", Kind.TO_DEVICE, True, True, False),
        ("pinned.cuda(non_blocking=True)", Kind.TO_DEVICE, False, True, True),
        ('pinned[:, :2].to("cuda", non_blocking=True)', Kind.TO_DEVICE, False, False, True),
        ("device.cpu()", Kind.TO_HOST, True, False, False),
        ('device.to("cpu", non_blocking=True)', Kind.TO_HOST, False, True, True),
        ("host.copy_(device, True)", Kind.TO_HOST, False, False, True),
        ('torch.tensor(1.0, device="cuda")', Kind.TO_DEVICE, True, False, False),
        ("scalar.item()", Kind.READ, True, False, False),
        ("torch.cuda.current_stream().synchronize()", Kind.SYNCHRONIZE, True, False, False),
        ("host.pin_memory()", Kind.PIN, False, True, False),
    ],
)
def test_one_call_is_one_event(simulated, line, kind, waits, pinned, asynchronous):
    calls_of_steps = PROGRAM.splitlines().index("    # calls")
    row = next(each for each in lines(line) if each > calls_of_steps)
    found = [each for each in simulated["ours"] if each.where.row == row]
    assert [each[:1] + each[5:6] + each[7:] for each in found] == [(kind, waits, pinned, asynchronous)] * 3


def test_what_does_not_cross_is_no_event(simulated):
    quiet = lines('device.to("cuda"), device.half(), host.to(torch.float64), host.cpu(), device.type(), host.tolist()')
    quiet += lines("pinned.pin_memory()")
    assert len(quiet) == 2
    assert not [each for each in simulated["ours"] if each.where.row in quiet]


def test_the_debug_modes_own_count_is_that_of_the_waits_it_can_see(simulated):
    seen = Counter(str(each.step) for each in in_steps(simulated["truth"]) if each.in_debug_mode)
    assert simulated["reported"] == seen
    assert simulated["kept"] is True


def test_nothing_is_noted_after_the_end(simulated):
    after = lines("host.cuda()")[-1]
    assert simulated["truth"][-1].where.row == after
    assert all(each.where.row < after for each in simulated["ours"])


def on_meta(*size, dtype=torch.float32):
    """Stands in for a tensor on the device: it has a shape, a layout and a type."""
    return torch.empty(*size, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("host", "device", "asynchronous", "in_place", "nbytes"),
    [
        (torch.ones(4, 4), on_meta(4, 4), False, True, 64),
        (torch.ones(4, 4).t(), on_meta(4, 4).t(), True, True, 64),
        (torch.ones(4, 4).t(), on_meta(4, 4), True, False, 64),
        (torch.ones(4, 8)[:, :4], on_meta(4, 4), True, False, 64),
        (torch.ones(4), on_meta(4, 4), True, False, 64),  # broadcast
        (torch.ones(4, 4), on_meta(4, 4, dtype=torch.float16), True, True, 64),  # the device makes it half
        (torch.ones(4, 4), on_meta(4, 4, dtype=torch.float16), False, False, 32),  # the host does
        (torch.ones(4, 1).expand(4, 4), on_meta(4, 4), True, False, 64),
        (torch.ones(2, 2).to_sparse(), on_meta(2, 2), True, False, 16),
        (torch.ones(1, 4, 1), on_meta(1, 4, 1), True, True, 16),
    ],
)
def test_how_a_copy_uses_the_memory_of_the_host(host, device, asynchronous, in_place, nbytes):
    assert calls.used_in_place(host, device, asynchronous) is in_place
    assert calls.transferred(host, device, asynchronous) == nbytes


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated:DeprecationWarning")
def test_the_size_of_a_copy_is_a_number_while_the_program_is_traced():
    sizes = []

    def forward(x):
        sizes.append(calls.transferred(None, x, False))
        return x + 1

    torch.jit.trace(forward, torch.ones(3), check_trace=False)
    assert sizes == [12]
    assert type(sizes[0]) is int


@pytest.mark.parametrize(
    ("tensor", "dense"),
    [
        (torch.ones(2, 3, 4).permute(2, 0, 1), True),
        (torch.ones(2, 3, 4).contiguous()[:, :, :2], False),
        (torch.ones(1).expand(3), False),
        (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), True),
        (torch.tensor(1.0), True),
    ],
)
def test_density(tensor, dense):
    assert calls.dense(tensor) is dense


# ---- on this machine, without a device


class _Silent:
    """A debug mode that hears nothing."""

    claimed = False

    @contextlib.contextmanager
    def claim(self, operator):
        yield Claim()


@pytest.fixture
def watched():
    recorder = Recorder()
    watching = calls.Calls(recorder, _Silent())
    watching.start()
    yield recorder
    watching.stop()


def doubled(x):
    return torch.as_tensor(2.0).to(x.dtype) * torch.tensor(1.0) * x


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_scripts_compile_what_is_watched(watched):
    assert torch.jit.script(doubled)(torch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_modules_without_their_sizes_can_be_moved_while_watched(watched):
    assert torch.nn.LazyLinear(2).to("cpu")(torch.ones(1, 3)).shape == (1, 2)


@pytest.mark.parametrize(("before", "after", "waits"), [(4096, 2048, 1), (4096, 4096, 0)])
def test_memory_that_is_handed_back_is_a_wait(monkeypatch, before, after, waits):
    reserved = iter((before, after))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: next(reserved))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    recorder = Recorder()
    watching = calls.Calls(recorder, _Silent())
    watching.start()
    torch.cuda.empty_cache()
    watching.stop()
    assert [(each.kind, each.operator, each.waits) for each in recorder.events] == [
        (Kind.SYNCHRONIZE, "torch.cuda.empty_cache", True)
    ] * waits
