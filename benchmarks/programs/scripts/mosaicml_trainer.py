"""An image classifier trained by composer's Trainer with algorithms that speed training up, as its README shows."""

import torch
from composer import Trainer
from composer.algorithms import ChannelsLast, CutMix, GradientClipping, LabelSmoothing
from composer.callbacks import LRMonitor, OptimizerMonitor
from composer.loggers import InMemoryLogger
from composer.models import ComposerClassifier
from composer.utils import reproducibility
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

reproducibility.seed_all(0)
labels = torch.randint(0, 3, (96,))
images = torch.randn(96, 3, 16, 16) + labels[:, None, None, None]
train_dataloader = DataLoader(TensorDataset(images[:64], labels[:64]), batch_size=8, shuffle=True)
eval_dataloader = DataLoader(TensorDataset(images[64:], labels[64:]), batch_size=8)
module = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(8, 3),
)
model = ComposerClassifier(module, num_classes=3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
logger = InMemoryLogger()
trainer = Trainer(
    model=model,
    train_dataloader=train_dataloader,
    eval_dataloader=eval_dataloader,
    max_duration="2ep",
    optimizers=optimizer,
    algorithms=[LabelSmoothing(0.1), CutMix(alpha=1.0), ChannelsLast(), GradientClipping("norm", 1.0)],
    callbacks=[LRMonitor(), OptimizerMonitor()],
    loggers=[logger],
    device="gpu",
    seed=0,
    progress_bar=False,
)
trainer.fit()
losses = [value for _, value in logger.data["loss/train/total"]]
metrics = {name: value.compute() for name, value in trainer.state.eval_metrics["eval"].items()}
results = {"losses": losses, "metrics": metrics, "state": dict(model.state_dict())}
