"""Loaders, datasets and the frameworks that take loaders: names and signatures for the loading rules."""

from __future__ import annotations

import re

from torchperf_lint.knowledge.torch_api import LOADER_POSITIONS


def position(ref: str, name: str) -> int | None:
    """The 0-based position of a parameter of the loader class `ref`; None if it is keyword-only."""
    if ref.startswith("torch.utils.data."):
        return LOADER_POSITIONS[name]
    if ref.startswith("monai."):
        return {"dataset": 0, "num_workers": 1}.get(name)
    return {"dataset": 0, "batch_size": 1}.get(name)  # torch_geometric


DATALOADER_HOOKS = {
    **dict.fromkeys(
        ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader"), ("Lightning", "DataModule")
    ),
    **dict.fromkeys(("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader"), ("the Trainer", "Trainer")),
}
"""Methods by which a framework gets its loaders: the framework, and how the name of the base class ends."""

LOADER_TAKERS = {
    "prepare": "accelerator",
    "prepare_data_loader": "accelerator",
    "setup_dataloaders": "fabric",
    "fit": "trainer",
    "validate": "trainer",
    "test": "trainer",
    "predict": "trainer",
}
"""Methods that take loaders and move their batches, and the object that has the method."""

MOVING_HELPERS = (
    r"(?:^|_)to_?(?:device|cuda|gpu)$|^(?:move|send|put)_(?:to|on)(?!.*cpu)|^(?:batch|recursive)_(?:to|cuda)"
)
"""Names of functions that move their argument to the device."""

IN_MEMORY_DATASETS = ("torch.utils.data.TensorDataset", "torch_geometric.datasets.", "sklearn.", "monai.data.Cache")
"""Dataset classes (or prefixes of them) that only index memory."""

HOST_DATASETS = (
    *("torchvision.datasets.", "torchaudio.datasets.", "torchtext.datasets."),
    *(
        "datasets.load_",
        "datasets.Dataset",
        "datasets.IterableDataset",
        "datasets.concatenate_",
        "datasets.interleave_",
    ),
)
"""Dataset classes and makers (or prefixes of them) whose samples are built on the host."""

CHEAP_CALLS = frozenset(
    "tensor as_tensor from_numpy long float int bool len dict tuple list astype copy clone squeeze unsqueeze item "
    "detach double view reshape transpose permute is_tensor tolist type LongTensor FloatTensor array asarray".split()
)
"""Calls that a `__getitem__` may make and still only index memory."""

TRAINING_ARGUMENTS = tuple(
    f"{root}.{name}"
    for root, names in {
        "transformers": "TrainingArguments Seq2SeqTrainingArguments",
        "sentence_transformers": "SentenceTransformerTrainingArguments",
        "trl": "SFTConfig DPOConfig RewardConfig KTOConfig ORPOConfig CPOConfig",
    }.items()
    for name in names.split()
)
"""The Trainer's argument classes; they take `dataloader_num_workers` (0) and `dataloader_pin_memory` (True)."""

DATASET_READERS = ("__getitem__", "__getitems__", "__iter__")
"""Methods of a dataset that a loader calls for its samples."""

SAMPLE_BASES = ("Dataset", "DataModule")
"""How the names of the classes end that give samples to loaders."""

READER_FILES = ("__getitem__", "train_dataloader")
"""Methods that a file with such a class defines, one of them at least."""

TRANSFORMS = re.compile(r"(?:^|_)(?:transforms?|preprocess(?:ing|ors?)?)(?:_fn|_func|_list)?$")
"""Names of parameters by which a dataset takes what it does to each sample."""

PIPELINES = ("Compose", "Sequential", "ModuleList", "RandomApply", "RandomChoice", "RandomOrder")
"""Classes whose objects run the transforms that they are made with."""

MAKES_UP = frozenset(
    {f"torch.{name}" for name in "rand randint randn randperm".split()}
    | {f"sklearn.datasets.load_{name}" for name in "breast_cancer diabetes digits iris linnerud wine".split()}
    | {"torchvision.datasets.FakeData"}
)
"""Make random numbers, or give a small set that is a part of a package."""

MAKES_UP_PREFIXES = ("numpy.random.", "sklearn.datasets.make_")
"""The same by prefix."""

SELECTS = frozenset(f"numpy.random.{name}" for name in ("choice", "permutation", "shuffle"))
"""Select or order what they are given, which made-up numbers decide."""
