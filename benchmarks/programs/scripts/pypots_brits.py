"""Missing values of time series imputed by BRITS, a recurrent network, as pypots' documentation shows."""

import contextlib
import sys

import numpy as np
import torch

with contextlib.redirect_stdout(sys.stderr):
    from pypots.imputation import BRITS
    from pypots.nn.functional import calc_mae
    from pypots.utils.random import set_random_seed

set_random_seed(0)
times = np.arange(8)[None, :, None] / 4
series = np.sin(times + np.random.rand(80, 1, 4) * 6).astype(np.float32)
holes = np.random.rand(*series.shape) < 0.2
with_holes = np.where(holes, np.nan, series)
train, validation, test = with_holes[:48], with_holes[48:64], with_holes[64:]

brits = BRITS(
    n_steps=8,
    n_features=4,
    rnn_hidden_size=8,
    batch_size=8,
    epochs=3,
    patience=2,
    device="cuda",
)
brits.fit({"X": train}, {"X": validation, "X_ori": series[48:64]})
imputed = brits.impute({"X": test})
error = calc_mae(imputed, series[64:], holes[64:])
results = {"imputed": torch.as_tensor(imputed), "error": float(error), "state": dict(brits.model.state_dict())}
