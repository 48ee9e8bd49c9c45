"""The types of what is printed and logged, which its text may hide."""

from __future__ import annotations

import builtins
import logging

import numpy
import pytest
import torch

from torchperf_lint.verify.outputs import Outputs, differences, kind_of


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "int"),
        (True, "bool"),
        (1.0, "float"),
        ("text", "str"),
        (torch.ones(2, 3), "Tensor of torch.float32 [2, 3] on cpu"),
        (torch.ones((), requires_grad=True), "Tensor of torch.float32 [] on cpu with a gradient"),
        (torch.nn.Parameter(torch.ones(1).half()), "Parameter of torch.float16 [1] on cpu with a gradient"),
        (numpy.float32(1), "numpy float32 of float32 []"),
        (numpy.ones((2, 1)), "numpy ndarray of float64 [2, 1]"),
        ({"a": 1}, "dict of 1 (str: int)"),
        ((1, [2.0]), "tuple of 2 (int, list of 1 (float))"),
        ([], "list of 0 ()"),
        (object, "type"),
    ],
)
def test_kinds(value, kind):
    assert kind_of(value) == kind


def test_long_containers_are_cut():
    assert kind_of([0] * 1000).count("int") < 100


@pytest.fixture
def outputs(monkeypatch):
    monkeypatch.setattr(builtins, "print", print)
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    outputs = Outputs()
    outputs.watch()
    return outputs


def test_what_is_printed_is_noted_and_shown(outputs, capsys):
    print("loss", torch.tensor(0.5), end=";")
    assert capsys.readouterr().out == "loss tensor(0.5000);"
    assert outputs.handed == {"print": [["str", "Tensor of torch.float32 [] on cpu"]]}


def test_what_is_logged_is_noted_unless_nobody_gets_it(outputs, caplog):
    logger = logging.getLogger("train")
    logger.setLevel(logging.INFO)
    logger.info("loss %.1f", torch.tensor(0.5))
    logger.info("loss %(loss).1f", {"loss": 0.5})
    logger.debug("loss %.1f", 2)
    assert [record.getMessage() for record in caplog.records] == ["loss 0.5"] * 2
    tensor = "Tensor of torch.float32 [] on cpu"
    assert outputs.handed == {"the logger train": [["str", tensor], ["str", "tuple of 2 (str, float)"]]}


def test_differences_are_told_once_for_each_sink():
    before = {"print": [["int"], ["int"], ["int"]], "the logger a": [["str"]]}
    after = {"print": [["int"], ["float"], ["str"]], "the logger b": [["str"]]}
    assert list(differences(before, after)) == [
        "call 2 of print is given float, int before",
        "the logger a is called 0 times, 1 before",
        "the logger b is called 1 times, 0 before",
    ]
    assert list(differences(before, before)) == []
