"""An image classifier trained as timm's training script does it: mixup, a scaler, an averaged model, a schedule."""

import torch
from timm import create_model, utils
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch.utils.data import DataLoader, TensorDataset

utils.random_seed(0, 0)
device = torch.device("cuda")
images, labels = torch.randn(64, 3, 32, 32), torch.randint(0, 4, (64,))
train_loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True, drop_last=True)
validation_loader = DataLoader(TensorDataset(images[:32], labels[:32]), batch_size=8)

model = create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=4, drop_path_rate=0.1)
model.to(device)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
loss_scaler = utils.NativeScaler()
model_ema = utils.ModelEmaV3(model, decay=0.99, use_warmup=True)
mixup_fn = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, prob=1.0, label_smoothing=0.1, num_classes=4)
lr_scheduler, num_epochs = create_scheduler_v2(
    optimizer, num_epochs=2, warmup_epochs=1, step_on_epochs=False, updates_per_epoch=len(train_loader)
)
train_loss_fn = SoftTargetCrossEntropy().to(device)
validate_loss_fn = LabelSmoothingCrossEntropy().to(device)

history, num_updates = [], 0
for epoch in range(num_epochs):
    train_losses_m = utils.AverageMeter()
    model.train()
    for batch_idx, (input, target) in enumerate(train_loader):
        input, target = mixup_fn(input.to(device), target.to(device))
        with torch.autocast("cuda", dtype=torch.float16):
            loss = train_loss_fn(model(input), target)
        loss_scaler(loss, optimizer, clip_grad=1.0, clip_mode="norm", parameters=model.parameters())
        optimizer.zero_grad()
        num_updates += 1
        model_ema.update(model, step=num_updates)
        if batch_idx % 4 == 0:
            train_losses_m.update(loss.item(), input.size(0))
            print(f"train: {epoch} [{batch_idx:>4d}] loss: {train_losses_m.val:.3g} ({train_losses_m.avg:.3g})")
        lr_scheduler.step_update(num_updates=num_updates, metric=train_losses_m.avg)

    losses_m, top1_m = utils.AverageMeter(), utils.AverageMeter()
    model_ema.module.eval()
    with torch.no_grad():
        for input, target in validation_loader:
            input, target = input.to(device), target.to(device)
            output = model_ema.module(input)
            acc1, _acc3 = utils.accuracy(output, target, topk=(1, 3))
            losses_m.update(validate_loss_fn(output, target).item(), input.size(0))
            top1_m.update(acc1.item(), output.size(0))
    lr_scheduler.step(epoch + 1, top1_m.avg)
    history.append([train_losses_m.avg, losses_m.avg, top1_m.avg])
results = {"history": history, "state": dict(model.state_dict()), "averaged": dict(model_ema.module.state_dict())}
