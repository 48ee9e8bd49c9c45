"""Click-through rates: a factorization machine of fuxictr's layers, fitted by its BaseModel on a built data set."""

import logging
import sys

import numpy as np
import pandas as pd
from fuxictr.features import FeatureMap
from fuxictr.preprocess import FeatureProcessor, build_dataset
from fuxictr.pytorch.dataloaders import RankDataLoader
from fuxictr.pytorch.layers import FactorizationMachine, FeatureEmbedding, MLP_Block
from fuxictr.pytorch.models import BaseModel
from fuxictr.pytorch.torch_utils import seed_everything

logging.basicConfig(level=logging.INFO, stream=sys.stderr)
seed_everything(seed=2024)


class DeepFM(BaseModel):
    def __init__(self, feature_map, gpu=-1, learning_rate=1e-2, embedding_dim=8, **kwargs):
        super().__init__(feature_map, model_id="DeepFM", gpu=gpu, **kwargs)
        self.embedding_layer = FeatureEmbedding(feature_map, embedding_dim)
        self.fm = FactorizationMachine(feature_map)
        self.mlp = MLP_Block(
            input_dim=feature_map.sum_emb_out_dim(), output_dim=1, hidden_units=[16], hidden_activations="relu"
        )
        self.compile(kwargs["optimizer"], kwargs["loss"], learning_rate)
        self.reset_parameters()
        self.model_to_device()

    def forward(self, inputs):
        x = self.get_inputs(inputs)
        feature_emb = self.embedding_layer(x)
        y_pred = self.fm(x, feature_emb) + self.mlp(feature_emb.flatten(start_dim=1))
        return {"y_pred": self.output_activation(y_pred)}


rng = np.random.default_rng(0)
frame = pd.DataFrame(
    {"user": rng.integers(0, 20, 320), "item": rng.integers(0, 30, 320), "price": rng.random(320).round(3)}
)
frame["clk"] = ((frame["user"] + frame["item"]) % 2 == 0).astype(int)
for name, part in {"train": frame[:224], "valid": frame[224:272], "test": frame[272:]}.items():
    part.to_csv(f"{name}.csv", index=False)
feature_cols = [
    {"name": ["user", "item"], "active": True, "dtype": "str", "type": "categorical"},
    {"name": "price", "active": True, "dtype": "float", "type": "numeric", "normalizer": "StandardScaler"},
]
label_col = {"name": "clk", "dtype": "float"}
encoder = FeatureProcessor(feature_cols=feature_cols, label_col=label_col, dataset_id="tiny", data_root="data/")
train_data, valid_data, test_data = build_dataset(
    encoder, train_data="train.csv", valid_data="valid.csv", test_data="test.csv"
)
feature_map = FeatureMap("tiny", "data/tiny")
feature_map.load("data/tiny/feature_map.json", {})
options = {"batch_size": 32, "data_format": "parquet"}
train_gen, valid_gen = RankDataLoader(
    feature_map, stage="train", train_data=train_data, valid_data=valid_data, shuffle=True, **options
).make_iterator()
model = DeepFM(
    feature_map,
    gpu=0,
    task="binary_classification",
    optimizer="adam",
    loss="binary_crossentropy",
    metrics=["logloss", "AUC"],
    monitor="AUC",
    embedding_regularizer=1e-6,
    model_root="checkpoints/",
    verbose=1,
)
model.fit(train_gen, validation_data=valid_gen, epochs=3)
validated = model.evaluate(valid_gen)
test_gen = RankDataLoader(feature_map, stage="test", test_data=test_data, shuffle=False, **options).make_iterator()
tested = model.evaluate(test_gen)
results = {
    "validated": {name: float(value) for name, value in validated.items()},
    "tested": {name: float(value) for name, value in tested.items()},
    "state": dict(model.state_dict()),
}
