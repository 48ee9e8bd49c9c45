"""Missing values of time series imputed by SAITS, as pypots' documentation shows."""

import contextlib
import sys

import numpy as np
import torch

with contextlib.redirect_stdout(sys.stderr):
    from pypots.imputation import SAITS
    from pypots.nn.functional import calc_mae
    from pypots.optim import Adam
    from pypots.utils.random import set_random_seed

set_random_seed(0)
times = np.arange(24)[None, :, None] / 4
series = np.sin(times + np.random.rand(96, 1, 5) * 6).astype(np.float32)
holes = np.random.rand(*series.shape) < 0.2
with_holes = np.where(holes, np.nan, series)
train, validation, test = with_holes[:64], with_holes[64:80], with_holes[80:]

saits = SAITS(
    n_steps=24,
    n_features=5,
    n_layers=1,
    d_model=16,
    d_ffn=16,
    n_heads=2,
    d_k=8,
    d_v=8,
    batch_size=8,
    epochs=2,
    optimizer=Adam(lr=1e-3),
    device="cuda",
    saving_path="saits",
)
saits.fit({"X": train}, {"X": validation, "X_ori": series[64:80]})
imputed = saits.predict({"X": test})["imputation"]
error = calc_mae(imputed, series[80:], holes[80:])
results = {"imputed": torch.as_tensor(imputed), "error": float(error), "state": dict(saits.model.state_dict())}
