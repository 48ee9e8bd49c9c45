"""A picture optimised to look like another, and metric layers trained on judgements, both with lpips."""

import lpips
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loss_fn = lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False).cuda()
reference = torch.rand(1, 3, 64, 64).cuda() * 2 - 1
picture = torch.zeros_like(reference).requires_grad_()
optimizer = torch.optim.Adam([picture], lr=1e-2, betas=(0.9, 0.999))
distances = []
for i in range(12):
    distance = loss_fn(picture, reference)
    optimizer.zero_grad()
    distance.backward()
    optimizer.step()
    picture.data = picture.data.clamp(-1, 1)
    if i % 4 == 0:
        print(f"iter {i}, dist {distance.view(-1).item():.3g}")
    distances.append(distance.detach().view(-1))

data = TensorDataset(*(torch.rand(24, 3, 64, 64) * 2 - 1 for _ in range(3)), torch.rand(24, 1, 1, 1))
trainer = lpips.Trainer()
trainer.initialize(model="lpips", net="alex", use_gpu=True, is_train=True, pnet_rand=True, lr=1e-3, gpu_ids=[0])
losses = []
for _epoch in range(2):
    for ref, p0, p1, judge in DataLoader(data, batch_size=4, shuffle=True):
        trainer.set_input({"ref": ref, "p0": p0, "p1": p1, "judge": judge})
        trainer.optimize_parameters()
        losses.append(trainer.get_current_errors()["loss_total"])
    trainer.update_learning_rate(5)
results = {"distances": torch.cat(distances), "picture": picture.detach(), "losses": [float(each) for each in losses]}
