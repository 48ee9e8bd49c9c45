"""A stochastic variational Gaussian process, trained on minibatches as gpytorch's documentation shows."""

import gpytorch
import torch
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch.utils.data import DataLoader, TensorDataset


class GPModel(gpytorch.models.ApproximateGP):
    def __init__(self, inducing_points):
        strategy = VariationalStrategy(
            self,
            inducing_points,
            CholeskyVariationalDistribution(inducing_points.size(0)),
            learn_inducing_locations=True,
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


torch.manual_seed(0)
x = torch.rand(256, 3)
y = torch.sin(6 * x).sum(-1) + 0.1 * torch.randn(256)
train_x, train_y, test_x, test_y = x[:192].cuda(), y[:192].cuda(), x[192:].cuda(), y[192:].cuda()
train_loader = DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(test_x, test_y), batch_size=16, shuffle=False)

model = GPModel(inducing_points=train_x[:24]).cuda()
likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
model.train()
likelihood.train()
optimizer = torch.optim.Adam([{"params": model.parameters()}, {"params": likelihood.parameters()}], lr=0.01)
mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=train_y.size(0))
losses = []
for _ in range(4):
    for x_batch, y_batch in train_loader:
        optimizer.zero_grad()
        loss = -mll(model(x_batch), y_batch)
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()

model.eval()
likelihood.eval()
means = []
with torch.no_grad():
    for x_batch, _ in test_loader:
        means.append(model(x_batch).mean)
error = (torch.cat(means) - test_y).abs().mean()
results = {"losses": torch.stack(losses), "error": error, "state": dict(model.state_dict())}
