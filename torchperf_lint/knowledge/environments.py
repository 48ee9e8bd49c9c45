"""Environments of reinforcement learning, by Gym's interface: `observation, reward, done, info = env.step(action)`."""

from __future__ import annotations

import re

STEPS_IT = "step"
STARTS_IT = "reset"

ACTIONS = re.compile(r"^_?(action|act)")
"""Names of what an environment's step takes."""

CLASSES = re.compile(r"(Env|Envs|Environment|EnvWrapper|Wrapper)$")
"""Names of environments' classes, those of wrappers around one included."""

NAMES = re.compile(r"(^|_)(envs?|environments?|vecenv|venv)$")
"""Names of environments."""

RESULTS = (4, 5)
"""How many results a step has: Gym's `done`, or Gymnasium's `terminated, truncated`."""
