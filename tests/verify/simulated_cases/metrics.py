"""Waits inside torchmetrics, at the lines that cause them."""

from __future__ import annotations

import torch
import torchmetrics
from torchmetrics import classification

from simulated_cases.harness import assert_same, on_both, recorded
from torchperf_lint.verify.events import Kind

# Metric, its input: waits of one update. From the source of torchmetrics 1.9.
UPDATES = {
    ("MeanMetric()", "loss"): "2 read",
    ("MeanMetric(nan_strategy='disable')", "loss"): "",
    ("MeanMetric()", "number"): "2 read, 1 to device",
    ("MeanMetric()", "host"): "",
    ("SumMetric()", "loss"): "2 read",
    ("MaxMetric(nan_strategy='disable')", "loss"): "",
    ("CatMetric()", "loss"): "2 read",
    ("Accuracy(task='multiclass', num_classes=5)", "scores"): "",
    ("F1Score(task='multiclass', num_classes=5)", "scores"): "",
    ("classification.MulticlassAccuracy(5)", "scores"): "2 read",
    ("classification.MulticlassAccuracy(5)", "classes"): "4 read",
    ("classification.MulticlassAccuracy(5, validate_args=False)", "classes"): "2 read",
    ("classification.BinaryAccuracy()", "binary"): "2 read",
    ("classification.BinaryAccuracy(validate_args=False)", "binary"): "",
    ("classification.MulticlassConfusionMatrix(5)", "scores"): "2 read",
    ("classification.MulticlassAUROC(5)", "scores"): "1 read",
    ("MeanSquaredError()", "regression"): "",
    ("PearsonCorrCoef()", "regression"): "",
}


def inputs(kind: str):
    torch.manual_seed(0)
    scores, labels = torch.randn(8, 5).softmax(1).cuda(), torch.randint(5, (8,)).cuda()
    return {
        "loss": (torch.tensor(0.5, device="cuda"),),
        "number": (0.5,),
        "host": (torch.tensor(0.5),),
        "scores": (scores, labels),
        "classes": (labels, labels),
        "binary": (scores[:, 0], (labels > 2).int()),
        "regression": (scores[:, 0], scores[:, 1]),
    }[kind]


def check_waits_of_updates() -> None:
    wrong = {}
    space = vars(torchmetrics) | {"classification": classification}
    for (text, kind), expected in UPDATES.items():
        metric = eval(text, dict(space)).to("cuda") if kind != "host" else eval(text, dict(space))
        arguments = inputs(kind)
        metric.update(*arguments)
        with recorded() as events:
            metric.update(*arguments)
        found = [event.kind for event in events if event.waits]
        shown = ", ".join(f"{found.count(each)} {each.value}" for each in (Kind.READ, Kind.TO_DEVICE) if each in found)
        if shown != expected or any(event.via is None or "torchmetrics" not in event.via.file for event in events):
            wrong[text, kind] = f"{shown!r}, not {expected!r}: {events}"
        metric.compute()
    assert not wrong, wrong


def check_lines() -> None:
    metric = torchmetrics.MeanMetric().to("cuda")
    loss = torch.tensor(1.0, device="cuda")
    with recorded() as events:
        metric.update(loss)
    assert {event.where for event in events} == {(__file__, check_lines.__code__.co_firstlineno + 4)}
    assert {event.via.file.rpartition("/")[2] for event in events} == {"aggregation.py"}


def check_values() -> None:
    def run(device):
        torch.manual_seed(0)
        scores, labels = torch.randn(32, 5).softmax(1), torch.randint(5, (32,))
        metrics = torchmetrics.MetricCollection(
            {
                "accuracy": classification.MulticlassAccuracy(5),
                "auroc": classification.MulticlassAUROC(5),
                "f1": classification.MulticlassF1Score(5, average="macro"),
                "matrix": classification.MulticlassConfusionMatrix(5),
                "calibration": classification.MulticlassCalibrationError(5),
            }
        ).to(device)
        for part in range(0, 32, 8):
            metrics.update(scores[part : part + 8].to(device), labels[part : part + 8].to(device))
        mean = torchmetrics.MeanMetric().to(device)
        mean(scores.mean().to(device))
        return metrics.compute(), mean.compute(), mean.state_dict()

    on_both(run, within=1e-6)


def check_a_metric_in_a_module() -> None:
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.metric = torchmetrics.SumMetric(nan_strategy="disable")

    model = Model().cuda()
    model.metric.update(torch.ones(3, device="cuda"))
    assert model.metric.device == torch.device("cuda", 0)
    assert_same(model.metric.compute(), torch.tensor(3.0))
    model.metric.reset()
    assert model.metric.compute().is_cuda
