"""A directed message passing network over molecules' graphs, as deepchem's documentation shows."""

import deepchem as dc
import numpy as np
import torch

np.random.seed(0)
torch.manual_seed(0)
chains = ["C" * carbons + tail for carbons in range(1, 9) for tail in ("O", "N", "C(=O)O", "c1ccccc1")]
graphs = dc.feat.DMPNNFeaturizer().featurize(chains)
labels = np.array([[len(chain) / 10] for chain in chains])
train = dc.data.NumpyDataset(X=graphs[:24], y=labels[:24])
test = dc.data.NumpyDataset(X=graphs[24:], y=labels[24:])
model = dc.models.DMPNNModel(
    mode="regression",
    n_tasks=1,
    batch_size=4,
    enc_hidden=32,
    ffn_hidden=32,
    depth=2,
    learning_rate=1e-3,
    log_frequency=3,
    model_dir="model",
    device=torch.device("cuda"),
)
losses = []
model.fit(train, nb_epoch=3, all_losses=losses)

metric = dc.metrics.Metric(dc.metrics.mean_absolute_error)
results = {
    "losses": losses,
    "scores": model.evaluate(test, [metric]),
    "predicted": torch.as_tensor(model.predict(test)),
    "state": dict(model.model.state_dict()),
}
