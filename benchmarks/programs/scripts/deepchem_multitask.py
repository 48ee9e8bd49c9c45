"""A multitask classifier of made-up molecules' features, as deepchem's documentation shows."""

import deepchem as dc
import numpy as np
import torch

np.random.seed(0)
torch.manual_seed(0)
x = np.random.normal(size=(160, 16))
y = (x[:, :2] > 0).astype(float)
dataset = dc.data.NumpyDataset(x, y)
train, valid = dc.data.NumpyDataset(x[:128], y[:128]), dc.data.NumpyDataset(x[128:], y[128:])
model = dc.models.MultitaskClassifier(
    n_tasks=2,
    n_features=16,
    layer_sizes=[32],
    dropouts=0.2,
    batch_size=16,
    learning_rate=1e-2,
    log_frequency=4,
    model_dir="model",
    device=torch.device("cuda"),
)
metric = dc.metrics.Metric(dc.metrics.roc_auc_score, np.mean)
losses = []
callback = dc.models.ValidationCallback(valid, interval=8, metrics=[metric])
model.fit(train, nb_epoch=3, callbacks=[callback], all_losses=losses)

results = {
    "losses": losses,
    "scores": model.evaluate(valid, [metric]),
    "predicted": torch.as_tensor(model.predict(valid)),
    "state": dict(model.model.state_dict()),
}
