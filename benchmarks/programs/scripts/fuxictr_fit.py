"""Click-through rates: a factorization machine of fuxictr's layers, fitted by its BaseModel on npz files."""

import json
import os

import numpy as np
from fuxictr.features import FeatureMap
from fuxictr.pytorch.dataloaders import RankDataLoader
from fuxictr.pytorch.layers import FactorizationMachine, FeatureEmbedding, MLP_Block
from fuxictr.pytorch.models import BaseModel
from fuxictr.pytorch.torch_utils import seed_everything

seed_everything(seed=2024)


class DeepFM(BaseModel):
    def __init__(self, feature_map, gpu=-1, learning_rate=1e-2, embedding_dim=8, **kwargs):
        super().__init__(feature_map, model_id="DeepFM", gpu=gpu, **kwargs)
        self.embedding_layer = FeatureEmbedding(feature_map, embedding_dim)
        self.fm = FactorizationMachine(feature_map)
        self.mlp = MLP_Block(input_dim=feature_map.sum_emb_out_dim(), output_dim=1, hidden_units=[16])
        self.compile("adam", "binary_crossentropy", learning_rate)
        self.reset_parameters()
        self.model_to_device()

    def forward(self, inputs):
        x = self.get_inputs(inputs)
        feature_emb = self.embedding_layer(x)
        y_pred = self.fm(x, feature_emb) + self.mlp(feature_emb.flatten(start_dim=1))
        return {"y_pred": self.output_activation(y_pred)}


rng = np.random.default_rng(0)
columns = {"user": rng.integers(1, 20, 320), "item": rng.integers(1, 30, 320), "price": rng.random(320)}
columns["clk"] = (columns["user"] + columns["item"]) % 2
os.makedirs("tiny")
for name, rows in {"train": slice(224), "valid": slice(224, 272), "test": slice(272, 320)}.items():
    np.savez(f"tiny/{name}.npz", **{column: values[rows] for column, values in columns.items()})
features = [
    {"user": {"source": "user", "type": "categorical", "vocab_size": 20}},
    {"item": {"source": "item", "type": "categorical", "vocab_size": 30}},
    {"price": {"source": "", "type": "numeric"}},
]
with open("tiny/feature_map.json", "w") as file:
    json.dump({"dataset_id": "tiny", "total_features": 51, "labels": ["clk"], "features": features}, file)
feature_map = FeatureMap("tiny", "tiny")
feature_map.load("tiny/feature_map.json", {"embedding_dim": 8})
files = {f"{name}_data": f"tiny/{name}.npz" for name in ("train", "valid", "test")}
train_gen, valid_gen, test_gen = RankDataLoader(feature_map, stage="both", batch_size=32, num_workers=0, **files)
model = DeepFM(
    feature_map,
    gpu=0,
    metrics=["logloss", "AUC"],
    embedding_regularizer=1e-6,
    model_root="./",
    verbose=0,
)
model.fit(train_gen, validation_data=valid_gen, epochs=2)
metrics = [dict(model.evaluate(each)) for each in (valid_gen, test_gen)]
results = {"metrics": metrics, "state": dict(model.state_dict())}
