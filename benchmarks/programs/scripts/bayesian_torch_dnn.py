"""A convolutional net turned Bayesian by dnn_to_bnn, trained and evaluated as bayesian-torch's README shows."""

import torch
from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss
from bayesian_torch.utils.util import mutual_information, predictive_entropy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
batch_size, num_monte_carlo = 8, 5
labels = torch.randint(0, 3, (80,))
images = torch.randn(80, 1, 12, 12) + labels[:, None, None, None]
train_loader = DataLoader(TensorDataset(images[:64], labels[:64]), batch_size=batch_size, shuffle=True)
test_loader = DataLoader(TensorDataset(images[64:], labels[64:]), batch_size=batch_size)
const_bnn_prior_parameters = {
    "prior_mu": 0.0,
    "prior_sigma": 1.0,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
    "type": "Reparameterization",
    "moped_enable": False,
    "moped_delta": 0.5,
}
model = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))
dnn_to_bnn(model, const_bnn_prior_parameters)
model.cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)

losses, accuracies, uncertainties = [], [], []
for epoch in range(3):
    model.train()
    correct = 0
    for x_train, y_train in train_loader:
        x_train, y_train = x_train.cuda(), y_train.cuda()
        optimizer.zero_grad()
        output = model(x_train)
        loss = criterion(output, y_train) + get_kl_loss(model) / batch_size
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        correct += output.argmax(dim=1).eq(y_train).sum().item()
    print(f"epoch {epoch}: accuracy {correct / 64:.3f}")

model.eval()
with torch.no_grad():
    for x_test, y_test in test_loader:
        x_test, y_test = x_test.cuda(), y_test.cuda()
        output = torch.stack([torch.softmax(model(x_test), dim=-1) for _ in range(num_monte_carlo)])
        y_pred = torch.argmax(output.mean(dim=0), dim=-1)
        accuracies.append(float((y_pred.cpu().numpy() == y_test.cpu().numpy()).mean()))
        uncertainties.append(torch.from_numpy(predictive_entropy(output.cpu().numpy())))
        uncertainties.append(torch.from_numpy(mutual_information(output.cpu().numpy())))
results = {
    "losses": losses,
    "accuracies": accuracies,
    "uncertainties": uncertainties,
    "state": dict(model.state_dict()),
}
