"""Retrieval: a DSSM of two towers, trained by torch-rechub's MatchTrainer on sampled pairs."""

import random

import numpy as np
import torch
from torch_rechub.basic.features import SequenceFeature, SparseFeature
from torch_rechub.models.matching import DSSM
from torch_rechub.trainers import MatchTrainer
from torch_rechub.utils.data import MatchDataGenerator

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
size = 256
x = {
    "user_id": np.random.randint(1, 20, size),
    "hist_item_id": np.random.randint(0, 30, (size, 6)),
    "item_id": np.random.randint(1, 30, size),
}
y = np.random.randint(0, 2, size)
user_features = [
    SparseFeature("user_id", vocab_size=20, embed_dim=8),
    SequenceFeature("hist_item_id", vocab_size=30, embed_dim=8, pooling="mean", shared_with="item_id"),
]
item_features = [SparseFeature("item_id", vocab_size=30, embed_dim=8)]
test_user = {name: x[name][:32] for name in ("user_id", "hist_item_id")}
all_items = {"item_id": np.arange(1, 30)}
generator = MatchDataGenerator(x=x, y=y)
train_dl, test_dl, item_dl = generator.generate_dataloader(test_user, all_items, batch_size=32)
model = DSSM(
    user_features,
    item_features,
    temperature=0.02,
    user_params={"dims": [32, 16]},
    item_params={"dims": [32, 16]},
)
trainer = MatchTrainer(
    model, mode=0, optimizer_params={"lr": 1e-3, "weight_decay": 1e-6}, n_epoch=3, device="cuda:0", model_path="."
)
trainer.fit(train_dl)
users = trainer.inference_embedding(model=model, mode="user", data_loader=test_dl, model_path=".")
items = trainer.inference_embedding(model=model, mode="item", data_loader=item_dl, model_path=".")
results = {"users": users, "items": items, "state": dict(model.state_dict())}
