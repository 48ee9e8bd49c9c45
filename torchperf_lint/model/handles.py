"""What idioms and rules hold of the model beside `Model` and its values: plain data, and questions about form alone."""

from __future__ import annotations

from torchperf_lint.model.callgraph.callbacks import without_partial
from torchperf_lint.model.callgraph.frameworks import transforms_samples
from torchperf_lint.model.callgraph.reaching import reaches
from torchperf_lint.model.domain.accelerator_tests import asks_about_accelerator
from torchperf_lint.model.domain.frequency import Loop
from torchperf_lint.model.domain.loaders import Route, Samples
from torchperf_lint.model.flow import NameUses, Use
from torchperf_lint.model.frequency.sampling_guards import is_sampling_guard
from torchperf_lint.model.sites import HotExpression
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.backward import names_sent_backward
from torchperf_lint.model.syntax.code import Code, Vocabulary
from torchperf_lint.model.syntax.hostdata import is_host_data
from torchperf_lint.model.syntax.index import AttributeStore, Block, CallRecord, ClassInfo, FunctionInfo, Place
from torchperf_lint.model.syntax.names import asks_for_tensor, assigned_to, dotted, given_to, last_name, names_in
from torchperf_lint.model.syntax.scope import names_bound_in
from torchperf_lint.model.values.devices import as_device, named_device
from torchperf_lint.model.values.narrowing import runs_eagerly
from torchperf_lint.model.values.tensors import is_whole

__all__ = [
    "AttributeStore",
    "Block",
    "CallRecord",
    "ClassInfo",
    "Code",
    "FunctionInfo",
    "HotExpression",
    "Loop",
    "NameUses",
    "Place",
    "Route",
    "Samples",
    "Use",
    "Vocabulary",
    "as_device",
    "asks_for_tensor",
    "assigned_to",
    "asks_about_accelerator",
    "dotted",
    "given_for",
    "given_to",
    "is_host_data",
    "is_sampling_guard",
    "is_whole",
    "last_name",
    "named_device",
    "names_bound_in",
    "names_in",
    "names_sent_backward",
    "reaches",
    "runs_eagerly",
    "transforms_samples",
    "without_partial",
]
