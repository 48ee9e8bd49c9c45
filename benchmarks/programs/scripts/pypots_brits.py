"""Missing values of time series imputed by BRITS, a recurrent network, as pypots' documentation shows."""

import contextlib
import sys

import numpy as np
import torch

with contextlib.redirect_stdout(sys.stderr):
    from pypots.imputation import BRITS
    from pypots.utils.random import set_random_seed

set_random_seed(0)
times = np.arange(8)[None, :, None] / 4
series = np.sin(times + np.random.rand(64, 1, 4) * 6).astype(np.float32)
with_holes = np.where(np.random.rand(*series.shape) < 0.2, np.nan, series)
brits = BRITS(n_steps=8, n_features=4, rnn_hidden_size=8, batch_size=8, epochs=3, device="cuda")
brits.fit({"X": with_holes[:48]})
imputed = brits.impute({"X": with_holes[48:]})
results = {"imputed": torch.as_tensor(imputed), "state": dict(brits.model.state_dict())}
