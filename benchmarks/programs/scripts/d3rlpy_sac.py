"""Online soft actor-critic on a gymnasium environment, as d3rlpy's documentation shows."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
import structlog

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
d3rlpy.seed(0)
env = gym.make("Pendulum-v1")
eval_env = gym.make("Pendulum-v1", max_episode_steps=20)
d3rlpy.envs.seed_env(env, 0)
d3rlpy.envs.seed_env(eval_env, 0)
env.action_space.seed(0)

sac = d3rlpy.algos.SACConfig(
    batch_size=32,
    actor_encoder_factory=d3rlpy.models.VectorEncoderFactory([32, 32]),
    critic_encoder_factory=d3rlpy.models.VectorEncoderFactory([32, 32]),
    action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(),
).create(device="cuda:0")
buffer = d3rlpy.dataset.create_fifo_replay_buffer(limit=1000, env=env)
sac.fit_online(
    env,
    buffer,
    n_steps=40,
    n_steps_per_epoch=20,
    update_interval=2,
    update_start_step=10,
    random_steps=10,
    eval_env=eval_env,
    eval_n_trials=1,
)

observations = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
actions = sac.predict(observations)
results = {"actions": actions.tolist(), "values": sac.predict_value(observations, actions).tolist()}
