"""An image classifier trained and validated by mmengine's Runner, as its documentation shows."""

import torch
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Classifier(BaseModel):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.head = nn.Linear(8, 3)

    def forward(self, imgs, labels, mode):
        x = self.head(self.net(imgs))
        if mode == "loss":
            return {"loss": functional.cross_entropy(x, labels)}
        return x, labels


class Accuracy(BaseMetric):
    def process(self, data_batch, data_samples):
        score, gt = data_samples
        self.results.append({"batch_size": len(gt), "correct": (score.argmax(dim=1) == gt).sum().cpu()})

    def compute_metrics(self, results):
        total_correct = sum(item["correct"] for item in results)
        total_size = sum(item["batch_size"] for item in results)
        return {"accuracy": 100 * total_correct / total_size}


torch.manual_seed(0)
labels = torch.randint(0, 3, (96,))
images = torch.randn(96, 3, 16, 16) + labels[:, None, None, None]
train_dataloader = DataLoader(TensorDataset(images[:64], labels[:64]), batch_size=8, shuffle=True)
val_dataloader = DataLoader(TensorDataset(images[64:], labels[64:]), batch_size=8)
runner = Runner(
    model=Classifier(),
    work_dir="./work_dir",
    log_level="ERROR",
    train_dataloader=train_dataloader,
    optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.01, "momentum": 0.9}, "clip_grad": {"max_norm": 1.0}},
    param_scheduler={"type": "MultiStepLR", "milestones": [1], "by_epoch": True},
    train_cfg={"by_epoch": True, "max_epochs": 2, "val_interval": 1},
    val_dataloader=val_dataloader,
    val_cfg={},
    val_evaluator={"type": Accuracy},
    custom_hooks=[{"type": "EMAHook"}],
    default_hooks={"logger": {"type": "LoggerHook", "interval": 4}},
    randomness={"seed": 0},
)
model = runner.train()
metrics = runner.val()
results = {"metrics": {name: float(value) for name, value in metrics.items()}, "state": dict(model.state_dict())}
