"""The claims of four articles about training performance, and our programs that test them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WAITS, OPERATORS = "waits per step", "device operators per step"

RELEASES = ("1.6.1", "1.9.0")
"""The torchmetrics that the first article used, and the newest one that was read and run for the rules."""


class Program(NamedTuple):
    """A script of `fixtures/experiments` with arguments; `fixed`: after `--fix --unsafe-fixes`, with every rule.

    `fails` is the text of the error that ends it, for a program that is there to fail.
    """

    script: str
    arguments: tuple[str, ...] = ()
    fixed: bool = False
    fails: str = ""


Counted = dict[str, float]


class Claim(NamedTuple):
    """An article's claim (`ours`: our own), the programs that test it, and the condition on their counts.

    The last program is the one that step times are relative to. The results of the programs named in `alike` must
    be equal, bit for bit. Without programs the claim cannot be counted, and `remark` says why.
    """

    article: str
    text: str
    programs: Mapping[str, Program]
    judge: Callable[[Counted], bool]
    remark: str = ""
    unit: str = WAITS
    at_tip: str = ""  # count only lines that are marked with this tip
    alike: tuple[str, str] | None = None
    releases: tuple[str | None, ...] = (None,)
    ours: bool = False
    timed: bool = True


def _baseline_reached(counts: Counted) -> bool:
    *_, last, baseline = counts.values()
    return last == baseline


_QUIET = ("--log-every", "1000")  # the metrics are computed once, after the steps
_NO_METRICS = Program("metric_collection.py", ("--no-metrics", *_QUIET))
_NAIVE = Program("metric_collection.py", _QUIET)
_WEIGHTED = Program("metric_collection_by_hand.py", ("--test-nan", *_QUIET))
_UNCHECKED = Program("metric_collection_by_hand.py", _QUIET)
_HOST_TIMER = Program("step_timer_on_host.py")
_DEVICE_TIMER = Program("step_timer_on_device.py")
_NCCL_ERROR = "No backend type associated with device type cpu"

METRIC_COLLECTION = (
    Claim(
        "000",
        "collecting metrics with torchmetrics as it comes adds eight waits to each step",
        {"naive": _NAIVE, "no metrics": _NO_METRICS},
        lambda waits: waits["naive"] - waits["no metrics"] == 8,
        remark="the loss's mean is what waits; the four classification scores do not",
        releases=RELEASES,
    ),
    Claim(
        "000",
        "a weight given to the mean takes one cause away, and its NaN test remains",
        {"naive": _NAIVE, "weight given": _WEIGHTED, "no metrics": _NO_METRICS},
        lambda waits: waits["naive"] > waits["weight given"] > waits["no metrics"],
        remark="since torchmetrics 1.6.2 the default weight is built on the device",
        releases=RELEASES,
    ),
    Claim(
        "000",
        "without the NaN test, too, the step is what it was without metrics",
        {"naive": _NAIVE, "weight given, no NaN test": _UNCHECKED, "no metrics": _NO_METRICS},
        _baseline_reached,
        releases=RELEASES,
    ),
    Claim(
        "000",
        "one `--fix --unsafe-fixes` takes the naive loop to the waits without metrics, all values equal",
        {"naive": _NAIVE, "fixed": _NAIVE._replace(fixed=True), "no metrics": _NO_METRICS},
        _baseline_reached,
        remark="the NaN test can be switched off since torchmetrics 1.6.2; before, that has no fix",
        alike=("naive", "fixed"),
        releases=RELEASES,
        ours=True,
    ),
    Claim(
        "000",
        "a metric on the host may average the steps' durations without a wait",
        {"mean on the host": _HOST_TIMER},
        lambda waits: not any(waits.values()),
        releases=RELEASES,
        timed=False,
    ),
    Claim(
        "000",
        "on the device it waits when it is fed numbers; fed tensors of the host (our fix), it does not",
        {
            "numbers": _DEVICE_TIMER,
            "tensors": _DEVICE_TIMER._replace(fixed=True),
            "mean on the host": _HOST_TIMER,
        },
        lambda waits: waits["numbers"] > 0 and _baseline_reached(waits),
        alike=("numbers", "tensors"),
        releases=RELEASES,
    ),
    Claim(
        "000",
        "under NCCL a metric on the host cannot be computed, unless it is told not to ask the other ranks",
        {
            "asks": _HOST_TIMER._replace(arguments=("--distributed",), fails=_NCCL_ERROR),
            "does not ask": _HOST_TIMER._replace(arguments=("--distributed", "--own-rank-only")),
        },
        lambda waits: not any(waits.values()),
        remark=f"the error is `{_NCCL_ERROR}`",
        releases=RELEASES,
        timed=False,
    ),
)

_DIGITS = Program("digits_naive.py")
_ADVISED = Program("digits_advised.py")
_DIGITS_BASELINE = Program("digits_baseline.py")

DIGITS = (
    Claim(
        "001",
        "the loop as it comes copies and reads while the host waits",
        {"naive": _DIGITS, "baseline": _DIGITS_BASELINE},
        lambda waits: waits["naive"] > waits["baseline"],
        remark="a step of the training loop and one of the validation loop added up",
    ),
    Claim(
        "001",
        "pinned memory, larger batches and mixed precision, as the article has them, take the waiting away",
        {"naive": _DIGITS, "advised": _ADVISED},
        lambda waits: waits["advised"] < waits["naive"],
        remark="the copies stay blocking, the loss is read in every step, and the gradient scaler adds a read",
        timed=False,
    ),
    Claim(
        "001",
        "one `--fix --unsafe-fixes` takes the naive loop to the baseline, all values equal",
        {"naive": _DIGITS, "fixed": _DIGITS._replace(fixed=True), "baseline": _DIGITS_BASELINE},
        _baseline_reached,
        alike=("naive", "fixed"),
        ours=True,
    ),
    Claim(
        "001",
        "the same takes every wait out of the advised loop, the gradient scaler's read with them",
        {"advised": _ADVISED, "fixed": _ADVISED._replace(fixed=True)},
        lambda waits: waits["fixed"] == 0,
        remark="the fused optimizer takes the scaler's verdict on the device, and rounds otherwise",
        ours=True,
    ),
)

_IGNORED = {
    "ignored": Program("tips_ignored.py"),
    "fixed": Program("tips_ignored.py", fixed=True),
    "followed": Program("tips_followed.py"),
}


def _followed(counts: Counted) -> bool:
    return counts["followed"] < counts["ignored"]


def _tip(text: str, marker: str, unit: str = WAITS, remark: str = "") -> Claim:
    return Claim("002", text, _IGNORED, _followed, remark, unit, marker, timed=False)


def _uncountable(article: str, text: str, reason: str) -> Claim:
    return Claim(article, text, {}, lambda _: False, reason)


TIPS = (
    Claim(
        "002",
        "all countable tips together",
        _IGNORED,
        _followed,
        remark="what is left after our fixes: a mean read through NumPy",
        alike=("ignored", "fixed"),
    ),
    _tip("pinned memory makes the copies of a batch faster", "pinned memory", remark="and lets the host go on"),
    _tip("no `.item()`, `.cpu()`, `.numpy()` in the loop", "no reads"),
    _tip("tensors are built on the device", "build on the device"),
    _tip(
        "gradients are set to None, not to zero (001)",
        "gradients to None",
        OPERATORS,
        "the default of torch since 2.0; counted over the marked line",
    ),
    _uncountable(
        "002", "the cache of device memory is not emptied", "only large blocks are simulated; a GPU waits to free any"
    ),
    _uncountable("002", "workers load the data", "the steps wait for the device as often; for CPU time see 003"),
    _uncountable("002", "DistributedDataParallel instead of DataParallel", "needs several GPUs"),
    _uncountable("002", "16-bit precision", "saves time and memory, not waits; a gradient scaler adds one, see 001"),
    _uncountable("002", "profile the code", "a way to find waits, not to lessen them"),
    _uncountable("001", "larger batches", "fewer steps of the same waits each; memory and accuracy pay"),
    _uncountable("001", "graph mode", "compiled programs are not simulated"),
)

CLAIMS = (*METRIC_COLLECTION, *DIGITS, *TIPS)


# ---- the input pipeline: what takes CPU time

PIPELINE = "input_pipeline.py"
SLOW, HERE, EVERYWHERE = "slow", "here", "in all processes"


class Saving(NamedTuple):
    """A variant of the input pipeline, and what its CPU time per sample has to be, relative to the slow one's."""

    text: str
    variant: str
    judge: Callable[[float], bool]
    remark: str = ""


def _saves(ratio: float) -> bool:
    return ratio < 0.95


SAVINGS = (
    Saving("a mask dilated by shifts costs less than one dilated by a convolution", "dilation by shifts", _saves),
    Saving("to crop first costs less than to crop last", "crop first", _saves),
    Saving(
        "colours converted batch by batch, in the collate function, cost no less",
        "colour in batches",
        lambda ratio: not _saves(ratio),
        remark="the article measured it as a little slower",
    ),
    Saving(
        "workers take the samples' work out of the training process",
        "two workers",
        _saves,
        remark="all processes together need more: they start, and hand batches over",
    ),
)
