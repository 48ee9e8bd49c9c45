"""Exact Gaussian process regression, trained as gpytorch's documentation shows."""

import gpytorch
import torch


class ExactModel(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


torch.manual_seed(0)
x = torch.linspace(0, 1, 64).cuda()
y = torch.sin(6 * x) + 0.1 * torch.randn(64).cuda()
likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
model = ExactModel(x, y, likelihood).cuda()
model.train()
likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = -mll(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    predicted = likelihood(model(torch.linspace(0, 1, 16).cuda())).mean
results = {"losses": torch.stack(losses), "predicted": predicted, "state": dict(model.state_dict())}
