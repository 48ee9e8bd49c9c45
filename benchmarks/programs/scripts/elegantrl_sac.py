"""Soft actor-critic on a point that seeks the origin, with elegantrl's training function."""

import contextlib
import sys

import numpy as np
import torch
from elegantrl import Config, train_agent
from elegantrl.agents import AgentSAC


class PointEnv:
    def __init__(self):
        self.numbers = np.random.default_rng(0)
        self.position, self.step_count = np.zeros(2, dtype=np.float32), 0

    def reset(self):
        self.position, self.step_count = self.numbers.normal(size=2).astype(np.float32), 0
        return self.position

    def step(self, action):
        self.step_count += 1
        self.position = (self.position + 0.2 * action).astype(np.float32)
        done = self.step_count >= 6
        return self.position, -float(np.abs(self.position).sum()), done, {}


env_args = {
    "env_name": "PointEnv",
    "num_envs": 1,
    "max_step": 6,
    "state_dim": 2,
    "action_dim": 2,
    "if_discrete": False,
}
args = Config(AgentSAC, PointEnv, env_args)
args.net_dims = [32, 32]
args.batch_size = 16
args.horizon_len = 16
args.repeat_times = 0.25
args.buffer_size = 1000
args.break_step = 48
args.eval_per_step = 16
args.eval_times = 2
args.gpu_id = 0
args.random_seed = 0
args.cwd = "point_sac"
with contextlib.redirect_stdout(sys.stderr):
    train_agent(args)

actor = torch.load("point_sac/act.pth", weights_only=False)
curve = np.load("point_sac/recorder.npy")
results = {"actor": dict(actor.state_dict()), "returns": curve[:, 2].tolist()}
