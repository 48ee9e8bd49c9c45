"""torch.distributed with one process."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torchmetrics
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from simulated_cases.harness import assert_same, raises, recorded
from torchperf_lint.verify.simulated import NotSimulated


def trained(wrap):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 1)).cuda()
    wrapped = wrap(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(6, 4).cuda()
        with recorded() as events:
            optimizer.zero_grad()
            wrapped(x).square().mean().backward()
            optimizer.step()
    return [p.detach() for p in model.parameters()], events


def check_everything_in_one_group() -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    with raises(NotSimulated, "2 processes"):
        dist.init_process_group("nccl", rank=0, world_size=2)
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda", 0))
    try:
        assert dist.get_world_size() == 1
        plain, _ = trained(lambda model: model)
        parallel, events = trained(lambda model: DistributedDataParallel(model, device_ids=[0]))
        assert_same(parallel, plain)
        assert not events, events
        x = torch.ones(3, device="cuda")
        with recorded() as events:
            dist.all_reduce(x)
            dist.broadcast(x, 0)
            gathered = [torch.zeros_like(x)]
            dist.all_gather(gathered, x)
            work = dist.all_reduce(x, async_op=True)
            work.wait()
        assert not events, events
        assert_same(gathered[0], torch.ones(3))
        dist.barrier()
        for program in (
            lambda: dist.all_reduce(torch.ones(3)),
            lambda: dist.all_gather([torch.ones(3)], torch.ones(3)),
            lambda: dist.broadcast(torch.ones(3), 0),
        ):
            with raises(RuntimeError, "No backend type associated with device type cpu"):
                program()
        metric = torchmetrics.MeanMetric(distributed_available_fn=lambda: True)
        metric.update(1.0)
        with raises(RuntimeError, "No backend type associated with device type cpu"):
            metric.compute()
    finally:
        dist.destroy_process_group()
