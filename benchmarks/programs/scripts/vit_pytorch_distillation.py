"""A ViT that learns from a convolutional teacher, with vit-pytorch's DistillWrapper."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18
from vit_pytorch.distill import DistillableViT, DistillWrapper

torch.manual_seed(0)
images, labels = torch.randn(48, 3, 32, 32), torch.randint(0, 4, (48,))
loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)
teacher = resnet18(num_classes=4).cuda()
v = DistillableViT(
    image_size=32, patch_size=8, num_classes=4, dim=32, depth=2, heads=2, mlp_dim=64, dropout=0.1, emb_dropout=0.1
)
distiller = DistillWrapper(student=v, teacher=teacher, temperature=3, alpha=0.5, hard=False).cuda()
optimizer = torch.optim.AdamW(distiller.student.parameters(), lr=1e-3)
losses = []
for _ in range(3):
    for image, label in loader:
        loss = distiller(image.cuda(), label.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
v.eval()
with torch.no_grad():
    predictions = v(images[:8].cuda()).argmax(-1)
results = {"losses": losses, "predictions": predictions, "state": dict(v.state_dict())}
