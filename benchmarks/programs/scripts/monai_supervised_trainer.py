"""A U-Net trained by monai's SupervisedTrainer with its handlers, evaluated by a SupervisedEvaluator."""

import logging
import sys

import torch
from monai.data import CacheDataset, DataLoader
from monai.engines import SupervisedEvaluator, SupervisedTrainer
from monai.handlers import CheckpointSaver, LrScheduleHandler, MeanDice, StatsHandler, ValidationHandler, from_engine
from monai.inferers import SlidingWindowInferer
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from monai.transforms import Activationsd, AsDiscreted, Compose, KeepLargestConnectedComponentd, ScaleIntensityd
from monai.utils import set_determinism

logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
set_determinism(seed=0)
device = torch.device("cuda:0")
images = torch.rand(16, 1, 16, 16, 16)
data = [{"image": image, "label": (image > 0.6).float()} for image in images]
transforms = ScaleIntensityd(keys="image")
train_loader = DataLoader(CacheDataset(data[:12], transforms, progress=False), batch_size=2, shuffle=True)
val_loader = DataLoader(CacheDataset(data[12:], transforms, progress=False), batch_size=1)

net = UNet(3, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,), num_res_units=1, norm="batch").to(device)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
post = Compose(
    [
        Activationsd(keys="pred", sigmoid=True),
        AsDiscreted(keys="pred", threshold=0.5),
        KeepLargestConnectedComponentd(keys="pred", applied_labels=[1]),
    ]
)
pred_and_label = from_engine(["pred", "label"])
evaluator = SupervisedEvaluator(
    device=device,
    val_data_loader=val_loader,
    network=net,
    inferer=SlidingWindowInferer(roi_size=(8, 8, 8), sw_batch_size=4, overlap=0.5),
    postprocessing=post,
    key_val_metric={"val_mean_dice": MeanDice(output_transform=pred_and_label)},
    val_handlers=[CheckpointSaver(save_dir="./", save_dict={"net": net}, save_key_metric=True)],
)
trainer = SupervisedTrainer(
    device=device,
    max_epochs=3,
    train_data_loader=train_loader,
    network=net,
    optimizer=optimizer,
    loss_function=DiceLoss(sigmoid=True),
    postprocessing=post,
    key_train_metric={"train_mean_dice": MeanDice(output_transform=pred_and_label)},
    train_handlers=[
        LrScheduleHandler(torch.optim.lr_scheduler.StepLR(optimizer, step_size=2), print_lr=True),
        ValidationHandler(validator=evaluator, interval=1, epoch_level=True),
        StatsHandler(name=None, tag_name="train_loss", output_transform=from_engine(["loss"], first=True)),
    ],
)
trainer.run()
results = {"metrics": trainer.state.metrics, "best": evaluator.state.best_metric, "state": dict(net.state_dict())}
