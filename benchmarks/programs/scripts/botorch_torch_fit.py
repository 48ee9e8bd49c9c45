"""A Gaussian process fitted by Adam as botorch's documentation shows, and a batch of candidates from Monte Carlo."""

from functools import partial

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.optim.fit import fit_gpytorch_mll_torch
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
options = {"device": torch.device("cuda"), "dtype": torch.double}
train_x = torch.rand(20, 3, **options)
train_y = torch.sin(6 * train_x).sum(dim=-1, keepdim=True)
model = SingleTaskGP(train_x, train_y)
mll = ExactMarginalLogLikelihood(model.likelihood, model)
fit_gpytorch_mll(
    mll,
    optimizer=fit_gpytorch_mll_torch,
    optimizer_kwargs={"step_limit": 20, "optimizer": partial(torch.optim.Adam, lr=0.05)},
)

sampler = SobolQMCNormalSampler(sample_shape=torch.Size([32]), seed=0)
candidates, value = optimize_acqf(
    qLogExpectedImprovement(model, best_f=train_y.max(), sampler=sampler),
    bounds=torch.tensor([[0.0] * 3, [1.0] * 3], **options),
    q=2,
    num_restarts=2,
    raw_samples=16,
    options={"maxiter": 5, "seed": 0},
)
results = {"candidates": candidates, "value": value, "state": dict(model.state_dict())}
