"""Pinned memory, loaders, threads, forks, streams and the other ways in and out of the device."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from simulated_cases.harness import assert_same, raises, recorded, recorder
from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated import NotSimulated, pending


class Pair(NamedTuple):
    x: torch.Tensor
    y: str


class Touching(Dataset):
    """A dataset whose items use the device."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.ones(2).cuda()


class Guarded(Dataset):
    """A dataset that uses the device only where that is possible."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.tensor([float(torch.cuda.is_initialized()), torch.initial_seed() % 97])


def check_where_tensors_are() -> None:
    x = torch.ones(2, 2, device="cuda")
    assert x.device == torch.device("cuda", 0)
    assert (x.is_cuda, x.get_device(), x.is_cpu, x.is_pinned()) == (True, 0, False, False)
    assert str(x.device) == "cuda:0"
    assert x.type() == "torch.cuda.FloatTensor"
    assert repr(x[0]) == "tensor([1., 1.], device='cuda:0')"
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
    for made in (
        x.cpu().cuda(),
        x.cpu().to("cuda"),
        x.cpu().to("cuda:0"),
        x.cpu().to(0),
        x.cpu().to(torch.device("cuda")),
        x.cpu().to(x),
        x.cpu().to(device="cuda", dtype=torch.float64),
        x.cpu().type("torch.cuda.LongTensor"),
        torch.zeros_like(x.cpu(), device="cuda"),
        x.new_zeros(3),
        torch.cuda.FloatTensor(2, 3),
        torch.cuda.LongTensor([1, 2]),
        torch.from_numpy(np.ones(3)).cuda(),
        torch.asarray([1.0], device="cuda"),
        nn.Linear(2, 2, device="cuda").weight,
        nn.Parameter(torch.ones(2)).cuda(),
    ):
        assert made.is_cuda
    assert x.to("cpu").device == torch.device("cpu")
    assert torch.ones(2).to(x.device).is_cuda
    assert torch.ones(2, device=x.device).is_cuda


def check_default_devices() -> None:
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
        assert torch.tensor([1.0]).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda
        assert torch.get_default_device() == torch.device("cuda", 0)
    assert torch.ones(2).device.type == "cpu"
    torch.set_default_device("cuda")
    try:
        assert torch.arange(3).is_cuda
        assert torch.as_tensor([1]).is_cuda
        assert torch.ones(2, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device("cpu")
        torch.set_default_device(None)
    assert torch.arange(3).device.type == "cpu"


def check_pinning() -> None:
    x = torch.ones(4)
    with recorded() as events:
        pinned = x.pin_memory()
        again = pinned.pin_memory()
    assert [event.kind for event in events] == [Kind.PIN]
    assert events[0].nbytes == 16
    assert not events[0].waits
    assert again is pinned
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert not x.is_pinned()
    assert not (pinned + 1).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.zeros_like(x, pin_memory=True).is_pinned()
    assert torch.tensor([1.0], pin_memory=True).is_pinned()
    assert pinned.cuda().cpu().is_pinned() is False
    assert pinned.cuda().to("cpu", non_blocking=True).is_pinned()
    assert nn.utils.rnn.pack_sequence([x]).pin_memory().is_pinned()
    with raises(RuntimeError, "pinned"):
        torch.empty(3, device="cuda", pin_memory=True)


def check_pinned_memory_is_forgotten() -> None:
    for _ in range(50):
        torch.ones(1000).pin_memory()
    assert not any(torch.ones(1000).is_pinned() for _ in range(50))


def check_loaders_pin() -> None:
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for workers in (0, 2):
        with recorded() as events:
            batches = list(DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers))
        assert all(each.is_pinned() for batch in batches for each in batch)
        assert_same(torch.cat([y for _, y in batches]), torch.arange(6))
        assert [event.kind for event in events] == [Kind.PIN] * 6
        with recorded() as events:
            for x, y in batches:
                x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        assert not any(event.waits or event.staged for event in events)
    assert not next(iter(DataLoader(data, batch_size=2)))[0].is_pinned()


def check_loaders_pin_structures() -> None:
    def collate(items):
        return {"pair": Pair(torch.stack([x for x, _ in items]), "text"), "list": [torch.ones(1)]}

    data = TensorDataset(torch.ones(2, 2), torch.arange(2))
    batch = next(iter(DataLoader(data, batch_size=2, pin_memory=True, collate_fn=collate)))
    assert batch["pair"].x.is_pinned()
    assert batch["pair"].y == "text"
    assert batch["list"][0].is_pinned()


def check_forked_workers_lose_the_device() -> None:
    torch.ones(1, device="cuda")
    with raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess"):
        list(DataLoader(Touching(), num_workers=1, multiprocessing_context="fork"))
    seen = torch.stack(list(DataLoader(Guarded(), batch_size=None, num_workers=1, multiprocessing_context="fork")))
    assert seen[:, 0].tolist() == [0.0] * 4


def check_a_forked_process_may_ask() -> None:
    torch.ones(1, device="cuda")
    queue = multiprocessing.get_context("fork").SimpleQueue()

    def child() -> None:
        torch.manual_seed(1)
        queue.put((torch.cuda.is_available(), torch.cuda._is_in_bad_fork()))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert queue.get() == (True, True)


def check_threads() -> None:
    results = []

    def work() -> None:
        x = torch.ones(3, device="cuda", requires_grad=True)
        (x * 2).sum().backward()
        results.append(x.grad.sum().item())

    with recorded() as events:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert results == [6.0] * 4
    assert [event.kind for event in events] == [Kind.READ] * 4


def check_waits_inside_backward() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: bool(gradient.sum().item()) and None)
    with recorded() as events:
        y.sum().backward()
    assert [event.kind for event in events] == [Kind.READ]
    assert events[0].where.file == __file__
    assert events[0].where.row == check_waits_inside_backward.__code__.co_firstlineno + 3


def check_streams_and_events() -> None:
    side = torch.cuda.Stream()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with recorded() as events:
        begin.record()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            assert torch.cuda.current_stream() is side
            x = torch.ones(3, device="cuda") * 2
            x.record_stream(side)
        assert torch.cuda.current_stream() is torch.cuda.default_stream()
        torch.cuda.current_stream().wait_stream(side)
        end.record()
        assert end.query()
        assert side.query()
    assert not events
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.isnan(begin.elapsed_time(end))
    assert "no time" in str(caught[0].message)
    with raises(ValueError, "enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def check_the_debug_mode() -> None:
    x = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    try:
        assert torch.cuda.get_sync_debug_mode() == 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x.sum().item()
            x.cpu()
            torch.ones(3).to("cuda", non_blocking=True)
            torch.cuda.synchronize()
            x[x > 0]
        assert [str(each.message) for each in caught] == ["called a synchronizing CUDA operation"] * 3
        first = check_the_debug_mode.__code__.co_firstlineno
        assert [each.lineno - first for each in caught] == [7, 8, 11]
        assert {each.filename for each in caught} == {__file__}
        torch.cuda.set_sync_debug_mode(2)
        with raises(RuntimeError, "called a synchronizing CUDA operation"):
            x.sum().item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.get_sync_debug_mode() == 0
    with raises(RuntimeError, "invalid value of debug_mode"):
        torch.cuda.set_sync_debug_mode("loud")


def check_the_recorder_counts_operators() -> None:
    model = nn.Linear(4, 4).cuda()
    x = torch.ones(2, 4, device="cuda")
    recorder.operators.clear()
    recorder.count_operators = True
    model(x).relu().view(-1)[0:2].t()
    recorder.count_operators = False
    assert {name: count for (_, _, name), count in recorder.operators.items()} == {"addmm": 1, "relu": 1}


def check_memory_in_use() -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4000
    view = x[10:]
    assert torch.cuda.memory_allocated() - before == 4000
    del x, view
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + 4000
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] >= before + 4000
    assert torch.cuda.memory_stats()["num_alloc_retries"] == torch.cuda.memory_stats()["num_ooms"] == 0


def check_an_emptied_cache() -> None:
    with recorded() as events:
        torch.cuda.empty_cache()
        large = torch.ones(3 << 20, device="cuda")
        torch.cuda.empty_cache()
    assert not events, "no segment is free"
    del large
    with recorded() as events:
        torch.cuda.empty_cache()
    assert [each.waits and each.kind for each in events] == [Kind.SYNCHRONIZE]
    small = torch.ones(1000, device="cuda")
    del small
    with recorded() as events:
        torch.cuda.empty_cache()
    assert not events, "small blocks share a segment"


def check_ordinary_questions() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.current_device() == 0
    assert "simulated" in torch.cuda.get_device_name()
    assert torch.cuda.get_device_properties("cuda").total_memory > 0
    assert torch.cuda.get_device_capability(0) >= (8, 0)
    assert torch.cuda.is_bf16_supported()
    assert torch.accelerator.is_available()
    assert str(torch.accelerator.current_accelerator()) == "cuda"
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.memory_allocated() >= 0
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(0), torch.cuda.device("cuda:0"), torch.cuda.device_of(torch.ones(1, device="cuda")):
        assert torch.ones(1, device="cuda").is_cuda
    torch.cuda.set_device(0)
    torch.cuda.set_device("cuda:0")
    torch.cuda.init()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    with torch.cuda.nvtx.range("step"):
        torch.cuda.nvtx.range_push("part")
        torch.cuda.nvtx.range_pop()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        q = torch.ones(1, 1, 2, 2, device="cuda")
        nn.functional.scaled_dot_product_attention(q, q, q)


def check_profiler_with_cuda_activity() -> None:
    from torch.profiler import ProfilerActivity, profile, schedule

    x = torch.ones(3, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiler:
        (x * 2).sum().item()
    assert profiler.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    with profile(schedule=schedule(wait=1, warmup=1, active=1)) as profiler:
        for _ in range(4):
            x + 1
            profiler.step()


def _early_writes(run) -> int:
    before = len(pending.overwritten())
    run()
    return len(pending.overwritten()) - before


def check_writes_to_the_source_of_an_asynchronous_copy() -> None:
    pinned, pageable = torch.ones(4, 3).pin_memory(), torch.ones(4, 3)
    shared, target = pinned.numpy(), torch.zeros(4, 3, device="cuda")

    def by_method():
        pinned.cuda(non_blocking=True)
        pinned.mul_(2)

    def by_numpy():
        target.copy_(pinned, non_blocking=True)
        shared[0] += 1

    def to_a_part():
        pinned[1:].to("cuda", torch.float64, non_blocking=True)
        pinned[2, 1] += 1

    def before_the_next_wait():
        pinned.cuda(non_blocking=True)
        pinned.mul_(2)
        torch.cuda.synchronize()

    def behind_an_older_mark():
        event = torch.cuda.Event()
        event.record()
        pinned.cuda(non_blocking=True)
        event.synchronize()
        pinned.mul_(2)

    def at_the_next_step():
        pinned.cuda(non_blocking=True)
        pinned.mul_(2)
        pending.look()
        pinned.div_(2)

    for run in (by_method, by_numpy, to_a_part, before_the_next_wait, behind_an_older_mark, at_the_next_step):
        assert _early_writes(run) == 1, run

    def another_part():
        pinned[1:].cuda(non_blocking=True)
        pinned[0] += 1

    def waiting():
        pinned.cuda()
        pinned.mul_(2)

    def staged():
        pageable.cuda(non_blocking=True)
        pageable.mul_(2)

    def once_it_was_waited_for():
        target.copy_(pinned, non_blocking=True)
        target.sum().item()
        pinned.mul_(2)

    def behind_a_mark():
        pinned.cuda(non_blocking=True)
        event = torch.cuda.current_stream().record_event()
        while not event.query():
            pass
        pinned.mul_(2)

    def to_its_copy():
        pinned.cuda(non_blocking=True).mul_(2)

    def to_a_new_tensor():
        given = torch.ones(4, 3).pin_memory()
        given.cuda(non_blocking=True)
        del given
        torch.zeros(4, 3).pin_memory()

    for run in (another_part, waiting, staged, once_it_was_waited_for, behind_a_mark, to_its_copy, to_a_new_tensor):
        torch.cuda.synchronize()
        assert _early_writes(run) == 0, run


def check_devices_made_of_an_index_are_cuda() -> None:
    made = torch.device(0)
    assert (made, made.type, made.index) == (torch.device("cuda:0"), "cuda", 0)
    assert made == torch.ones(2).cuda().device == torch.ones(2, device=0).device
    assert isinstance(made, torch.device)
    assert type(made) == torch.device  # noqa: E721 - as programs may ask
    assert torch.device("cpu").type == torch.device(made.type, 0).type.replace("cuda", "cpu")
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    with torch.device(0):
        assert torch.ones(2).is_cuda
    assert torch.ones(2).to(torch.device(0)).is_cuda
    with raises(NotSimulated, "a second device"):
        torch.device(1)
