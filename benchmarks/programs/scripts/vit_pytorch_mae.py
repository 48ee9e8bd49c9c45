"""A masked autoencoder around a small ViT, pretrained as vit-pytorch's README shows, and the ViT then fine-tuned."""

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from vit_pytorch import MAE, ViT

torch.manual_seed(0)
images, labels = torch.randn(48, 3, 32, 32), torch.randint(0, 4, (48,))
loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)
v = ViT(image_size=32, patch_size=8, num_classes=4, dim=32, depth=2, heads=2, mlp_dim=64, pool="mean")
mae = MAE(encoder=v, masking_ratio=0.75, decoder_dim=32, decoder_depth=1).cuda()
optimizer = torch.optim.AdamW(mae.parameters(), lr=1e-3)
losses = []
for _ in range(2):
    for image, _label in loader:
        loss = mae(image.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())

optimizer = torch.optim.Adam(v.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
epoch_losses, epoch_accuracies = [], []
for epoch in range(2):
    epoch_loss = epoch_accuracy = 0
    for image, label in loader:
        image, label = image.cuda(), label.cuda()
        output = v(image)
        loss = functional.cross_entropy(output, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        acc = (output.argmax(dim=1) == label).float().mean()
        epoch_accuracy += acc / len(loader)
        epoch_loss += loss.detach() / len(loader)
    scheduler.step()
    print(f"Epoch: {epoch + 1} - loss: {epoch_loss:.4f} - acc: {epoch_accuracy:.4f}")
    epoch_losses.append(epoch_loss)
    epoch_accuracies.append(epoch_accuracy)
results = {"losses": losses, "epochs": [epoch_losses, epoch_accuracies], "state": dict(mae.state_dict())}
