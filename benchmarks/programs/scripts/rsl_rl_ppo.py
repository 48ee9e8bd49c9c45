"""Proximal policy optimization of many small environments on the device, with rsl_rl's runner."""

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict


class PointMass(VecEnv):
    """Points that are pushed to the origin."""

    num_envs = 32
    num_actions = 2
    max_episode_length = 20

    def __init__(self, device):
        self.device = device
        self.cfg = {}
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self.position = torch.randn(self.num_envs, 2, device=device)
        self.speed = torch.zeros(self.num_envs, 2, device=device)

    def get_observations(self):
        return TensorDict({"policy": torch.cat([self.position, self.speed], dim=-1)}, batch_size=[self.num_envs])

    def step(self, actions):
        self.speed = 0.9 * self.speed + 0.1 * actions.clamp(-1.0, 1.0)
        self.position = self.position + 0.1 * self.speed
        self.episode_length_buf = self.episode_length_buf + 1
        distance = self.position.norm(dim=-1)
        time_outs = self.episode_length_buf >= self.max_episode_length
        dones = time_outs | (distance > 4.0)
        fresh = torch.randn_like(self.position)
        self.position = torch.where(dones[:, None], fresh, self.position)
        self.speed = torch.where(dones[:, None], torch.zeros_like(self.speed), self.speed)
        self.episode_length_buf = torch.where(dones, 0, self.episode_length_buf)
        extras = {"time_outs": time_outs, "log": {"/distance": distance.mean()}}
        return self.get_observations(), -distance, dones, extras


torch.manual_seed(0)
config = {
    "num_steps_per_env": 8,
    "save_interval": 2,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": [32, 32],
        "obs_normalization": True,
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [32, 32], "obs_normalization": True},
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 4},
}
runner = OnPolicyRunner(PointMass("cuda:0"), config, log_dir=None, device="cuda:0")
runner.learn(num_learning_iterations=3, init_at_random_ep_len=True)
policy = runner.get_inference_policy(device="cuda:0")
with torch.inference_mode():
    actions = policy(runner.env.get_observations())
results = {"actions": actions, "state": dict(runner.alg.actor.state_dict()), "rate": runner.alg.learning_rate}
