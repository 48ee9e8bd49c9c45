"""`Conv2d(...)` with a bias before a batch normalisation, which cancels the bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.compute.layers import followed
from torchperf_lint.knowledge import layers
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.arguments import Given
    from torchperf_lint.model import Model, Site

_LOADS = ("pretrained", "checkpoint", "hf_hub", "load_url", "state_dict")
"""Words in names that show that the file's layers must fit existing weights."""
_CHANGES_LAYERS = ("fuse_", "quantiz", "register_forward")


@rule(
    code="TPL608",
    name="conv-bias-before-norm",
    category=Category.COMPUTE,
    summary="a convolution has a bias that the following batch normalisation removes",
    message="`{call}` has a bias that the batch normalisation behind it takes away: it is trained for nothing",
    severity=Severity.NOTE,
    fix=Safety.UNSAFE,
    assumes="no checkpoint holds this bias, and the parameters may start from other random numbers",
    default=False,
    triggers=("Conv", ("BatchNorm", "SyncBatchNorm")),
    cpu_only_too=True,  # models are often defined in files without accelerator tokens
)
def conv_bias_before_norm(model: Model) -> Iterator[Finding]:
    """Convolutions directly before a batch normalisation, in files that load no existing weights."""
    if (
        model.code.speaks_of(*_LOADS, *_CHANGES_LAYERS)
        or model.code.names("torch.load", ".bias")
        or model.code.calls("add_module")
    ):
        return
    found: set[int] = set()
    for pair in followed(model, layers.CONVOLUTIONS, layers.BATCH_NORMS):
        site = pair.first
        bias = given(model, site.node, "bias", layers.BIAS_PLACE)
        if site.start in found or bias is None or not (bias.absent or bias.is_constant(True)) or model.in_test(site):
            continue
        found.add(site.start)
        because = (Because(pair.row, "this takes the mean of each channel away"),)
        fields = {"call": f"{model.text(site.node.func)}(...)"}
        yield Finding(site, because, _without_bias(site, bias), fields)


def _without_bias(site: Site, bias: Given) -> Fix | None:
    assert isinstance(site.node, cst.Call)
    if bias.absent:
        changed = edits.add_argument(site.tree, site.node, "bias=False")
    else:
        changed = None if bias.node is None else edits.together(edits.replace(site.tree, bias.node, "False"))
    return None if changed is None else Fix("leave the bias out", Safety.UNSAFE, changed)
