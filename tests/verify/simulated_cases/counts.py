"""What each small program makes the host wait for, and what it copies."""

from __future__ import annotations

import collections
import copy
import io
import math
import pickle

import numpy as np
import torch
from torch.distributions import Categorical, Normal
from torch.nn import functional

from simulated_cases import harness
from torchperf_lint.verify.simulated.releases import NUMBERS_ARE_FILLED_IN

NUMBER = "" if NUMBERS_ARE_FILLED_IN else "to device"

# Program: its events. A copy that neither waits nor goes through pageable memory is "free".
PROGRAMS = {
    # reads
    "s.item()": "read",
    "float(s)": "read",
    "int(b[0])": "read",
    "bool(cond)": "read",
    "cond and cond": "read",
    "if cond: pass": "read",
    "x.tolist()": "to host",
    "for each in b: int(each)": "3 read",
    "f'{s:.3f}'": "read",
    "repr(s)": "8 read",
    "repr(x)": "20 read, 2 to host",
    "x.max().item()": "read",
    "assert (x >= 0).all()": "read",
    "max(s, s)": "read",
    "sorted([s, s])": "read",
    "s in [s + 1, s + 2]": "2 read",
    "math.sqrt(s)": "read",
    "range(b[0])": "read",
    "torch.arange(b[0], device='cuda')": "read",
    "x.view(int(b[1]), -1)": "read",
    "x[:b[0]]": "read",
    "3.0 in x": "read",
    "torch.add(x, x, alpha=s)": "read",
    "torch.tensor([s, s])": "2 read",
    "torch.equal(x, x + 1)": "read",
    "torch.equal(x, x)": "",
    "torch.allclose(x, x)": "read",
    # not reads
    "len(x), x.shape, x.numel(), x.dtype": "",
    "[each.detach() for each in (s, s)]": "",
    "sum([s, s])": "",
    "x ** s": "",
    "torch.clamp(x, max=s)": "",
    "torch.stack([s, s])": "",
    "x * 2": "",
    "x + torch.tensor(2.0)": "",
    "x.topk(2), x.sort()": "",
    "torch.linspace(0, 1, 5, device='cuda')": "",
    "torch.randperm(8, device='cuda')": "",
    # sizes that are values
    "x.nonzero()": "read",
    "torch.where(m)": "read",
    "torch.where(m, x, x)": "",
    "torch.where(m, x, 0.0)": "",
    "torch.where(m, x, torch.tensor(0.0))": "to device",
    "torch.where(m, torch.tensor(1.0), torch.tensor(0.0))": "2 to device",
    "x.masked_select(m)": "read",
    "torch.unique(b)": "read",
    "torch.bincount(b)": "2 read",
    "torch.bincount(b, minlength=8)": "2 read",
    "torch.repeat_interleave(b, b)": "2 read",
    "torch.repeat_interleave(b, b, output_size=5)": "",
    "functional.one_hot(b)": "read",
    "functional.one_hot(b, 4)": "",
    "torch.histc(x)": "2 read",
    "torch.histc(x, 10, 0.0, 5.0)": "",
    "torch.multinomial(torch.ones(4, device='cuda'), 1)": "",
    # indexing
    "x[m]": "read",
    "x[m] = 0.0": "",
    "x[m] = x[m]": "2 read",
    "x[m] += 1": "2 read",
    "x[m] = s": "read",
    "x.masked_fill_(m, 0.0)": "",
    "x.masked_fill_(m, s)": "read",
    "x[cpu_index]": "to device",
    "x[cuda_index]": "",
    "x[[0, 1]]": "to device",
    "x[b[0] - 1]": "read",
    "x[torch.tensor([True, False])]": "to device free",
    "x[0] = 1.0": "",
    "x[0] = torch.tensor(1.0)": "",
    "x[0:1] = 0.0": "",
    "x[0, 0] = 0.0": NUMBER,
    "x[cuda_index] = 0.0": NUMBER,
    "x[b[0] - 1, 0] = 0.0": "" if NUMBERS_ARE_FILLED_IN else "read, to device",
    "x[b[0] - 1] = s": "" if NUMBERS_ARE_FILLED_IN else "read",
    "x[b[0] - 1] = x[0]": "read",
    # construction
    "torch.tensor(1.0, device='cuda')": "to device",
    "torch.as_tensor([1, 2], device='cuda')": "to device",
    "torch.full((), 1.0, device='cuda')": "",
    "torch.zeros(3, device='cuda')": "",
    "torch.zeros(3).to('cuda')": "to device",
    "x.new_tensor([1.0])": "to device",
    "x.new_zeros(3)": "",
    # copies
    "cpu.cuda()": "to device",
    "cpu.cuda(non_blocking=True)": "to device staged",
    "pinned.cuda()": "to device",
    "pinned.cuda(non_blocking=True)": "to device free",
    "cpu.pin_memory().cuda(non_blocking=True)": "pin, to device free",
    "big.copy_(pinned, non_blocking=True)": "to device free",
    "pinned.to('cuda', torch.float16, non_blocking=True)": "to device free",
    "pinned.view(32, 32).t().to('cuda', non_blocking=True)": "to device free",
    "pinned[::2].to('cuda', non_blocking=True)": "to device staged",
    "x.cpu()": "to host",
    "x.cpu().numpy()": "to host",
    "np.asarray(x.cpu())": "to host",
    "big.to('cpu', non_blocking=True)": "to host free",
    "pinned.copy_(big, non_blocking=True)": "to host free",
    "cpu.copy_(big, non_blocking=True)": "to host staged",
    "x.to('cuda')": "",
    "torch.empty(0).cuda()": "",
    "x.half()": "",
    "pickle.dumps(x)": "to host",
    "torch.save(linear.state_dict(), io.BytesIO())": "2 to host",
    "copy.deepcopy(linear)": "",
    # waits that are asked for
    "torch.cuda.synchronize()": "synchronize",
    "torch.accelerator.synchronize()": "synchronize",
    "torch.cuda.Event().synchronize()": "synchronize",
    "torch.cuda.current_stream().synchronize()": "synchronize",
    # libraries
    "x.clone().requires_grad_().prod().backward()": "read",
    "Normal(x, x.abs() + 1).log_prob(x)": "3 read",
    "Categorical(x.abs() + 1)": "read",
    "torch.normal(0.0, s.abs())": "2 read",
    "torch.normal(0.0, s.abs(), out=torch.empty((), device='cuda'))": "read",
    "torch.linalg.inv(torch.eye(3, device='cuda'))": "read",
    "torch.linalg.inv_ex(torch.eye(3, device='cuda'))": "",
    "bn(x)": "read",
    "averaged.update_parameters(linear)": "read, to device",
    "plateau.step(s)": "read",
    "torch.nn.utils.clip_grad_norm_(linear.parameters(), 1.0)": "",
    "torch.nn.utils.clip_grad_norm_(linear.parameters(), 1.0, error_if_nonfinite=True)": "read",
}


