"""cuDNN settings that prevent the fastest convolution kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import conditions
from torchperf_lint.idioms.compute.settings import is_for_seeds, settings, training_call
from torchperf_lint.knowledge import backend_flags
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL607",
    name="convnet-backend-flags",
    category=Category.COMPUTE,
    summary="cuDNN is kept from choosing the fastest kernels for convolutions",
    message="`{code}` {says}",
    severity=Severity.NOTE,
    fix=Safety.SHOWN,
    default=False,
    triggers=(("cudnn", "Conv", "torchvision"),),
    cpu_only_too=True,  # cuDNN implies CUDA
)
def convnet_backend_flags(model: Model) -> Iterator[Finding]:
    """Settings outside seeding that disable the kernel search, and scripts that train a convnet without any setting."""
    for setting in settings(model, frozenset(backend_flags.CUDNN_SWITCHES)):
        slow, says = backend_flags.CUDNN_SWITCHES[setting.ref]
        site = setting.site
        if setting.constant is not slow or model.in_test(site) or not conditions.in_every_run(model, site):
            continue
        if is_for_seeds(model, site) or model.code.speaks_of("manual_seed", "seed_everything", "set_seed"):
            continue
        edit = edits.replace(site.tree, site.node, repr(not slow))
        fix = None if edit is None else Fix("let cuDNN choose", Safety.SHOWN, (edit,))
        yield Finding(site, (), fix, {"code": setting.text, "says": says})
    makers = list(model.calls(*backend_flags.CONVOLUTIONS)) + list(_ready_made(model))
    training = None if not makers or model.code.speaks_of("benchmark", "deterministic") else training_call(model)
    if training is not None:
        call, hot_path = training
        says = "trains a convolutional network, and nothing in this file lets cuDNN search for its fastest kernels"
        yield Finding(call, hot_path.because, None, {"code": model.brief(call.node), "says": says})


def _ready_made(model: Model) -> Iterator[object]:
    """Calls of torchvision's models whose names are those of convolutional networks."""
    for site in model.method_or_function_calls(*backend_flags.CONVNETS):
        if (model.value(site.node.func).ref or "").startswith("torchvision.models"):
            yield site
