"""A tabular classifier fitted, evaluated and asked for predictions with pytorch-tabular's TabularModel."""

import numpy as np
import pandas as pd
import torch
from pytorch_tabular import TabularModel
from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
from pytorch_tabular.models import CategoryEmbeddingModelConfig

rng = np.random.default_rng(0)
size = 192
frame = pd.DataFrame(
    {
        "age": rng.normal(40, 10, size),
        "income": rng.normal(0, 1, size),
        "city": rng.choice(["a", "b", "c"], size),
        "kind": rng.choice(["x", "y"], size),
    }
)
frame["target"] = ((frame["income"] + (frame["kind"] == "x")) > 0.5).astype(int)
train, test = frame[:144], frame[144:]

tabular_model = TabularModel(
    data_config=DataConfig(
        target=["target"],
        continuous_cols=["age", "income"],
        categorical_cols=["city", "kind"],
        num_workers=0,
    ),
    model_config=CategoryEmbeddingModelConfig(
        task="classification", layers="32-16", activation="LeakyReLU", learning_rate=1e-2
    ),
    optimizer_config=OptimizerConfig(),
    trainer_config=TrainerConfig(
        batch_size=16, max_epochs=2, accelerator="gpu", devices=1, progress_bar="none", load_best=False
    ),
    verbose=False,
)
tabular_model.fit(train=train, seed=0)
metrics = tabular_model.evaluate(test, verbose=False)
predictions = tabular_model.predict(test)
results = {
    "metrics": [{name: float(value) for name, value in each.items()} for each in metrics],
    "predictions": torch.tensor(predictions.select_dtypes("number").to_numpy()),
    "state": dict(tabular_model.model.state_dict()),
}
