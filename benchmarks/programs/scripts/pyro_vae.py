"""A variational autoencoder trained by stochastic variational inference, as pyro's tutorial shows."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from torch import nn
from torch.utils.data import DataLoader


class Decoder(nn.Module):
    def __init__(self, z_dim, hidden_dim):
        super().__init__()
        self.fc1 = nn.Linear(z_dim, hidden_dim)
        self.fc21 = nn.Linear(hidden_dim, 64)
        self.softplus = nn.Softplus()

    def forward(self, z):
        return torch.sigmoid(self.fc21(self.softplus(self.fc1(z))))


class Encoder(nn.Module):
    def __init__(self, z_dim, hidden_dim):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden_dim)
        self.fc21 = nn.Linear(hidden_dim, z_dim)
        self.fc22 = nn.Linear(hidden_dim, z_dim)
        self.softplus = nn.Softplus()

    def forward(self, x):
        hidden = self.softplus(self.fc1(x.reshape(-1, 64)))
        return self.fc21(hidden), torch.exp(self.fc22(hidden))


class VAE(nn.Module):
    def __init__(self, z_dim=8, hidden_dim=32, use_cuda=False):
        super().__init__()
        self.encoder = Encoder(z_dim, hidden_dim)
        self.decoder = Decoder(z_dim, hidden_dim)
        if use_cuda:
            self.cuda()
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
pyro.clear_param_store()
images = (torch.rand(160, 1, 8, 8) > 0.6).float()
train_loader = DataLoader(images[:128], batch_size=16, shuffle=True)
test_loader = DataLoader(images[128:], batch_size=16)
vae = VAE(use_cuda=True)
svi = SVI(vae.model, vae.guide, pyro.optim.Adam({"lr": 1.0e-3}), loss=Trace_ELBO())
history = []
for epoch in range(3):
    epoch_loss = 0.0
    for x in train_loader:
        epoch_loss += svi.step(x.cuda())
    test_loss = 0.0
    for x in test_loader:
        test_loss += svi.evaluate_loss(x.cuda())
    print(f"[epoch {epoch:03d}] average training loss: {epoch_loss / 128:.4f}")
    history.append((epoch_loss / 128, test_loss / 32))

results = {"history": history, "state": dict(vae.state_dict())}
