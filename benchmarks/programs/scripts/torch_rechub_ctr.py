"""Click-through rates: DeepFM trained by torch-rechub's CTRTrainer, as its documentation shows."""

import random

import numpy as np
import torch
from torch_rechub.basic.features import DenseFeature, SparseFeature
from torch_rechub.models.ranking import DeepFM
from torch_rechub.trainers import CTRTrainer
from torch_rechub.utils.data import DataGenerator

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
size = 320
x = {
    "user": np.random.randint(0, 20, size),
    "item": np.random.randint(0, 30, size),
    "price": np.random.rand(size).astype("float32"),
}
y = ((x["user"] + x["item"]) % 2 == 0).astype("float32")
dense_features = [DenseFeature("price")]
sparse_features = [
    SparseFeature("user", vocab_size=20, embed_dim=8),
    SparseFeature("item", vocab_size=30, embed_dim=8),
]
generator = DataGenerator(x, y)
train_dataloader, val_dataloader, test_dataloader = generator.generate_dataloader(split_ratio=[0.7, 0.1], batch_size=32)
model = DeepFM(
    deep_features=dense_features + sparse_features,
    fm_features=sparse_features,
    mlp_params={"dims": [32, 16], "dropout": 0.2, "activation": "relu"},
)
trainer = CTRTrainer(
    model,
    optimizer_params={"lr": 1e-2, "weight_decay": 1e-5},
    scheduler_fn=torch.optim.lr_scheduler.StepLR,
    scheduler_params={"step_size": 2, "gamma": 0.8},
    n_epoch=3,
    earlystop_patience=10,
    device="cuda:0",
    model_path=".",
)
trainer.fit(train_dataloader, val_dataloader)
auc = trainer.evaluate(trainer.model, test_dataloader)
predictions = trainer.predict(trainer.model, test_dataloader)
results = {"auc": float(auc), "predictions": torch.tensor(predictions), "state": dict(model.state_dict())}
