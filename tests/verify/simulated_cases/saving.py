"""Saving, loading and pickling tensors of the device."""

from __future__ import annotations

import io
import pickle
import tempfile
from pathlib import Path

import torch
from torch import nn

from simulated_cases.harness import assert_same, recorded
from torchperf_lint.verify.events import Kind


def saved(value) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def check_where_loaded_tensors_go() -> None:
    x = torch.arange(6.0, device="cuda")
    for location, device in {
        None: "cuda:0",
        "cuda": "cuda:0",
        "cuda:0": "cuda:0",
        torch.device("cuda"): "cuda:0",
        "cpu": "cpu",
        torch.device("cpu"): "cpu",
    }.items():
        loaded = torch.load(saved({"x": x, "n": 3}), map_location=location)
        assert str(loaded["x"].device) == device, location
        assert_same(loaded["x"], x)
    assert torch.load(saved(x), map_location={"cuda:0": "cpu"}).device.type == "cpu"
    assert torch.load(saved(x), map_location=lambda storage, location: storage).device.type == "cpu"
    assert torch.load(saved(x), map_location=lambda storage, location: storage.cuda(0)).is_cuda
    assert torch.load(saved(x.cpu()), map_location="cuda").is_cuda
    assert torch.load(saved(x), weights_only=False).is_cuda


def check_what_saving_and_loading_copy() -> None:
    x = torch.arange(6.0, device="cuda")
    with recorded() as events:
        file = saved([x, x[2:], x.view(2, 3)])
    assert [(event.kind, event.nbytes) for event in events] == [(Kind.TO_HOST, 24)]
    with recorded() as events:
        a, b, c = torch.load(file)
    assert [(event.kind, event.nbytes) for event in events] == [(Kind.TO_DEVICE, 24)]
    b.zero_()
    assert_same(a, torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    assert c.shape == (2, 3)
    file.seek(0)
    with recorded() as events:
        torch.load(file, map_location="cpu")
    assert not events


def check_checkpoints() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.randn(4, 3, device="cuda")).sum().backward()
    optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        checkpoint = torch.load(path, map_location="cuda", weights_only=True)
    other = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).cuda()
    other.load_state_dict(checkpoint["model"])
    again = torch.optim.AdamW(other.parameters(), fused=True)
    again.load_state_dict(checkpoint["optimizer"])
    assert_same(other.state_dict(), model.state_dict())
    assert again.state_dict()["state"][0]["exp_avg"].is_cuda


def check_whole_modules() -> None:
    model = nn.Linear(3, 3).cuda()
    loaded = torch.load(saved(model), weights_only=False)
    assert loaded.weight.is_cuda
    assert type(loaded.weight) is nn.Parameter
    assert_same(loaded.weight, model.weight)


def check_pickling() -> None:
    x = torch.arange(3.0, device="cuda", requires_grad=True)
    with recorded() as events:
        data = pickle.dumps(x)
    assert [event.kind for event in events] == [Kind.TO_HOST]
    again = pickle.loads(data)
    assert again.is_cuda
    assert again.requires_grad
    assert_same(again, x)
    parameter = pickle.loads(pickle.dumps(nn.Parameter(x.detach())))
    assert type(parameter) is nn.Parameter


def check_the_old_format() -> None:
    x = torch.arange(3.0, device="cuda")
    buffer = io.BytesIO()
    torch.save({"x": x}, buffer, _use_new_zipfile_serialization=False)
    for location, expected in ((None, True), ("cpu", False)):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=location)["x"]
        assert loaded.is_cuda is expected
        assert_same(loaded, x)
