"""Proximal policy optimization of a pendulum, with skrl's agent and its sequential trainer."""

import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn


class Policy(GaussianMixin, Model):
    def __init__(self, **spaces_and_device):
        Model.__init__(self, **spaces_and_device)
        GaussianMixin.__init__(self, clip_actions=False, clip_log_std=True)
        self.net = nn.Sequential(nn.Linear(self.num_observations, 32), nn.ELU(), nn.Linear(32, self.num_actions))
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role):
        return 2 * torch.tanh(self.net(inputs["observations"])), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    def __init__(self, **spaces_and_device):
        Model.__init__(self, **spaces_and_device)
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(nn.Linear(self.num_observations, 32), nn.ELU(), nn.Linear(32, 1))

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {}


set_seed(0)
env = wrap_env(gym.make_vec("Pendulum-v1", num_envs=4, vectorization_mode="sync"))
spaces_and_device = {
    "observation_space": env.observation_space,
    "state_space": env.state_space,
    "action_space": env.action_space,
    "device": env.device,
}
models = {"policy": Policy(**spaces_and_device), "value": Value(**spaces_and_device)}
memory = RandomMemory(memory_size=16, num_envs=env.num_envs, device=env.device)
cfg = PPO_CFG()
cfg.rollouts = 16
cfg.learning_epochs = 3
cfg.mini_batches = 2
cfg.learning_rate_scheduler = KLAdaptiveLR
cfg.learning_rate_scheduler_kwargs = {"kl_threshold": 0.008}
cfg.observation_preprocessor = RunningStandardScaler
cfg.observation_preprocessor_kwargs = {"size": env.observation_space, "device": env.device}
cfg.value_preprocessor = RunningStandardScaler
cfg.value_preprocessor_kwargs = {"size": 1, "device": env.device}
agent = PPO(models=models, memory=memory, cfg=cfg, **spaces_and_device)
trainer = SequentialTrainer(cfg={"timesteps": 64, "headless": True, "disable_progressbar": True}, env=env, agents=agent)
trainer.train()
results = {name: dict(model.state_dict()) for name, model in models.items()}
