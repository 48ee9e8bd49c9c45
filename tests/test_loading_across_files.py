"""Loaders that are built in one file and moved to the accelerator in another: small projects, rules TPL203 and TPL4."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = """\
def train_one_epoch(model, optimizer, batches, device):
    for images, labels in batches:
        images = images.to(device)
        labels = labels.to(device)
        loss = model(images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
HEAD = """\
import torch
from torch.utils.data import DataLoader
"""
DATA = f"""{HEAD}

def get_data(dataset):
    return DataLoader(dataset, batch_size=8, shuffle=True)
"""
FOLDER = "from torchvision.datasets import ImageFolder\n"


class Found(NamedTuple):
    """What was said of one file, as far as these tests look at it."""

    row: int
    code: str
    because: str  # the file that its first step names, as a path below the project's root; "" for its own
    safety: Safety | None
    written: str  # what the fix adds


class Projects:
    """Writes projects and lints single files of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "pyproject.toml").touch()

    def write(self, **files: str) -> None:
        """The name is the path without `.py`."""
        for name, text in files.items():
            path = self.root / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def found(self, name: str, *codes: str) -> list[Found]:
        """What rules of these codes say of the file."""
        paths = [str(path) for path in sorted(self.root.rglob("*.py"))]
        path = self.root / f"{name}.py"
        rules = [rule for rule in registry.all_rules() if rule.code in codes]
        snapshot = gather(paths, Hints(), cache=None)
        target = Target(None, None)
        report = check_source(str(path), path.read_bytes(), rules, target, Hints(), program=snapshot.program)
        assert report.failure is None
        return [
            Found(
                each.row,
                each.code,
                "" if each.because[0].path is None else os.path.relpath(each.because[0].path, self.root),
                None if each.fix is None else each.fix.safety,
                "" if each.fix is None else b"".join(edit.content for edit in each.fix.edits).decode(),
            )
            for each in report.diagnostics
        ]

    def unpinned(self, name: str) -> list[tuple[int, str]]:
        """Row and evidence of what TPL402 finds in the file."""
        return [(each.row, each.because) for each in self.found(name, "TPL402")]

    def without_workers(self, name: str) -> list[tuple[int, str]]:
        """Row and evidence of what TPL401 finds in the file."""
        return [(each.row, each.because) for each in self.found(name, "TPL401")]


@pytest.fixture
def project(tmp_path: Path) -> Projects:
    return Projects(tmp_path)


# -- where the batches go ------------------------------------------------------------------------------------------


def test_a_loader_is_given_to_a_function_of_another_file(project: Projects) -> None:
    project.write(
        engine=ENGINE,
        train=f"""{HEAD}from engine import train_one_epoch


def main(args, model, optimizer, dataset, test_dataset):
    train_loader = DataLoader(dataset, batch_size=8)
    test_loader = DataLoader(test_dataset, batch_size=8)
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, train_loader, args.device)
    return test_loader
""",
    )
    (found,) = project.found("train", "TPL402")
    assert found == (7, "TPL402", "engine.py", Safety.UNSAFE, ", pin_memory=torch.cuda.is_available()")


def test_a_loader_is_returned_to_another_file(project: Projects) -> None:
    project.write(
        data=DATA,
        main="""\
import torch

from data import get_data


def train(model, batches, optimizer, device):
    for x, y in batches:
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


def main(args, model, optimizer, dataset):
    batches = get_data(dataset)
    train(model, batches, optimizer, args.device)
""",
    )
    assert project.unpinned("data") == [(6, "main.py")]


@pytest.mark.parametrize(
    ("exported", "imported"),
    [("from .data import get_data\n", "from loading import get_data"), ("", "from loading.data import get_data")],
)
def test_a_loader_goes_from_its_file_by_way_of_a_second_one_to_a_third(
    project: Projects, exported: str, imported: str
) -> None:
    project.write(
        engine=ENGINE,
        **{"loading/__init__": exported, "loading/data": DATA},
        main=f"""\
{imported}
import engine


def main(args, model, optimizer, dataset):
    batches = get_data(dataset)
    for epoch in range(args.epochs):
        engine.train_one_epoch(model, optimizer, batches, args.device)
