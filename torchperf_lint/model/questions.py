"""The questions about one file, by libcst node: yes, no or unknown, with what shows it."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import topics
from torchperf_lint.knowledge.loading import DATALOADER_HOOKS
from torchperf_lint.model import flow, programs
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.frequency import Frequency, HotPath
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.model.frequency import numbers
from torchperf_lint.model.project.file_symbols import topics_of
from torchperf_lint.model.sites import SiteModel
from torchperf_lint.model.syntax import scope
from torchperf_lint.model.syntax.index import FunctionInfo, dotted, last_name
from torchperf_lint.model.values.devices import named_device
from torchperf_lint.model.values.statements import names_sent_backward
from torchperf_lint.syntax.site import Site

if TYPE_CHECKING:
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.domain.interfaces import FileQuestions
    from torchperf_lint.model.domain.loaders import Route, Samples
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.values.objects import Objects
    from torchperf_lint.syntax import cst

__all__ = ["Because", "Device", "Frequency", "HotPath", "Kind", "Model", "Site", "Value"]


class Model(SiteModel):
    """Answers questions about one file. Nothing is computed before it is asked for."""

    def __init__(self, analyzed: FileQuestions, target: Target) -> None:
        """`target` says which torch and torchmetrics the project runs on."""
        super().__init__(analyzed, target)
        self._objects: Objects | None = None
        self._loading = analyzed.loading
        self.analyzed = analyzed

    # -- meaning ---------------------------------------------------------------------------------------------------

    def device_named(self, node: cst.CSTNode) -> Device:
        """The device that an expression names where a device is expected, by its value or its name."""
        meaning = self.ast_of(node)
        named = None if meaning is None else named_device(meaning, self.value(node))
        return named or Device.UNKNOWN

    def on_device(self, node: cst.CSTNode) -> tuple[Because, ...] | None:
        """What shows that the expression is a tensor (or holds tensors) on the accelerator; None if nothing does.

        An empty tuple means that it is known without a single place to point to.
        """
        value = self.value(node)
        # A field of a model's output (`outputs.logits`) is a tensor if the program treats it as one.
        is_field = value.kind is Kind.METHOD and value.element is not None and value.element.kind is Kind.PYTREE
        is_moved_object = (value.kind is Kind.UNKNOWN or is_field) and value.device.on_accelerator
        if (value.holds_tensors or is_moved_object) and value.device.on_accelerator:
            return value.because
        return None

    def certain_number(self, node: cst.CSTNode) -> bool:
        """Whether the expression is a Python number on every path: no parameter meant to be one, no NumPy scalar."""
        meaning = self.ast_of(node)
        if meaning is None:
            return False
        function = self.index.places[self.statement_of(node)].function
        return numbers.is_certain(meaning, function, self.inference, self.frequency)

    def sent_backward(self, node: cst.CSTNode) -> bool:
        """Whether the function around calls `.backward()` on what the expression names: then it is a tensor."""
        meaning = self.ast_of(node)
        function = self.index.places[self.statement_of(node)].function
        return meaning is not None and dotted(meaning) in names_sent_backward(function)

    def creation(self, value: Value) -> Site | None:
        """The call in this file that made the object (a metric, a loader, a module); None if it is not known."""
        created = value.created
        if created is None:
            return None
        records = self.index.calls.get(last_name(created.func) or "", ())
        statement = next((record.statement for record in records if record.call is created), None)
        return None if statement is None else self.site_at(created, statement)

    def object_calls(self, value: Value) -> tuple[list[tuple[str, Site]], Because | None]:
        """Every call that the file makes on the object, by method name, and where the object leaves sight.

        `__call__` names a call of the object itself. With a place where it leaves sight (it is returned, given
        to code outside the file, ...) there may be more calls than these.
        """
        if value.created is None:
            return [], Because(1, "it is not known where the object is made")
        if self._objects is None:
            from torchperf_lint.model.values.objects import Objects

            self._objects = Objects(self.inference)
        calls, escape = self._objects.trace(value.created)
        found = []
        for name, call in calls:
            record = next(r for r in self.index.calls[last_name(call.func) or ""] if r.call is call)
            site = self.site_at(call, record.statement)
            if site is None:
                escape = escape or Because(call.lineno, "this call cannot be read")
            else:
                found.append((name, site))
        return found, escape

    # -- heat ------------------------------------------------------------------------------------------------------

    def hot_path(self, site: Site) -> HotPath | None:
        """The loop, hook or call path that runs the site in every step; None if cold, unknown or throttled."""
        return self.frequency.of(self.statement_of(site.node))

    def in_lightning_module(self, site: Site) -> bool:
        """Whether the site stands in a method of a LightningModule."""
        cls = self.function_of(site).cls
        return cls is not None and frameworks.is_lightning_module(self.inference, cls)

    def framework(self, site: Site) -> str | None:
        """What a framework promises about the function around the site (`Lightning calls ...`), if one does."""
        contract = self.inference.contract(self.function_of(site))
        return None if contract is None else contract.says

    def function_name(self, site: Site) -> str:
        """The name of the function around the site (`<module>` at the top level)."""
        return self.function_of(site).name

    def in_test(self, site: Site) -> bool:
        """Whether the site stands in a test: a function `test_...` that no framework calls, a method of a TestCase."""
        function = self.function_of(site)
        is_hook = (function.cls is not None and function.name in DATALOADER_HOOKS) or (
            self.inference.contract(function) is not None
        )
        if function.name.startswith("test_") and not is_hook:
            return True
        return any(base.endswith("TestCase") for base in self.class_bases(site))

    def class_bases(self, site: Site) -> list[str]:
        """Qualified names of the library bases of the class around the site."""
        cls = self.function_of(site).cls
        return [] if cls is None else self.inference.library_bases(cls)

    # -- loading ---------------------------------------------------------------------------------------------------

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file is bound to the CPU, or to accelerators other than CUDA."""
        return self._loading.runs_elsewhere

    def loader_route(self, site: Site) -> Route | None:
        """What shows that the batches of the loader built at the site go to an accelerator; None if nothing does."""
        loader = self.ast_of(site.node)
        return self._loading.route(loader) if isinstance(loader, ast.Call) else None

    def loader_samples(self, site: Site) -> Samples:
        """What can be told of the samples that the loader built at the site reads."""
        loader = self.ast_of(site.node)
        assert isinstance(loader, ast.Call)
        return self._loading.samples(loader, self.function_of(site))

    def binds(self, name: str, site: Site) -> bool:
        """Whether the function around the site itself binds the name, other than as a parameter."""
        function = self.function_of(site)
        own = self.index.bound_names(function)[len(function.parameter_names) :]
        return function is not self.index.module and name in own

    def named(self, name: str, site: Site) -> Value:
        """What a plain name is at the end of the function around the site: UNKNOWN if the function cannot see it."""
        frame = self.inference.frame(self.function_of(site))
        value = frame.env.get(name)
        if value is None:
            value = self.inference.names.free(frame, name)
        return UNKNOWN if value is None else value

    # -- flow ------------------------------------------------------------------------------------------------------

    def uses(self, name: str, site: Site, hot_path: HotPath) -> flow.NameUses:
        """Where `name` occurs in the function around the site, related to the loop of `heat`."""
        function = self.function_of(site)
        made = self.remember(("occurrences", function), lambda: flow.Occurrences(function, self.index, self.source))
        key = ("uses", name, function, hot_path.loop)
        return self.remember(key, lambda: flow.uses_of(name, hot_path.loop, made, self.frequency))

    def name_of(self, ref: str, site: Site) -> str | None:
        """A name under which a library module can be reached at the site; None if there is none."""
        function: FunctionInfo | None = self.function_of(site)
        statement = self.statement_of(site.node)
        hidden = scope.bound_around(self.ast_of(site.node), statement)
        while function is not None:
            env = self.inference.frame(function).env
            for name in sorted(env, key=lambda name: (name != ref, name)):
                value = env[name]
                if value.kind is not Kind.LIBRARY or value.ref != ref or name in hidden or not name.isidentifier():
                    continue
                if scope.imported_by_then(name, statement, function, self.index):
                    return name
            hidden |= set(env)
            function = function.outer
        return None

    def keeps_builtin(self, name: str) -> bool:
        """Whether nothing in the file gives the name of a builtin another meaning."""
        return not scope.binds(self.index, name, self.source.text)

    def called_anywhere(self, *names: str) -> bool:
        """Whether a file of the project calls something by one of these names; one that cannot be read may."""
        program = self.analyzed.program
        return any(
            name in self.index.calls or (program is not None and program.calls_name(name, self.index)) for name in names
        )

    def is_cuda(self, device: Device) -> bool:
        """Whether it can be no accelerator but CUDA: the program needs CUDA, and no file names another one."""
        if device is Device.CUDA or not device.on_accelerator:
            return device is Device.CUDA
        return not self.names_other_accelerators and (device.is_cuda or self._needs_cuda)

    @functools.cached_property
    def _needs_cuda(self) -> bool:
        return programs.needs_cuda(self.analyzed)

    @property
    def names_other_accelerators(self) -> bool:
        """Whether the project speaks of an accelerator that is not CUDA, such as Apple's MPS, which has no float64."""
        return self._project_speaks_of(topics.OTHER_ACCELERATORS)

    @property
    def may_be_traced(self) -> bool:
        """Whether the project traces or exports: places and sizes in Python are constants of such a graph."""
        return self._project_speaks_of(topics.TRACED)

    def _project_speaks_of(self, topic: str) -> bool:
        program = self.analyzed.program
        if program is None:
            return topic in topics_of(self.source.utf8, ())
        return program.speaks_of(topic, self.index)

    def has_method(self, value: Value, name: str) -> bool:
        """Whether the value's class, or a base of it in the project, defines the method."""
        return value.cls is not None and self.inference.method(value.cls, name) is not None

    @property
    def path(self) -> str:
        """The file's path, as evidence names it."""
        return self.index.path

    # -- what the code names ---------------------------------------------------------------------------------------

    @property
    def code(self) -> Code:
        """What the file's code names: whether it calls, imports, assigns or passes something anywhere."""
        return self.analyzed.code

    def mentions(self, *words: str) -> bool:
        """Whether any of the texts occurs in the file's text, be it in a comment.

        It may spare a rule the work, as its triggers do: what it wakes asks the program itself. What silences a rule,
        or decides how safe a fix is, is asked of `code`, for which comments and prose do not count.
        """
        return self.remember(("mentions", words), lambda: any(word in self.source.text for word in words))
