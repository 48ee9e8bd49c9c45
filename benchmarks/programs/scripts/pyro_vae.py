"""A variational autoencoder trained by stochastic variational inference, as pyro's tutorial shows."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from torch import nn
from torch.utils.data import DataLoader


class Encoder(nn.Module):
    def __init__(self, z_dim, h_dim):
        super().__init__()
        self.fc1 = nn.Sequential(nn.Linear(64, h_dim), nn.Softplus())
        self.fc21 = nn.Linear(h_dim, z_dim)
        self.fc22 = nn.Linear(h_dim, z_dim)

    def forward(self, x):
        hidden = self.fc1(x.reshape(-1, 64))
        return self.fc21(hidden), torch.exp(self.fc22(hidden))


class VAE(nn.Module):
    def __init__(self, z_dim=8, h_dim=32):
        super().__init__()
        self.encoder = Encoder(z_dim, h_dim)
        self.decoder = nn.Sequential(nn.Linear(z_dim, h_dim), nn.Softplus(), nn.Linear(h_dim, 64), nn.Sigmoid())
        self.z_dim = z_dim

    def model(self, x):
        pyro.module("decoder", self.decoder)
        with pyro.plate("data", x.shape[0]):
            z_loc = x.new_zeros(torch.Size((x.shape[0], self.z_dim)))
            z_scale = x.new_ones(torch.Size((x.shape[0], self.z_dim)))
            z = pyro.sample("latent", dist.Normal(z_loc, z_scale).to_event(1))
            pyro.sample("obs", dist.Bernoulli(self.decoder(z)).to_event(1), obs=x.reshape(-1, 64))

    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", x.shape[0]):
            z_loc, z_scale = self.encoder(x)
            pyro.sample("latent", dist.Normal(z_loc, z_scale).to_event(1))


pyro.set_rng_seed(0)
images = (torch.rand(160, 1, 8, 8) > 0.6).float()
train_loader = DataLoader(images[:128], batch_size=16, shuffle=True)
test_loader = DataLoader(images[128:], batch_size=16)
vae = VAE().cuda()
svi = SVI(vae.model, vae.guide, pyro.optim.Adam({"lr": 1.0e-3}), loss=Trace_ELBO())
history = []
for epoch in range(3):
    epoch_loss = test_loss = 0.0
    for x in train_loader:
        epoch_loss += svi.step(x.cuda())
    for x in test_loader:
        test_loss += svi.evaluate_loss(x.cuda())
    print(f"[epoch {epoch:03d}] average training loss: {epoch_loss / 128:.4f}")
    history.append((epoch_loss / 128, test_loss / 32))
results = {"history": history, "state": dict(vae.state_dict())}
