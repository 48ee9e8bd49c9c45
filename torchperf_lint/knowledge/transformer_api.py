"""torch's transformer modules that compare a mask with a causal one, unless an argument says whether it is one."""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    """A mask that `forward` compares, and the argument that says whether it is causal, with their 0-based positions."""

    mask: str
    place: int
    hint: str
    hint_place: int


ENCODER = "torch.nn.TransformerEncoder"
DECODER = "torch.nn.TransformerDecoder"
TRANSFORMER = "torch.nn.Transformer"

CHECKS: dict[str, tuple[Check, ...]] = {
    ENCODER: (Check("mask", 1, "is_causal", 3),),
    DECODER: (Check("tgt_mask", 2, "tgt_is_causal", 6),),
    TRANSFORMER: (Check("src_mask", 2, "src_is_causal", 8), Check("tgt_mask", 3, "tgt_is_causal", 9)),
}

PARTS = {"encoder": ENCODER, "decoder": DECODER}
"""The attributes of `Transformer` that are such modules as well."""

OTHER_PARTS = (("custom_encoder", 7), ("custom_decoder", 8))
"""The arguments of `Transformer`, with their 0-based positions, that become its parts."""

LAYERS = {
    ENCODER: ("encoder_layer", "torch.nn.TransformerEncoderLayer"),
    DECODER: ("decoder_layer", "torch.nn.TransformerDecoderLayer"),
}
"""The first argument of these modules, and torch's own class for it: it raises an error for a mask of another size."""

DECODERS_SINCE = ">=2.1"
"""The releases whose `TransformerDecoder` compares, and whose `Transformer` takes the arguments."""
