"""A closed loop of Bayesian optimization, as botorch's documentation shows."""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
device = torch.device("cuda")
bounds = torch.stack([torch.zeros(2), torch.ones(2)]).to(device, torch.double)


def objective(x):
    return 1 - (x - 0.5).norm(dim=-1, keepdim=True)


train_x = torch.rand(10, 2, dtype=torch.double, device=device)
train_y = objective(train_x) + 0.05 * torch.randn(10, 1, dtype=torch.double, device=device)
values = []
for _ in range(12):
    gp = SingleTaskGP(train_x, train_y, input_transform=Normalize(d=2), outcome_transform=Standardize(m=1))
    mll = ExactMarginalLogLikelihood(gp.likelihood, gp)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 10}})
    acquisition = LogExpectedImprovement(model=gp, best_f=train_y.max())
    candidate, value = optimize_acqf(
        acquisition, bounds=bounds, q=1, num_restarts=4, raw_samples=16, options={"maxiter": 10}
    )
    train_x = torch.cat([train_x, candidate])
    train_y = torch.cat([train_y, objective(candidate)])
    values.append(value)

results = {"x": train_x, "y": train_y, "values": torch.stack(values), "state": dict(gp.state_dict())}
