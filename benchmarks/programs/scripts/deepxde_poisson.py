"""A physics-informed network for the Poisson equation, as deepxde's documentation shows."""

import os

os.environ["DDE_BACKEND"] = "pytorch"
import contextlib
import sys

import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(0)


def pde(x, y):
    dy_xx = dde.grad.hessian(y, x, i=0, j=0)
    dy_yy = dde.grad.hessian(y, x, i=1, j=1)
    return -dy_xx - dy_yy - 2 * np.pi**2 * torch.sin(np.pi * x[:, :1]) * torch.sin(np.pi * x[:, 1:])


def solution(x):
    return np.sin(np.pi * x[:, :1]) * np.sin(np.pi * x[:, 1:])


geometry = dde.geometry.Rectangle([0, 0], [1, 1])
boundary = dde.icbc.DirichletBC(geometry, solution, lambda x, on_boundary: on_boundary)
data = dde.data.PDE(geometry, pde, boundary, num_domain=64, num_boundary=32, solution=solution, num_test=64)
net = dde.nn.FNN([2] + [16] * 2 + [1], "tanh", "Glorot uniform")
model = dde.Model(data, net)
with contextlib.redirect_stdout(sys.stderr):
    model.compile("adam", lr=1e-3, metrics=["l2 relative error"])
    losshistory, train_state = model.train(iterations=20, display_every=10)
    resampler = dde.callbacks.PDEPointResampler(period=5)
    model.train(iterations=10, display_every=10, callbacks=[resampler])

points = geometry.uniform_points(16)
results = {
    "losses": [loss.tolist() for loss in losshistory.loss_train],
    "metrics": [float(each[0]) for each in losshistory.metrics_test],
    "predicted": torch.as_tensor(model.predict(points)),
    "state": dict(net.state_dict()),
}
