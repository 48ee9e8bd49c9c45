"""Calls that show values to a person or a tracker: printing, progress bars, loggers, experiment trackers."""

from __future__ import annotations

DISPLAYS = frozenset(
    "print debug info warning error set_postfix set_description set_postfix_str set_description_str write "
    "add_scalar add_scalars log_metric log_metrics log_scalar scalar_summary add_text "
    "rank_zero_print rank_zero_info rank_zero_debug print_rank_0 print_rank_last print0 master_print print_log".split()
)
"""Last names of functions that format or record their arguments at once."""

TAKE_TEXT = frozenset({"write"})
"""Displays that take text alone: a function of that name that is given a number or a tensor is another one."""

LAZY_LOGGERS = frozenset("debug info warning error".split())
"""Logging methods that format their arguments only if the level is enabled."""

LOG_OBJECTS = frozenset(
    "wandb mlflow swanlab comet neptune aim run writer tb_writer tensorboard summary_writer sw logger logging".split()
)
"""Names of loggers and trackers: whatever method is called on them records its arguments."""

LOGS_NUMBERS = frozenset("wandb mlflow swanlab trackio accelerator fabric".split())
"""Names of objects whose `log` method converts its arguments to numbers at once."""

LIGHTNING_LOGS = {"log": (1, "value"), "log_dict": (0, "dictionary")}
"""Position and name of the value that Lightning's `self.log` and `self.log_dict` log; other arguments are settings."""

RECORDS = {
    "log": 1,
    "log_dict": 1,
    "log_metrics": 1,
    "log_metric": 2,
    "log_scalar": 2,
    "scalar_summary": 2,
    "add_scalar": 2,
    "add_scalars": 2,
    "add_text": 2,
}
"""Methods of trackers, and how many arguments are recorded values; the rest are step numbers or times."""

SAYS_WHEN = frozenset("step global_step epoch walltime timestamp commit".split())
"""Arguments by which trackers get the step or time of a record."""

WARNINGS = frozenset("warn warn_once warn_explicit warning_once".split())
"""Last names of functions that warn about something unusual, once."""

READER_ENDINGS = ("item", "float", "int", "number", "scalar", "value", "python", "host", "cpu", "numpy", "np", "list")
"""Endings of the names of functions that copy their argument to the host."""

DISPLAY_WORDS = ("print", "info", "debug")
"""Parts of the names of functions that only display their argument."""

IGNITE_TRAINERS = ("ignite.engine.create_supervised_trainer",)
"""Make a trainer whose output is by default `loss.item()`, in every step."""

FEW_STEPS = 100
"""A training of fewer steps than this is a trial, whose logging costs do not matter."""
