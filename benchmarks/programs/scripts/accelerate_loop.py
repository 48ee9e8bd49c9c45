"""The training loop of Accelerate's documentation: a classifier with gradient accumulation, clipping and metrics."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
inputs = torch.randn(112, 16)
targets = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
train = DataLoader(TensorDataset(inputs[:80], targets[:80]), batch_size=8, shuffle=True)
evaluation = DataLoader(TensorDataset(inputs[80:], targets[80:]), batch_size=8)

accelerator = Accelerator(gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
model, optimizer, train, evaluation, scheduler = accelerator.prepare(model, optimizer, train, evaluation, scheduler)
loss_function = nn.CrossEntropyLoss()

losses, accuracies = [], []
for epoch in range(2):
    model.train()
    total_loss = 0
    for source, target in train:
        with accelerator.accumulate(model):
            output = model(source)
            loss = loss_function(output, target)
            total_loss += loss.detach().float()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    correct = total = 0
    for source, target in evaluation:
        with torch.no_grad():
            predictions = model(source).argmax(dim=-1)
        predictions, references = accelerator.gather_for_metrics((predictions, target))
        correct += (predictions == references).sum().item()
        total += len(references)
    losses.append(total_loss.item() / len(train))
    accuracies.append(correct / total)
    accelerator.print(f"epoch {epoch}: accuracy {100 * correct / total:.2f}")
accelerator.wait_for_everyone()
accelerator.save_model(model, "saved")
results = {"losses": losses, "accuracies": accuracies, "state": dict(accelerator.unwrap_model(model).state_dict())}
