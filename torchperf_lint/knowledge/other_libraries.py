"""Functions of other libraries that return tensors on the device of their arguments."""

from __future__ import annotations

FRAMEWORKS = frozenset(
    "accelerate apex detectron2 diffusers fastai ignite lightning lightning_fabric mmcv mmengine monai "
    "pytorch_lightning timm torch_geometric torchaudio torchtext torchvision transformers".split()
)
"""Packages that training code is written against; a project's own modules may have the same names."""

TENSOR_FUNCTIONS = frozenset(
    {
        *("einops." + name for name in "rearrange reduce repeat einsum".split()),
        *("accelerate.utils." + name for name in "gather reduce pad_across_processes".split()),
        "timm.utils.reduce_tensor",
        "torchvision.utils.make_grid",
        *(
            "torchvision.ops." + name
            for name in "nms batched_nms box_area box_convert box_iou clip_boxes_to_image complete_box_iou "
            "distance_box_iou generalized_box_iou masks_to_boxes roi_align roi_pool sigmoid_focal_loss".split()
        ),
    }
)
"""Return a tensor if their first argument is one."""

GIVE_POSITIONS = frozenset({"nms", "batched_nms"})
"""Those whose result is the positions of the boxes that are kept."""

SCORES = frozenset({"timm.utils.accuracy", "timm.utils.metrics.accuracy"})
"""Return a list of one-element tensors on the device of their first argument."""

IMAGE_FUNCTIONS = ("torchvision.transforms.functional.", "torchvision.transforms.v2.functional.")
"""Below these prefixes functions return an image like the one that they get, a tensor for a tensor."""

OTHER_IMAGE_RESULTS = {
    **dict.fromkeys(("to_tensor", "pil_to_tensor"), "host tensor"),
    **dict.fromkeys(("five_crop", "ten_crop"), "several"),
    **dict.fromkeys(("get_image_num_channels", "get_num_channels"), "number"),
    **dict.fromkeys(("to_pil_image", "get_image_size", "get_size", "get_dimensions"), "unknown"),
}
"""Functions there that return something else."""

REGISTRIES = frozenset(
    {
        *(f"{module}.Registry" for module in ("mmengine", "mmengine.registry", "mmengine.registry.registry")),
        *(f"{module}.Registry" for module in ("mmcv.utils", "mmcv.utils.registry", "fvcore.common.registry")),
        "detectron2.utils.registry.Registry",
    }
)
"""Registry classes: `get` returns a class by name, `build` makes an object of the class that a config names."""

REGISTRARS = frozenset({"register_module", "register"})
"""Methods of registries that decorate a class and return it."""
