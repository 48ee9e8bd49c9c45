"""A segmentation net trained with kornia's augmentations on the GPU, and its losses and metrics."""

import kornia
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda")
images = torch.rand(48, 3, 32, 32)
masks = (images.mean(1) > 0.5).long()
train_loader = DataLoader(TensorDataset(images[:32], masks[:32]), batch_size=4, shuffle=True)
valid_loader = DataLoader(TensorDataset(images[32:], masks[32:]), batch_size=4)

augment = kornia.augmentation.AugmentationSequential(
    kornia.augmentation.RandomHorizontalFlip(p=0.5),
    kornia.augmentation.RandomAffine(degrees=15.0, translate=(0.1, 0.1), p=0.5),
    kornia.augmentation.RandomResizedCrop((32, 32), scale=(0.7, 1.0), p=0.5),
    data_keys=["input", "mask"],
)
photometric = nn.Sequential(
    kornia.augmentation.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=0.5),
    kornia.augmentation.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.3),
    kornia.augmentation.RandomErasing(p=0.3),
)
normalize = kornia.enhance.Normalize(mean=torch.full((3,), 0.5), std=torch.full((3,), 0.25))
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1)).to(device)
dice, focal = kornia.losses.DiceLoss(), kornia.losses.FocalLoss(alpha=0.5, gamma=2.0, reduction="mean")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2)

losses, ious = [], []
for _epoch in range(2):
    model.train()
    for image, mask in train_loader:
        image, mask = image.to(device), mask.to(device)
        with torch.no_grad():
            image, mask = augment(image, mask.unsqueeze(1).float())
            image, mask = normalize(photometric(image)), mask.squeeze(1).long()
        optimizer.zero_grad()
        output = model(image)
        loss = dice(output, mask) + focal(output, mask)
        loss = loss + 0.01 * kornia.losses.total_variation(output.softmax(1), reduction="mean").mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    scheduler.step()
    model.eval()
    with torch.no_grad():
        for image, mask in valid_loader:
            predicted = model(normalize(image.to(device))).argmax(1)
            ious.append(kornia.metrics.mean_iou(predicted, mask.to(device), num_classes=2).mean(0))
results = {"losses": torch.stack(losses), "ious": torch.stack(ious), "state": dict(model.state_dict())}