""",
    )
    assert project.unpinned("loading/data") == [(6, "engine.py")]


@pytest.mark.parametrize(
    ("returned", "used"),
    [
        ('{"train": train, "val": val}', 'loaders["train"]'),
        ("train, val", "loaders[0]"),
        ("[train, val]", "loaders[0]"),
    ],
)
def test_loaders_in_a_dictionary_a_tuple_or_a_list_are_told_apart_where_they_can_be(
    project: Projects, returned: str, used: str
) -> None:
    project.write(
        data=f"""{HEAD}

def get_loaders(train_set, val_set):
    train = DataLoader(train_set)
    val = DataLoader(val_set)
    return {returned}
""",
        engine=ENGINE,
        main=f"""\
from data import get_loaders
from engine import train_one_epoch


def main(args, model, optimizer, train_set, val_set):
    loaders = get_loaders(train_set, val_set)
    train_one_epoch(model, optimizer, {used}, args.device)
""",
    )
    assert project.unpinned("data") == [(6, "engine.py")]


def test_a_loader_is_an_attribute_of_an_object_of_another_file(project: Projects) -> None:
    project.write(
        data=f"""{HEAD}

class Data:
    def __init__(self, dataset):
        self.batches = DataLoader(dataset)
""",
        trainer="""\
class Trainer:
    def __init__(self, model, batches, device):
        self.model, self.batches, self.device = model, batches, device

    def run(self):
        for batch in self.batches:
            self.model(batch.to(self.device))
""",
        main="""\
from data import Data
from trainer import Trainer


def main(args, model, dataset):
    data = Data(dataset)
    Trainer(model, data.batches, args.device).run()
""",
    )
    assert project.unpinned("data") == [(7, "trainer.py")]


def test_a_loader_is_a_variable_that_another_file_imports(project: Projects) -> None:
    project.write(
        data=f"{HEAD}{FOLDER}\nbatches = DataLoader(ImageFolder('data'))\n",
        engine=ENGINE,
        main="""\
import torch

from data import batches
from engine import train_one_epoch


def main(args, model, optimizer):
    train_one_epoch(model, optimizer, batches, torch.device("cuda"))
""",
    )
    assert project.unpinned("data") == [(5, "engine.py")]


def test_a_framework_in_another_file_takes_the_loader(project: Projects) -> None:
    project.write(
        data=DATA,
        fitting="""\
import lightning as L

from data import get_data


def main(model, dataset):
    trainer = L.Trainer(accelerator="gpu")
    trainer.fit(model, get_data(dataset))
""",
    )
    (found,) = project.found("data", "TPL402")
    assert (found.row, found.because, found.safety) == (6, "fitting.py", Safety.UNSAFE)


def test_a_data_module_in_another_file_hands_on_the_loader(project: Projects) -> None:
    project.write(
        data=DATA,
        module="""\
import lightning as L

from data import get_data


class Module(L.LightningDataModule):
    def train_dataloader(self):
        return get_data(self.dataset)
""",
    )
    assert project.unpinned("data") == [(6, "module.py")]


@pytest.mark.parametrize(
    ("helper", "arguments", "body", "moves"),
    [
        ("move_to_cuda", "batch", "tensor.cuda()", True),
        ("move_to_cuda", "batch", "tensor.clone()", False),
        ("to_device", "batch, device", "tensor.to(device)", True),
        ("to_device", 'batch, "cpu"', "tensor.to(device)", False),
        ("move_to_cpu", "batch", 'tensor.to("cpu")', False),
    ],
)
def test_a_helper_of_another_file_moves_the_batches(
    project: Projects, helper: str, arguments: str, body: str, moves: bool
) -> None:
    project.write(
        helpers=f"def {helper}(sample, device=None):\n    return apply(lambda tensor: {body}, sample)\n",
        train=f"""{HEAD}from helpers import {helper}


def train(model, dataset, device):
    for batch in DataLoader(dataset):
        model(**{helper}({arguments}))
""",
    )
    assert project.unpinned("train") == ([(7, "")] if moves else [])


# -- where they do not go ------------------------------------------------------------------------------------------


def test_another_loader_is_moved(project: Projects) -> None:
    project.write(
        engine=ENGINE,
        train=f"""{HEAD}from engine import train_one_epoch


def main(args, model, optimizer, dataset, names):
    batches = DataLoader(dataset, pin_memory=True)
    for name in DataLoader(names):
        print(name)
    train_one_epoch(model, optimizer, batches, args.device)
