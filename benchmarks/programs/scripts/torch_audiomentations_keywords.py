"""A keyword classifier of waveforms that torch_audiomentations augments in the training loop, on the device."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_audiomentations import (
    AddColoredNoise,
    Compose,
    Gain,
    HighPassFilter,
    LowPassFilter,
    PolarityInversion,
    Shift,
)

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
apply_augmentation = Compose(
    transforms=[
        Gain(min_gain_in_db=-15.0, max_gain_in_db=5.0, p=0.5, output_type="dict"),
        PolarityInversion(p=0.5, output_type="dict"),
        Shift(p=0.5, output_type="dict"),
        AddColoredNoise(p=0.5, output_type="dict"),
        LowPassFilter(p=0.5, output_type="dict"),
        HighPassFilter(p=0.5, output_type="dict"),
    ],
    output_type="dict",
)
labels = torch.randint(0, 4, (96,))
pitch = 200.0 * (labels + 1)[:, None, None]
waves = torch.sin(2 * torch.pi * pitch * torch.arange(2000) / 16000) + 0.1 * torch.randn(96, 1, 2000)
loader = DataLoader(TensorDataset(waves, labels), batch_size=12, shuffle=True)

model = nn.Sequential(
    nn.Conv1d(1, 8, 80, stride=16), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4)
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
losses = []
for epoch in range(3):
    model.train()
    running_loss = 0.0
    for audio_samples, target in loader:
        audio_samples, target = audio_samples.to(device), target.to(device)
        perturbed = apply_augmentation(audio_samples, sample_rate=16000).samples
        optimizer.zero_grad()
        loss = criterion(model(perturbed), target)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    print(f"epoch {epoch}: loss {running_loss / len(loader):.4f}")
    losses.append(running_loss / len(loader))

model.eval()
with torch.no_grad():
    accuracy = (model(waves.to(device)).argmax(-1) == labels.to(device)).float().mean()
results = {"losses": losses, "accuracy": accuracy, "state": dict(model.state_dict())}