def names() -> dict[str, object]:
    linear = torch.nn.Linear(3, 2).cuda()
    averaged = torch.optim.swa_utils.AveragedModel(linear)
    averaged.update_parameters(linear)
    optimizer = torch.optim.SGD(linear.parameters(), 0.1)
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    s = torch.tensor(3.0, device="cuda")
    cpu_index = torch.tensor([0, 1])
    linear(x).sum().backward()
    return {
        "copy": copy,
        "functional": functional,
        "io": io,
        "math": math,
        "np": np,
        "pickle": pickle,
        "torch": torch,
        "Categorical": Categorical,
        "Normal": Normal,
        "linear": linear,
        "averaged": averaged,
        "bn": torch.nn.BatchNorm1d(3, momentum=None).cuda(),
        "plateau": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
        "x": x,
        "s": s,
        "m": x > 2,
        "cond": s > 1,
        "b": torch.tensor([1, 2, 2], device="cuda"),
        "cpu_index": cpu_index,
        "cuda_index": cpu_index.cuda(),
        "cpu": torch.ones(1024),
        "pinned": torch.ones(1024).pin_memory(),
        "big": torch.ones(1024, device="cuda"),
    }


def check_every_program() -> None:
    wrong = {}
    for program, expected in PROGRAMS.items():
        space = names()
        code = compile(program, "program.py", "exec")
        with harness.recorded() as events:
            exec(code, space)
        found = summary(events)
        if found != expected:
            wrong[program] = f"{found!r}, not {expected!r}"
        for event in events:
            if event.where != ("program.py", 1):
                wrong[program] = f"blames {event.where}"
    assert not wrong, wrong


def summary(events) -> str:
    counts = collections.Counter(map(describe, events))
    return ", ".join(text if count == 1 else f"{count} {text}" for text, count in sorted(counts.items()))


def describe(event) -> str:
    if event.staged:
        return f"{event.kind.value} staged"
    copied = event.kind.value in ("to host", "to device")
    assert event.waits or copied or event.kind.value == "pin"
    return event.kind.value if event.waits or not copied else f"{event.kind.value} free"