""",
    )
    assert project.unpinned("train") == []


@pytest.mark.parametrize("program", ["tests/test_data", "benchmarks/run"])
def test_only_a_test_moves_them(project: Projects, program: str) -> None:
    project.write(
        data=DATA,
        **{program: "from data import get_data\n\nfor x in get_data([1]):\n    x.to('cuda')\n"},
    )
    assert project.unpinned("data") == []


def test_the_programs_that_move_them_run_on_another_accelerator(project: Projects) -> None:
    main = """\
import torch_xla
from data import get_data


def main(device):
    for x in get_data([1]):
        x.to(device)
"""
    project.write(data=DATA, main=main)
    assert project.unpinned("data") == []
    project.write(main=main.replace("torch_xla", "torch"))
    assert project.unpinned("data") == [(6, "main.py")]


def test_a_file_that_runs_elsewhere_hands_nothing_on(project: Projects) -> None:
    project.write(
        data=DATA,
        engine=ENGINE,
        main="""\
import torch_xla.core.xla_model as xm
from data import get_data
from engine import train_one_epoch


def main(model, optimizer, dataset):
    train_one_epoch(model, optimizer, get_data(dataset), xm.xla_device())
""",
    )
    assert project.unpinned("data") == []


def test_files_that_import_each_other_are_asked_once(project: Projects) -> None:
    project.write(
        data=f"""{HEAD}import engine


def get_data(dataset):
    return engine.wrapped(DataLoader(dataset))
""",
        engine="""\
import data


def wrapped(batches):
    return again(batches)


def again(batches):
    return wrapped(batches) if batches else data.get_data(batches)
""",
    )
    assert project.unpinned("data") == []


# -- how sure it is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "written"),
    [("", ", pin_memory=True"), ("torch.cuda.is_available()", ", pin_memory=torch.cuda.is_available()")],
)
def test_a_program_that_asks_for_cuda_anywhere_may_run_without_it(project: Projects, asks: str, written: str) -> None:
    project.write(
        engine="def train(model, batches):\n    for x in batches:\n        model(x.cuda())\n",
        train=f"""{HEAD}from torch.utils.data import TensorDataset
from engine import train


def main(model):
    {asks or "pass"}
    train(model, DataLoader(TensorDataset(torch.rand(8, 2))))
""",
    )
    (found,) = project.found("train", "TPL402")
    assert (found.safety, found.written) == (Safety.SAFE, written)


@pytest.mark.parametrize(
    ("collating", "moving", "safety"),
    [
        ("", "", Safety.SAFE),
        ("import scipy.sparse\n", "", Safety.UNSAFE),
        ("# no sparse matrix\n", "", Safety.SAFE),
        ("", "def is_whole(batch):\n    return isinstance(batch, tuple)\n\n\n", Safety.UNSAFE),
        ("", "# if isinstance(batch, tuple)\n", Safety.SAFE),
    ],
)
def test_what_speaks_against_pinning_may_stand_in_another_file(
    project: Projects, collating: str, moving: str, safety: Safety
) -> None:
    project.write(
        collation=f"{collating}def collate(samples):\n    return samples[0]\n",
        engine=moving + ENGINE,
        train=f"""{HEAD}from torch.utils.data import TensorDataset
from collation import collate
from engine import train_one_epoch


def main(args, model, optimizer):
    train_one_epoch(model, optimizer, DataLoader(TensorDataset(torch.rand(8, 2)), collate_fn=collate), args.device)
""",
    )
    (found,) = project.found("train", "TPL402")
    assert found.safety is safety


# -- what the samples are ------------------------------------------------------------------------------------------

READS = """\
class Samples:
    def __getitem__(self, index):
        return read(self.paths[index])
"""


def training_on(dataset: str, imports: str = "", arguments: str = "") -> str:
    return f"""{HEAD}from engine import train_one_epoch
{imports}

def main(args, model, optimizer):
    batches = DataLoader({dataset}{arguments})
    train_one_epoch(model, optimizer, batches, args.device)
