"""An unconditional diffusion model trained by imagen_pytorch's trainer, as its documentation shows."""

import random

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import T5Config

T5Config().save_pretrained("google/t5-v1_1-base")
from imagen_pytorch import Imagen, ImagenTrainer, Unet  # noqa: E402 - it looks for that configuration


class Images(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(index))


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
unet = Unet(
    dim=8,
    dim_mults=(1, 2),
    num_resnet_blocks=1,
    layer_attns=(False, True),
    layer_cross_attns=False,
    attn_dim_head=8,
    attn_heads=2,
)
imagen = Imagen(condition_on_text=False, unets=unet, image_sizes=16, timesteps=4)
trainer = ImagenTrainer(imagen=imagen, split_valid_from_train=True, split_random_seed=0).cuda()
trainer.add_train_dataset(Images(), batch_size=8)
losses = []
for i in range(12):
    loss = trainer.train_step(unet_number=1, max_batch_size=4)
    print(f"loss: {loss}")
    losses.append(loss)
    if not (i % 5):
        valid_loss = trainer.valid_step(unet_number=1, max_batch_size=4)
        print(f"valid loss: {valid_loss}")
    if not (i % 10) and trainer.is_main:
        images = trainer.sample(batch_size=1)

results = {"losses": losses, "images": images, "state": dict(unet.state_dict())}
