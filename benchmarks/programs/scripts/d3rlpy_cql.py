"""Offline conservative Q-learning on recorded episodes, as d3rlpy's documentation shows."""

import sys

import d3rlpy
import numpy as np
import structlog

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
d3rlpy.seed(0)
numbers = np.random.default_rng(0)
terminals = np.zeros(400, dtype=np.float32)
terminals[19::20] = 1.0
dataset = d3rlpy.dataset.MDPDataset(
    observations=numbers.normal(size=(400, 6)).astype(np.float32),
    actions=numbers.integers(0, 3, size=(400, 1)),
    rewards=numbers.normal(size=(400, 1)).astype(np.float32),
    terminals=terminals,
)
cql = d3rlpy.algos.DiscreteCQLConfig(learning_rate=1e-3, target_update_interval=5).create(device="cuda:0")
history = cql.fit(
    dataset,
    n_steps=16,
    n_steps_per_epoch=8,
    evaluators={"td_error": d3rlpy.metrics.TDErrorEvaluator(episodes=dataset.episodes[:4])},
)

observations = numbers.normal(size=(8, 6)).astype(np.float32)
results = {
    "metrics": [{name: value for name, value in each.items() if "time" not in name} for _, each in history],
    "actions": cql.predict(observations).tolist(),
    "values": cql.predict_value(observations, np.zeros(8, dtype=np.int64)).tolist(),
}