"""


def test_the_dataset_is_a_class_of_another_file(project: Projects) -> None:
    project.write(engine=ENGINE, samples=READS, train=training_on("Samples()", "from samples import Samples\n"))
    assert project.without_workers("train") == [(8, "engine.py")]
    project.write(samples=READS.replace("read(self.paths[index])", "self.paths[index]"))
    assert project.without_workers("train") == []


def test_a_base_class_in_a_third_file_reads_the_samples(project: Projects) -> None:
    project.write(
        engine=ENGINE,
        base=READS,
        samples="from base import Samples\n\n\nclass Mine(Samples):\n    pass\n",
        train=training_on("Mine()", "from samples import Mine\n"),
    )
    assert project.without_workers("train") == [(8, "engine.py")]
    project.write(base=READS + "\n    def __iter__(self):\n        yield from self.paths\n")
    assert project.without_workers("train") == []


def test_a_stream_that_its_file_divides_among_workers_can_have_them(project: Projects) -> None:
    stream = "class Samples:\n    def __iter__(self):\n        {}yield 1\n"
    project.write(
        engine=ENGINE,
        samples=stream.format(""),
        collation="def collate(samples):\n    return samples\n",
        train=training_on(
            "Samples()", "from collation import collate\nfrom samples import Samples\n", ", collate_fn=collate"
        ),
    )
    assert project.without_workers("train") == []
    project.write(samples=stream.format("torch.utils.data.get_worker_info()\n        "))
    assert project.without_workers("train") == [(9, "engine.py")]


def test_the_other_file_has_to_train(project: Projects) -> None:
    project.write(engine=ENGINE, train=training_on("ImageFolder('data')", FOLDER))
    assert project.without_workers("train") == [(8, "engine.py")]
    project.write(engine=ENGINE.replace("loss.backward()", "print(loss)"))
    assert project.without_workers("train") == []


@pytest.mark.parametrize(
    "body", ["return self.x[index].cuda()", "return torch.tensor(self.x, device=self.device)", "return self.x.to(0)"]
)
def test_a_dataset_of_another_file_places_its_samples(project: Projects, body: str) -> None:
    project.write(
        engine=ENGINE,
        samples=f"import torch\n\n\nclass Samples:\n    def __getitem__(self, index):\n        {body}\n",
        train=training_on("Samples()", "from samples import Samples\n"),
    )
    assert project.found("train", "TPL401", "TPL402") == []


def test_a_collate_function_of_another_file_places_the_batch(project: Projects) -> None:
    collation = "import torch\n\n\ndef collate(samples):\n    return torch.stack(samples){}\n"
    project.write(
        engine=ENGINE,
        collation=collation.format(""),
        train=training_on("ImageFolder('data')", f"{FOLDER}from collation import collate\n", ", collate_fn=collate"),
    )
    assert [each.code for each in project.found("train", "TPL401", "TPL402")] == ["TPL401", "TPL402"]
    project.write(collation=collation.format(".cuda()"))
    assert project.found("train", "TPL401", "TPL402") == []


def test_the_file_of_the_dataset_builds_on_the_device_by_default(project: Projects) -> None:
    project.write(engine=ENGINE, samples=READS, train=training_on("Samples()", "from samples import Samples\n"))
    assert project.unpinned("train") == [(8, "engine.py")]
    project.write(samples=f"import torch\n\ntorch.set_default_device('cuda')\n\n\n{READS}")
    assert project.unpinned("train") == []


def test_tensors_of_a_dataset_that_another_file_builds_lie_where_they_were_put(project: Projects) -> None:
    data = """\
import torch
from torch.utils.data import TensorDataset


def get_dataset():
    x = torch.zeros(8, 2)
    return TensorDataset(x{})
"""
    project.write(
        engine=ENGINE, data=data.format(""), train=training_on("get_dataset()", "from data import get_dataset\n")
    )
    assert project.unpinned("train") == [(8, "engine.py")]
    project.write(data=data.format(".cuda()"))
    assert project.unpinned("train") == []


# -- copies of the batches -----------------------------------------------------------------------------------------


def copies(project: Projects, arguments: str) -> list[Safety | None]:
    project.write(
        data=f"{HEAD}\n\ndef get_data(dataset, merge):\n    return DataLoader(dataset, pin_memory=True{arguments})\n",
        engine=ENGINE,
        main="""\
from data import get_data
from engine import train_one_epoch


def main(args, model, optimizer, dataset, merge):
    train_one_epoch(model, optimizer, get_data(dataset, merge), "cuda")
""",
    )
    return [each.safety for each in project.found("engine", "TPL203")]


def test_batches_of_a_pinned_loader_of_another_file_are_copied_without_waiting(project: Projects) -> None:
    assert copies(project, "") == [Safety.SAFE, Safety.SAFE]


def test_batches_of_a_collate_function_may_be_anything(project: Projects) -> None:
    assert copies(project, ", collate_fn=merge") == [Safety.UNSAFE, Safety.UNSAFE]
