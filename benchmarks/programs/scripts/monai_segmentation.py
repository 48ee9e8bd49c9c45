"""A 3D U-Net trained for segmentation with Dice loss and metric, as monai's tutorials do it."""

import torch
from monai.data import CacheDataset, DataLoader, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import AsDiscrete, Compose, EnsureTyped, RandFlipd, RandGaussianNoised, ScaleIntensityd
from monai.utils import set_determinism

set_determinism(seed=0)
device = torch.device("cuda:0")
images = torch.rand(16, 1, 16, 16, 16)
data = [{"image": image, "label": (image > 0.6).float()} for image in images]
train_transforms = Compose(
    [
        ScaleIntensityd(keys="image"),
        RandFlipd(keys=["image", "label"], prob=0.5, spatial_axis=0),
        RandGaussianNoised(keys="image", prob=0.3),
        EnsureTyped(keys=["image", "label"]),
    ]
)
val_transforms = Compose([ScaleIntensityd(keys="image"), EnsureTyped(keys=["image", "label"])])
train_loader = DataLoader(CacheDataset(data[:12], train_transforms, progress=False), batch_size=2, shuffle=True)
val_loader = DataLoader(CacheDataset(data[12:], val_transforms, progress=False), batch_size=1)

model = UNet(3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), norm="batch").to(device)
loss_function = DiceCELoss(to_onehot_y=True, softmax=True)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
dice_metric = DiceMetric(include_background=False, reduction="mean")
post_pred = Compose([AsDiscrete(argmax=True, to_onehot=2)])
post_label = Compose([AsDiscrete(to_onehot=2)])
epoch_losses, metric_values, best_metric = [], [], -1
for epoch in range(3):
    model.train()
    epoch_loss = 0
    for batch_data in train_loader:
        inputs, labels = batch_data["image"].to(device), batch_data["label"].to(device)
        optimizer.zero_grad()
        loss = loss_function(model(inputs), labels)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    epoch_losses.append(epoch_loss / len(train_loader))
    print(f"epoch {epoch + 1} average loss: {epoch_losses[-1]:.4f}")
    model.eval()
    with torch.no_grad():
        for val_data in val_loader:
            val_inputs, val_labels = val_data["image"].to(device), val_data["label"].to(device)
            val_outputs = sliding_window_inference(val_inputs, (8, 8, 8), 4, model)
            val_outputs = [post_pred(i) for i in decollate_batch(val_outputs)]
            val_labels = [post_label(i) for i in decollate_batch(val_labels)]
            dice_metric(y_pred=val_outputs, y=val_labels)
        metric_values.append(dice_metric.aggregate().item())
        dice_metric.reset()
        if metric_values[-1] > best_metric:
            best_metric = metric_values[-1]
            torch.save(model.state_dict(), "best_metric_model.pth")
results = {"losses": epoch_losses, "dice": metric_values, "state": dict(model.state_dict())}
