"""A small residual network trained by BYOL's trainer on made-up images, without labels."""

import torch
from byol_pytorch.trainer import BYOLTrainer, MockDataset
from torchvision.models import resnet18

torch.manual_seed(0)
net = resnet18()
trainer = BYOLTrainer(
    net,
    dataset=MockDataset(32, 48),
    image_size=32,
    hidden_layer="avgpool",
    learning_rate=3e-4,
    num_train_steps=12,
    batch_size=8,
    byol_kwargs={"projection_size": 32, "projection_hidden_size": 64},
)
trainer()

results = {
    "online": dict(net.layer4.state_dict()),
    "target": dict(trainer.byol.target_encoder.projector.state_dict()),
}
