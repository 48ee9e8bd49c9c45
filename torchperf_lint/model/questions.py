"""The queries about one file that rules make, by libcst node: yes, no or unknown, with evidence."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import distributions_api, topics
from torchperf_lint.knowledge.loading import DATALOADER_HOOKS
from torchperf_lint.model import flow, programs
from torchperf_lint.model.domain.frequency import Frequency, HotPath
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.model.project.file_symbols import topics_of
from torchperf_lint.model.sites import SiteModel
from torchperf_lint.model.syntax import scope
from torchperf_lint.model.syntax.backward import names_sent_backward
from torchperf_lint.model.syntax.index import FunctionInfo, dotted, last_name
from torchperf_lint.model.values import distributions
from torchperf_lint.model.values.devices import named_device
from torchperf_lint.syntax.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.domain.interfaces import FileQuestions
    from torchperf_lint.model.domain.loaders import Route, Samples
    from torchperf_lint.model.syntax.index import ClassInfo, Index
    from torchperf_lint.model.values.objects import Objects
    from torchperf_lint.syntax import cst

__all__ = ["Because", "Device", "Frequency", "HotPath", "Kind", "Model", "Site", "Value"]


class Model(SiteModel):
    """The semantic queries about one file. Each result is computed on demand."""

    def __init__(self, analyzed: FileQuestions, target: Target) -> None:
        """`target` says which torch and torchmetrics the project runs on."""
        super().__init__(analyzed, target)
        self._objects: Objects | None = None
        self._models: dict[Index, Model] = {analyzed.index: self}

    def take_apart(self) -> None:
        """Drop all answers at once; no question is allowed afterwards. The garbage collector would take far longer."""
        for model in list(self._models.values()):
            vars(model).clear()

    # -- meaning ---------------------------------------------------------------------------------------------------

    def device_named(self, node: cst.CSTNode) -> Device:
        """The device that an expression in the place of a device names, by its value or its name."""
        meaning = self.ast_of(node)
        named = None if meaning is None else named_device(meaning, self.value(node))
        return named or Device.UNKNOWN

    def on_device(self, node: cst.CSTNode) -> tuple[Because, ...] | None:
        """Evidence that the expression is a tensor (or holds tensors) on the accelerator; None if there is none.

        An empty tuple means that it is known, but no single place shows it.
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
        return meaning is not None and self.is_certain_number(self.place(node).function, meaning)

    def sent_backward(self, node: cst.CSTNode) -> bool:
        """Whether the enclosing function calls `.backward()` on the expression's name: then it is a tensor."""
        meaning = self.ast_of(node)
        return meaning is not None and dotted(meaning) in names_sent_backward(self.place(node).function)

    def creation(self, value: Value) -> Site | None:
        """The call in this file that created the object (a metric, a loader, a module); None if unknown."""
        created = value.created
        if created is None:
            return None
        records = self.calls_named(last_name(created.func) or "")
        statement = next((record.statement for record in records if record.call is created), None)
        return None if statement is None else self.site_at(created, statement)

    def object_calls(self, value: Value) -> tuple[list[tuple[str, Site]], Because | None]:
        """All calls on the object in this file, by method name, and the place where the object escapes.

        `__call__` stands for a call of the object itself. If the object escapes (it is returned, passed to code outside
        the file, ...), there may be further calls.
        """
        if value.created is None:
            return [], Because(1, "it is not known where the object is made")
        if self._objects is None:
            from torchperf_lint.model.values.objects import Objects

            self._objects = Objects(self._inference)
        calls, escape = self._objects.trace(value.created)
        found = []
        for name, call in calls:
            record = next(r for r in self._index.calls[last_name(call.func) or ""] if r.call is call)
            site = self.site_at(call, record.statement)
            if site is None:
                escape = escape or Because(call.lineno, "this call cannot be read")
            else:
                found.append((name, site))
        return found, escape

    # -- execution frequency -------------------------------------------------------------------------------------------

    def hot_path(self, site: Site) -> HotPath | None:
        """The loop, hook or call path that runs the site in every step; None if not hot, unknown or sampled."""
        statement = self.statement_of(site.node)
        in_part = statement in self._index.lambdas or statement in self._index.comprehensions
        part = self.ast_of(site.node) if in_part else None
        return self.hot_path_of(statement) if part is None else self._frequency.of_part(statement, part)

    def runs_in_calls(self, site: Site) -> bool:
        """Whether the site is in a lambda whose calls are known, and runs in these rather than with its statement."""
        node = self.ast_of(site.node)
        return node is not None and self._frequency.runs_in_calls(self.statement_of(site.node), node)

    def in_lightning_module(self, site: Site) -> bool:
        """Whether the site is in a method of a LightningModule."""
        cls = self.function_of(site).cls
        return cls is not None and self.is_lightning_module(cls)

    def framework(self, site: Site) -> str | None:
        """A framework's contract for the enclosing function, in words (`Lightning calls ...`), if there is one."""
        contract = self.contract(self.function_of(site))
        return None if contract is None else contract.says

    def function_name(self, site: Site) -> str:
        """The name of the enclosing function (`<module>` at the top level)."""
        return self.function_of(site).name

    def in_test(self, site: Site) -> bool:
        """Whether the site is in a test: a function `test_...` that no framework calls, or a method of a TestCase."""
        function = self.function_of(site)
        is_hook = (function.cls is not None and function.name in DATALOADER_HOOKS) or (
            self.contract(function) is not None
        )
        if function.name.startswith("test_") and not is_hook:
            return True
        return any(base.endswith("TestCase") for base in self.class_bases(site))

    def class_bases(self, site: Site) -> list[str]:
        """Qualified names of the library bases of the enclosing class."""
        cls = self.function_of(site).cls
        return [] if cls is None else list(self.library_bases(cls))

    # -- loading ---------------------------------------------------------------------------------------------------

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file runs only on the CPU, or on accelerators other than CUDA."""
        return self._analyzed.loading.runs_elsewhere

    def loader_route(self, site: Site) -> Route | None:
        """Evidence that the batches of the loader created at the site go to an accelerator; None if there is none."""
        loader = self.ast_of(site.node)
        return self.route_of(loader) if isinstance(loader, ast.Call) else None

    def route_of(self, loader: ast.Call) -> Route | None:
        """The same for the call that creates a loader, which may stand in any file."""
        return self._analyzed.loading.route(loader)

    def models_of_loader(self, loader: ast.Call) -> Iterator[Model]:
        """The files that the loader created by this call of the file reaches, this one first."""
        return map(self._model_of, self._analyzed.loading.files(loader))

    def loader_samples(self, site: Site) -> Samples:
        """What is known of the samples that the loader created at the site reads."""
        loader = self.ast_of(site.node)
        assert isinstance(loader, ast.Call)
        return self._analyzed.loading.samples(loader, self.function_of(site))

    def binds(self, name: str, site: Site) -> bool:
        """Whether the enclosing function itself binds the name, other than as a parameter."""
        function = self.function_of(site)
        return function is not self.top and name in function.bound_names[len(function.parameter_names) :]

    def named(self, name: str, site: Site) -> Value:
        """The value of a plain name at the end of the enclosing function; UNKNOWN if the name is not in scope."""
        frame = self._inference.frame(self.function_of(site))
        value = frame.env.get(name)
        if value is None:
            value = self._inference.names.free(frame, name)
        return UNKNOWN if value is None else value

    # -- flow ------------------------------------------------------------------------------------------------------

    def uses(self, name: str, site: Site, hot_path: HotPath) -> flow.NameUses:
        """The uses of `name` in the enclosing function, related to the loop of `hot_path`."""
        function = self.function_of(site)
        made = self.remember(("occurrences", function), lambda: flow.Occurrences(function, self._index, self.source))
        key = ("uses", name, function, hot_path.loop)
        return self.remember(key, lambda: flow.uses_of(name, hot_path.loop, made, self._frequency))

    def name_of(self, ref: str, site: Site) -> str | None:
        """A name that refers to a library module at the site; None if there is none."""
        function: FunctionInfo | None = self.function_of(site)
        statement = self.statement_of(site.node)
        hidden = scope.bound_around(self.ast_of(site.node), statement)
        while function is not None:
            env = self._inference.frame(function).env
            named = [name for name, value in env.items() if value.ref == ref and value.kind is Kind.LIBRARY]
            for name in sorted(named, key=lambda name: (name != ref, name)):
                if name in hidden or not name.isidentifier():
                    continue
                if scope.imported_by_then(name, statement, function, self._index):
                    return name
            hidden |= set(env)
            function = function.outer
        return None

    def keeps_builtin(self, name: str) -> bool:
        """Whether nothing in the file rebinds the builtin's name."""
        return not self._index.note(("binds", name), lambda: scope.binds(self._index, name, self.source.text))

    # -- other files -----------------------------------------------------------------------------------------------

    def home(self, owner: FunctionInfo | ClassInfo) -> Model:
        """The same questions about the file of the function or class, as that file itself would ask them."""
        return self._model_of(owner.index)

    @functools.cached_property
    def with_neighbours(self) -> list[Model]:
        """This file, then those that import it and those that it imports."""
        program = self._analyzed.program
        around = [] if program is None else program.neighbours(self._index)
        return [self, *map(self._model, around)]

    def is_overridden(self, function: FunctionInfo) -> bool:
        """Whether a class of the file, or of one next to it, has another method of that name in its place."""
        cls = function.cls
        return cls is not None and any(
            other is not cls and function.name in other.methods and cls in near.lineage(other)
            for near in self.with_neighbours
            for other in near.classes_with(function.name)
        )

    def models_making(self, cls: ClassInfo, taker: str) -> list[Model]:
        """The other files that make objects of the class, and call something named `taker`."""
        program = self._analyzed.program
        return [] if program is None else [self._model(analyzed) for analyzed in program.making(cls, taker)]

    def _model_of(self, index: Index) -> Model:
        program = self._analyzed.program
        if index in self._models or program is None:
            return self._models.get(index, self)
        return self._model(program.file_of(index))

    def _model(self, analyzed: FileQuestions) -> Model:
        model = self._models.get(analyzed.index)
        if model is None:
            model = self._models[analyzed.index] = Model(analyzed, self.target)
            model._models = self._models
        return model

    # -- project ---------------------------------------------------------------------------------------------------

    def called_anywhere(self, *names: str) -> bool:
        """Whether a file of the project calls something by one of these names; an unreadable file counts as yes."""
        program = self._analyzed.program
        return any(
            name in self.called_names or (program is not None and program.calls_name(name, self._index))
            for name in names
        )

    def is_cuda(self, device: Device) -> bool:
        """Whether the device can only be CUDA: it is CUDA explicitly, or no file mentions another accelerator and
        either the device is meant as CUDA or the program needs it.
        """
        if device is Device.CUDA or not device.on_accelerator:
            return device is Device.CUDA
        return not self.names_other_accelerators and (device.is_cuda or self._needs_cuda)

    @functools.cached_property
    def _needs_cuda(self) -> bool:
        return programs.needs_cuda(self._analyzed)

    @property
    def names_other_accelerators(self) -> bool:
        """Whether the project mentions an accelerator other than CUDA, such as Apple's MPS, which has no float64."""
        return self._project_speaks_of(topics.OTHER_ACCELERATORS)

    @property
    def may_be_traced(self) -> bool:
        """Whether the project traces or exports: devices and sizes become constants of such a graph."""
        return self._project_speaks_of(topics.TRACED)

    @property
    def may_be_scripted(self) -> bool:
        """Whether the project makes TorchScript of its functions."""
        return self._project_speaks_of(topics.SCRIPTED)

    @property
    def scripts_values(self) -> bool:
        """Whether the project makes TorchScript of what is not marked for it where it is defined."""
        return self._project_speaks_of(topics.SCRIPTS_VALUES)

    @property
    def checks_distributions(self) -> bool:
        """Whether distributions check what they get, unless told otherwise: nothing in the project changes that."""
        is_default = self.target.torch_is(distributions_api.CHECKS_BY_DEFAULT) is not False
        is_kept = not self.called_anywhere(*distributions_api.SWITCHES_ALL)
        return is_default and is_kept and not self._project_speaks_of(topics.CHECKS_OFF)

    def is_checked(self, distribution: Value) -> bool:
        """Whether a distribution checks what it gets, as the call that makes it shows."""
        return self.checks_distributions and distributions.keeps_check(distribution)

    @property
    def defines_cuda(self) -> bool:
        """Whether the project has a function or method `cuda`, of objects that are no tensors."""
        return self._project_speaks_of(topics.DEFINES_CUDA)

    def _project_speaks_of(self, topic: str) -> bool:
        program = self._analyzed.program
        if program is None:
            return topic in topics_of(self.source.utf8, ())
        return program.speaks_of(topic, self._index)

    def has_method(self, value: Value, name: str) -> bool:
        """Whether the value's class, or a base of it in the project, defines the method."""
        return value.cls is not None and self.method(value.cls, name) is not None

    # -- what the code names ---------------------------------------------------------------------------------------

    def mentions(self, *words: str) -> bool:
        """Whether any of the texts occurs in the file, comments included.

        This is a prefilter, like a rule's triggers: the rule then queries the program itself. Use `code`, which ignores
        comments and prose, for what suppresses a finding or decides how safe a fix is.
        """
        for word in words:
            self._index.reads.asks("contains", word)
        return self.remember(("mentions", words), lambda: any(word in self.source.text for word in words))
