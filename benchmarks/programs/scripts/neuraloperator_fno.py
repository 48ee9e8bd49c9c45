"""A Fourier neural operator trained by neuraloperator's trainer, as its documentation shows."""

import torch
from neuralop import H1Loss, LpLoss, Trainer
from neuralop.data.transforms.data_processors import DefaultDataProcessor
from neuralop.data.transforms.normalizers import UnitGaussianNormalizer
from neuralop.models import FNO
from neuralop.training import AdamW
from torch.utils.data import DataLoader, Dataset


class Darcy(Dataset):
    """Made-up fields and what a smoothing makes of them."""

    def __init__(self, size, resolution):
        self.x = (torch.rand(size, 1, resolution, resolution) > 0.5).float()
        self.y = torch.nn.functional.avg_pool2d(self.x, 5, stride=1, padding=2)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "y": self.y[index]}


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_set = Darcy(32, 16)
train_loader = DataLoader(train_set, batch_size=4, shuffle=True)
test_loaders = {16: DataLoader(Darcy(8, 16), batch_size=4), 32: DataLoader(Darcy(8, 32), batch_size=4)}
in_normalizer = UnitGaussianNormalizer(dim=[0, 2, 3])
in_normalizer.fit(train_set.x)
out_normalizer = UnitGaussianNormalizer(dim=[0, 2, 3])
out_normalizer.fit(train_set.y)
data_processor = DefaultDataProcessor(in_normalizer=in_normalizer, out_normalizer=out_normalizer).to(device)

model = FNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=12, n_layers=2).to(device)
optimizer = AdamW(model.parameters(), lr=1e-2, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
trainer = Trainer(
    model=model, n_epochs=2, device=device, data_processor=data_processor, wandb_log=False, eval_interval=1
)
metrics = trainer.train(
    train_loader=train_loader,
    test_loaders=test_loaders,
    optimizer=optimizer,
    scheduler=scheduler,
    regularizer=False,
    training_loss=H1Loss(d=2),
    eval_losses={"h1": H1Loss(d=2), "l2": LpLoss(d=2, p=2)},
)
results = {
    "metrics": {name: value for name, value in metrics.items() if "time" not in name},
    "state": {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)},
}
