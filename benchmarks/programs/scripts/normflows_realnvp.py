"""A real NVP trained by the forward Kullback-Leibler divergence, as normflows' documentation shows."""

import normflows as nf
import torch

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
flows = []
for _ in range(4):
    flows.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 32, 32, 2], init_zeros=True)))
    flows.append(nf.flows.Permute(2, mode="swap"))
target = nf.distributions.TwoMoons()
model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows, target).to(device)

optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=1e-5)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    x = target.sample(64).to(device)
    loss = model.forward_kld(x)
    if ~(torch.isnan(loss) | torch.isinf(loss)):
        loss.backward()
        optimizer.step()
    losses.append(loss.detach())

model.eval()
with torch.no_grad():
    samples, log_prob = model.sample(16)
results = {
    "losses": torch.stack(losses),
    "samples": samples,
    "log_prob": log_prob,
    "state": dict(model.state_dict()),
}
