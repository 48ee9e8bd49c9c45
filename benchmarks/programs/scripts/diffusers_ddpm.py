"""Unconditional image generation: the training loop of diffusers' documentation, with Accelerate."""

import torch
from accelerate import Accelerator
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel
from diffusers.utils import logging
from torch.nn import functional
from torch.utils.data import DataLoader

torch.manual_seed(0)
logging.disable_progress_bar()
epochs = 2
dataset = [{"images": torch.rand(3, 16, 16) * 2 - 1} for _ in range(32)]
train_dataloader = DataLoader(dataset, batch_size=4, shuffle=True)
model = UNet2DModel(
    sample_size=16,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
noise_scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
lr_scheduler = get_cosine_schedule_with_warmup(optimizer, 4, len(train_dataloader) * epochs)
accelerator = Accelerator(gradient_accumulation_steps=1)
model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(model, optimizer, train_dataloader, lr_scheduler)
ema_model = EMAModel(model.parameters(), decay=0.999, use_ema_warmup=True, model_cls=UNet2DModel)
ema_model.to(accelerator.device)

logged, global_step = [], 0
for _epoch in range(epochs):
    for batch in train_dataloader:
        clean_images = batch["images"]
        noise = torch.randn(clean_images.shape, device=clean_images.device)
        timesteps = torch.randint(0, 100, (clean_images.shape[0],), device=clean_images.device)
        noisy_images = noise_scheduler.add_noise(clean_images, noise, timesteps)
        with accelerator.accumulate(model):
            noise_pred = model(noisy_images, timesteps, return_dict=False)[0]
            loss = functional.mse_loss(noise_pred, noise)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            ema_model.step(model.parameters())
            global_step += 1
        logged.append({"loss": loss.detach().item(), "lr": lr_scheduler.get_last_lr()[0], "step": global_step})
        accelerator.log(logged[-1], step=global_step)
    if accelerator.is_main_process:
        pipeline = DDPMPipeline(unet=accelerator.unwrap_model(model), scheduler=noise_scheduler)
        pipeline.set_progress_bar_config(disable=True)
        generator = torch.Generator(device="cpu").manual_seed(0)
        images = pipeline(batch_size=2, generator=generator, num_inference_steps=5, output_type="np").images
        pipeline.save_pretrained("ddpm")
results = {"logged": logged, "images": torch.from_numpy(images), "state": dict(model.state_dict())}
