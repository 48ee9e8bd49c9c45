"""An EfficientDet trained on synthetic boxes as effdet's training script does it."""

import torch
from effdet import create_model
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, ModelEma, NativeScaler
from torch.utils.data import DataLoader

torch.manual_seed(0)
samples = []
for _ in range(12):
    boxes, classes = torch.full((4, 4), -1.0), torch.full((4,), -1.0)
    for i in range(int(torch.randint(1, 4, ()))):
        low, size = torch.randint(0, 64, (2,)), torch.randint(16, 64, (2,))
        boxes[i], classes[i] = torch.cat([low, low + size]).float(), float(torch.randint(1, 4, ()))
    samples.append((torch.randn(3, 128, 128), {"bbox": boxes, "cls": classes}))
loader_train = DataLoader(samples, batch_size=2, shuffle=True)

model = create_model(
    "efficientdet_d0",
    bench_task="train",
    bench_labeler=True,
    num_classes=3,
    pretrained=False,
    pretrained_backbone=False,
    image_size=(128, 128),
).cuda()
optimizer = create_optimizer_v2(model, opt="momentum", lr=1e-3, weight_decay=4e-5)
loss_scaler = NativeScaler()
model_ema = ModelEma(model, decay=0.99)
lr_scheduler, _ = create_scheduler_v2(optimizer, sched="cosine", num_epochs=2)


def train_epoch(epoch):
    losses_m = AverageMeter()
    model.train()
    num_updates = epoch * len(loader_train)
    for batch_idx, (input, target) in enumerate(loader_train):
        input, target = input.cuda(), {name: value.cuda() for name, value in target.items()}
        with torch.autocast("cuda"):
            output = model(input, target)
        loss = output["loss"]
        losses_m.update(loss.item(), input.size(0))
        optimizer.zero_grad()
        loss_scaler(loss, optimizer, clip_grad=10.0, parameters=model.parameters())
        model_ema.update(model)
        num_updates += 1
        if batch_idx % 4 == 0:
            print(f"Train: {epoch} [{batch_idx}] Loss: {losses_m.val:.4g} ({losses_m.avg:.4g})")
        lr_scheduler.step_update(num_updates=num_updates, metric=losses_m.avg)
    return losses_m.avg


losses = []
for epoch in range(2):
    losses.append(train_epoch(epoch))
    lr_scheduler.step(epoch + 1)
results = {"losses": losses, "state": dict(model.state_dict()), "averaged": dict(model_ema.ema.state_dict())}
