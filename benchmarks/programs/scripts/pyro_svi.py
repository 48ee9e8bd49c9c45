"""Bayesian regression by stochastic variational inference with an automatic guide, as pyro's documentation shows."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal
from pyro.nn import PyroModule, PyroSample
from torch import nn


class BayesianRegression(PyroModule):
    def __init__(self, in_features, out_features):
        super().__init__()
        device = torch.device("cuda")
        self.linear = PyroModule[nn.Linear](in_features, out_features, device=device)
        zero, one = torch.tensor(0.0, device=device), torch.tensor(1.0, device=device)
        self.linear.weight = PyroSample(dist.Normal(zero, one).expand([out_features, in_features]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(zero, 10 * one).expand([out_features]).to_event(1))
        self.register_buffer("low", zero)
        self.register_buffer("high", 10 * one)

    def forward(self, x, y=None):
        sigma = pyro.sample("sigma", dist.Uniform(self.low, self.high))
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
        return mean


pyro.set_rng_seed(0)
x = torch.randn(64, 3).cuda()
y = x @ torch.tensor([1.0, -2.0, 0.5]).cuda() + 0.1 * torch.randn(64).cuda()
model = BayesianRegression(3, 1)
guide = AutoDiagonalNormal(model)
pyro.clear_param_store()
svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.03}), loss=Trace_ELBO())
losses = []
for step in range(30):
    loss = svi.step(x, y)
    losses.append(loss)
    if step % 10 == 0:
        print(f"[iteration {step + 1:04d}] loss: {loss / len(x):.4f}")

guide.requires_grad_(False)
predictive = Predictive(model, guide=guide, num_samples=20, return_sites=("linear.weight", "obs", "_RETURN"))
samples = predictive(x)
results = {
    "losses": losses,
    "quantiles": guide.quantiles([0.25, 0.5, 0.75]),
    "mean": {name: value.mean(0) for name, value in samples.items()},
}
