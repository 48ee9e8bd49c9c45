"""A conditional neural spline flow, trained as zuko's documentation shows."""

import torch
import zuko
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
theta = torch.rand(192, 3)
observed = theta + 0.1 * torch.randn(192, 3)
loader = DataLoader(TensorDataset(theta, observed), batch_size=32, shuffle=True)
flow = zuko.flows.NSF(features=3, context=3, transforms=2, hidden_features=(32, 32)).cuda()
optimizer = torch.optim.AdamW(flow.parameters(), lr=1e-3)
losses = []
for epoch in range(4):
    epoch_losses = []
    for x, c in loader:
        loss = -flow(c.cuda()).log_prob(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        epoch_losses.append(loss.detach())
    epoch_losses = torch.stack(epoch_losses)
    print(f"({epoch})", epoch_losses.mean().item(), "±", epoch_losses.std().item())
    losses.append(epoch_losses)

with torch.no_grad():
    samples = flow(observed[:2].cuda()).sample((8,))
results = {"losses": torch.stack(losses), "samples": samples, "state": dict(flow.state_dict())}
