"""The semantic model of one file: what rules may ask, by libcst node, with answers of yes, no or unknown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.knowledge import conventions
from torchperf_lint.knowledge.loading import DATALOADER_HOOKS
from torchperf_lint.model import (
    epochs,
    flow,
    frameworks,
    guards,
    in_workers,
    meters,
    numbers,
    placing,
    sample_code,
    scope,
    scripts,
    unguarded,
    walks,
    writes,
)
from torchperf_lint.model.devices import named_device
from torchperf_lint.model.heat import Heat
from torchperf_lint.model.index import FunctionInfo, dotted, last_name
from torchperf_lint.model.sites import SiteModel
from torchperf_lint.model.statements import names_sent_backward
from torchperf_lint.model.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.syntax.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.loading import Route, Samples
    from torchperf_lint.model.objects import Objects
    from torchperf_lint.model.unit import Unit
    from torchperf_lint.syntax import cst

__all__ = ["Because", "Device", "Heat", "Kind", "Model", "Site", "Value"]


class Model(SiteModel):
    """Answers questions about one file. Nothing is computed before it is asked for."""

    def __init__(self, unit: Unit, target: Target) -> None:
        """`target` says which torch and torchmetrics the project runs on."""
        super().__init__(unit, target)
        self._objects: Objects | None = None
        self._loading = unit.loading
        self._unit = unit

    # -- meaning ---------------------------------------------------------------------------------------------------

    def device_named(self, node: cst.CSTNode) -> Device:
        """The device that an expression names where a device is expected, by its value or its name."""
        meaning = self._ast_of(node)
        named = None if meaning is None else named_device(meaning, self.value(node))
        return named or Device.UNKNOWN

    def on_device(self, node: cst.CSTNode) -> tuple[Because, ...] | None:
        """What shows that the expression is a tensor (or holds tensors) on the accelerator; None if nothing does.

        An empty tuple means that it is known without a single place to point to.
        """
        value = self.value(node)
        # A field of a model's output (`outputs.logits`) is a tensor if the program treats it as one.
        is_field = value.kind is Kind.METHOD and value.element is not None and value.element.kind is Kind.STRUCTURE
        is_moved_object = (value.kind is Kind.UNKNOWN or is_field) and value.device.on_accelerator
        if (value.holds_tensors or is_moved_object) and value.device.on_accelerator:
            return value.because
        return None

    def certain_number(self, node: cst.CSTNode) -> bool:
        """Whether the expression is a Python number on every path: no parameter meant to be one, no NumPy scalar."""
        meaning = self._ast_of(node)
        if meaning is None:
            return False
        function = self._index.places[self._statement_of[id(node)]].function
        return numbers.is_certain(meaning, function, self._world, self._heat)

    def sent_backward(self, node: cst.CSTNode) -> bool:
        """Whether the function around calls `.backward()` on what the expression names: then it is a tensor."""
        meaning = self._ast_of(node)
        function = self._index.places[self._statement_of[id(node)]].function
        return meaning is not None and dotted(meaning) in names_sent_backward(function)

    def creation(self, value: Value) -> Site | None:
        """The call in this file that made the object (a metric, a loader, a module); None if it is not known."""
        created = value.created
        if created is None:
            return None
        records = self._index.calls.get(last_name(created.func) or "", ())
        statement = next((record.statement for record in records if record.call is created), None)
        return None if statement is None else self._site(created, statement)

    def object_calls(self, value: Value) -> tuple[list[tuple[str, Site]], Because | None]:
        """Every call that the file makes on the object, by method name, and where the object leaves sight.

        `__call__` names a call of the object itself. With a place where it leaves sight (it is returned, given
        to code outside the file, ...) there may be more calls than these.
        """
        if value.created is None:
            return [], Because(1, "it is not known where the object is made")
        if self._objects is None:
            from torchperf_lint.model.objects import Objects

            self._objects = Objects(self._world)
        calls, escape = self._objects.trace(value.created)
        found = []
        for name, call in calls:
            record = next(r for r in self._index.calls[last_name(call.func) or ""] if r.call is call)
            site = self._site(call, record.statement)
            if site is None:
                escape = escape or Because(call.lineno, "this call cannot be read")
            else:
                found.append((name, site))
        return found, escape

    # -- heat ------------------------------------------------------------------------------------------------------

    def heat(self, site: Site) -> Heat | None:
        """The loop, hook or call path that runs the site in every step; None if cold, unknown or throttled."""
        return self._heat.of(self._statement_of[id(site.node)])

    def in_any_case(self, site: Site) -> bool:
        """Whether the hot site runs without a condition that the program's user chooses: no flag, no memory limit."""
        statement = self._statement_of[id(site.node)]
        return guards.runs_in_any_case(self._heat, statement, self._function(site))

    def in_every_run(self, site: Site) -> bool:
        """Whether the site runs in every run of the program: under no flag, in no handler, through no such call."""
        return guards.is_unconditional(self._world, self._statement_of[id(site.node)], self._function(site))

    def has_fallback(self, site: Site) -> bool:
        """Whether the site stands in a `try` with handlers, or under a question about versions."""
        return guards.has_fallback(self._statement_of[id(site.node)], self._index)

    def environment_set(self, *names: str) -> Iterator[tuple[Site, str, str]]:
        """Assignments `os.environ["NAME"] = "value"` for these names: the target's site, the name and the value."""
        for target, statement, value in guards.settings_made(self._index, names):
            site = self._site(target, statement)
            if site is not None:
                yield site, target.slice.value, value  # type: ignore[attr-defined]

    def holds_whole_training(self, site: Site) -> bool:
        """Whether the site opens a `with` around a training loop that runs to its end."""
        statement = self._statement_of[id(site.node)]
        return isinstance(statement, ast.With) and any(
            self._loops.classify(node, self._function(site)).trains
            and not any(isinstance(inner, (ast.Break, ast.Return)) for inner in ast.walk(node))
            for node in ast.walk(statement)
            if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        )

    def takes_models_away(self, site: Site) -> bool:
        """Whether the function around the site moves models to the host or deletes them: others need the room."""
        return writes.takes_models_away(self, self._function(site))

    def in_every_training_step(self, site: Site) -> tuple[Because, ...] | None:
        """What shows that each training step runs the site; None if a condition, known or not, may prevent that."""
        return unguarded.in_every_training_step(self._unit, self._statement_of[id(site.node)])

    def throttled(self, site: Site) -> bool:
        """Whether only a throttle (every n steps, a log flag, ...) keeps the site from running in every step."""
        return self._heat.throttled(self._statement_of[id(site.node)])

    def step_counter(self, site: Site) -> str | None:
        """The name that counts the passes of the batch loop around the site (`for i, batch in enumerate(...)`)."""
        heat = self.heat(site)
        loop = heat.loop if heat is not None else None
        if (
            not isinstance(loop, ast.For)
            or not isinstance(loop.target, ast.Tuple)
            or not isinstance(loop.iter, ast.Call)
        ):
            return None
        counter = loop.target.elts[0]
        counted = any(
            isinstance(node, ast.Call) and last_name(node.func) == "enumerate" for node in ast.walk(loop.iter)
        )
        return counter.id if counted and isinstance(counter, ast.Name) else None

    def inner_walks(self, site: Site) -> list[tuple[set[str], str | None]]:
        """The `for` loops around the site below its batch loop: the names each binds, innermost first.

        With them goes the text of what the loop walks over, if that is a tensor (or zipped or counted tensors).
        """
        return walks.inner(self._statement_of[id(site.node)], self._function(site), self._world, self._loops)

    def chosen_for_device(self, site: Site) -> bool:
        """Whether the site stands in a branch of an `if` that asks whether, or which, accelerator is used."""
        return walks.chosen_for_device(self._statement_of[id(site.node)], self._index)

    def statement_lines(self, site: Site) -> tuple[int, int] | None:
        """First and last row of the site's simple statement, if it has its rows to itself."""
        statement = self._statement_of[id(site.node)]
        rows = (statement.lineno, statement.end_lineno or statement.lineno)
        return rows if isinstance(statement, (ast.Expr, ast.Assign)) and rows == site.rows else None

    def in_lightning_module(self, site: Site) -> bool:
        """Whether the site stands in a method of a LightningModule."""
        cls = self._function(site).cls
        return cls is not None and frameworks.is_lightning_module(self._world, cls)

    def framework(self, site: Site) -> str | None:
        """What a framework promises about the function around the site (`Lightning calls ...`), if one does."""
        contract = frameworks.contract_of(self._world, self._function(site))
        return None if contract is None else contract.says

    def function_name(self, site: Site) -> str:
        """The name of the function around the site (`<module>` at the top level)."""
        return self._function(site).name

    def in_test(self, site: Site) -> bool:
        """Whether the site stands in a test: a function `test_...` that no framework calls, a method of a TestCase."""
        function = self._function(site)
        is_hook = (function.cls is not None and function.name in DATALOADER_HOOKS) or (
            frameworks.contract_of(self._world, function) is not None
        )
        if function.name.startswith("test_") and not is_hook:
            return True
        return any(base.endswith("TestCase") for base in self.class_bases(site))

    def class_bases(self, site: Site) -> list[str]:
        """Qualified names of the library bases of the class around the site."""
        cls = self._function(site).cls
        return [] if cls is None else self._world.library_bases(cls)

    def is_meter(self, value: Value, name: str) -> bool:
        """Whether a value is an average meter: its class keeps a sum and a count, or meters; else by the names."""
        if value.cls is not None:
            kept = set(value.cls.attributes)
            return {"sum", "count"} <= kept or {"total", "count"} <= kept or "meters" in kept
        named = (value.ref or "").rpartition(".")[2]
        return named in conventions.METER_CLASSES or name.lower().endswith(("meter", "metric_logger"))

    def has_method(self, value: Value, name: str) -> bool:
        """Whether the value's class, or a base of it in the project, defines the method."""
        return value.cls is not None and self._world.method(value.cls, name) is not None

    def only_adds_up(self, value: Value, method: str, parameter: int | str) -> bool:
        """Whether a method of the value's class, which is in this file, only reckons with the parameter and stores it.

        The parameter is named, or counted from 0 behind `self`.
        """
        return value.cls is not None and meters.only_adds_up(self._world, value.cls, method, parameter)

    # -- loading ---------------------------------------------------------------------------------------------------

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file is bound to the CPU, or to accelerators other than CUDA."""
        return self._loading.runs_elsewhere

    def loader_route(self, site: Site) -> Route | None:
        """What shows that the batches of the loader built at the site go to an accelerator; None if nothing does."""
        loader = self._ast_of(site.node)
        return self._loading.route(loader) if isinstance(loader, ast.Call) else None

    def loader_samples(self, site: Site) -> Samples:
        """What can be told of the samples that the loader built at the site reads."""
        loader = self._ast_of(site.node)
        assert isinstance(loader, ast.Call)
        return self._loading.samples(loader, self._function(site))

    def loader_rewalks(self, site: Site) -> list[epochs.Rewalk]:
        """The loops over the loader built at the site that another loop, or a framework, comes to again and again."""
        loader = self._ast_of(site.node)
        return list(epochs.rewalks(self._unit, loader)) if isinstance(loader, ast.Call) else []

    def loader_rebuilt(self, site: Site) -> Because | None:
        """The loop over epochs that builds the loader at the site in each pass, though it might be built once."""
        loader, statement = self._ast_of(site.node), self._statement_of[id(site.node)]
        if not isinstance(loader, ast.Call):
            return None
        return epochs.rebuilding_loop(self._unit, loader, statement, self._function(site))

    def device_in_workers(self, site: Site) -> tuple[Because, ...] | None:
        """What shows that the workers of the loader built at the site use the accelerator; None if nothing does."""
        loader = self._ast_of(site.node)
        if not isinstance(loader, ast.Call):
            return None
        return in_workers.device_use(self._world, loader, self._function(site))

    def makes_samples(self, site: Site) -> tuple[Because, ...] | None:
        """What shows that the site runs for each sample or collated batch of a loader; None if nothing does."""
        return sample_code.makes_samples(self._world, self._function(site))

    def binds(self, name: str, site: Site) -> bool:
        """Whether the function around the site itself binds the name, other than as a parameter."""
        function = self._function(site)
        own = self._index.bound_names(function)[len(function.parameter_names) :]
        return function is not self._index.module and name in own

    def declared_options(self) -> list[ast.Call]:
        """The calls that declare options of the command line."""
        return [record.call for record in self._index.calls.get("add_argument", ())]

    def named(self, name: str, site: Site) -> Value:
        """What a plain name is at the end of the function around the site: UNKNOWN if the function cannot see it."""
        frame = self._world.frame(self._function(site))
        value = frame.env.get(name)
        if value is None:
            value = self._world.free_name(frame, name)
        return UNKNOWN if value is None else value

    # -- flow ------------------------------------------------------------------------------------------------------

    def uses(self, name: str, site: Site, heat: Heat) -> flow.NameUses:
        """Where `name` occurs in the function around the site, related to the loop of `heat`."""
        function = self._function(site)
        return self.remember(
            ("uses", name, function, heat.loop),
            lambda: flow.uses_of(name, function, heat.loop, self._index, self._heat, self._source),
        )

    def reckoned_from(self, name: str, site: Site) -> list[str]:
        """The name, and those of numbers that the function around the site reckons from it."""
        return flow.reckoned_from(name, self._function(site))

    def makes_afresh(self, name: str, site: Site) -> bool:
        """Whether all that the function around the site binds the name to is a tensor just made by arithmetic."""
        return writes.makes_afresh(self, name, site)

    def names_of_loop(self, heat: Heat) -> set[str]:
        """The names and paths (`self.x`) that the loop of `heat` binds, its targets included."""
        return set() if heat.loop is None else flow.names_bound_in(heat.loop) | writes.paths_bound_in(heat.loop)

    def always_in_loop(self, site: Site, heat: Heat) -> bool:
        """Whether the site's statement stands directly in the body of the loop of `heat`."""
        place = self._index.places[self._statement_of[id(site.node)]]
        return heat.loop is not None and place.parent is heat.loop and place.field == "body"

    def ends_plainly(self, heat: Heat) -> bool:
        """Whether what stands after the loop of `heat` is reached whenever the loop is left, and nowhere else.

        It is not where the function may catch an exception (a `try`, a `suppress()`), or the loop has an else-branch.
        """
        return heat.loop is not None and not heat.loop.orelse and not walks.may_catch(heat.loop, self._index)

    def may_be_caught(self, site: Site) -> bool:
        """Whether the function around the site may catch an exception that its statement raises."""
        return walks.may_catch(self._statement_of[id(site.node)], self._index)

    def remove(self, site: Site, others: Sequence[Site] = ()) -> Edit | None:
        """Take out the site's statement; `others` are sites whose statements go, too, and leave no empty block."""
        gone = {self._statement_of[id(other.node)] for other in others}
        return guards.removed(self._source, self._index, self._statement_of[id(site.node)], gone.__contains__)

    def insert_after(self, heat: Heat, line: str) -> Edit | None:
        """Put a line of code directly after the loop of `heat`, at the loop's indentation."""
        return None if heat.loop is None else placing.after(self._source, heat.loop, line)

    def insert_before(self, heat: Heat, line: str) -> Edit | None:
        """Put a line of code directly before the loop of `heat`, at the loop's indentation."""
        return None if heat.loop is None else placing.before(self._source, heat.loop, line)

    def script(self, site: Site, loader: str) -> scripts.Script | None:
        """The script that the site stands in, which runs once and trains in epochs from the loader of that name."""
        statement, function = self._statement_of[id(site.node)], self._function(site)
        if not isinstance(function.node, ast.Module):
            called = self._index.calls.get(function.name, [])
            if len(called) != 1 or called[0].function is not self._index.module:
                return None
        return scripts.script_around(statement, loader, self._index, self._source)

    def always_runs(self, site: Site, but_for: str) -> bool:
        """Whether the site runs whenever its script does, but for tests of what a call of `but_for` gives."""
        return scripts.always_runs(self._statement_of[id(site.node)], self._index, but_for)

    def import_line(self, module: str) -> Edit | None:
        """Put `import module` before the file's first import; None where it has none at its top."""
        return scripts.import_line(module, self._index, self._source)

    def at_module_level(self, site: Site, line: str, names: set[str]) -> Edit | None:
        """Put a line of code in front of the top-level definition around the site, if the names are imported there."""
        return placing.at_module_level(self._source, self._index.module.body, site.rows[0], line, names)

    def lift(self, site: Site, heat: Heat) -> tuple[Edit, ...] | None:
        """Move the site's one-row statement in front of the loop of `heat`; None if that leaves the body empty."""
        rows = self.statement_lines(site)
        block = self._index.places[self._statement_of[id(site.node)]].block
        if rows is None or rows[0] != rows[1] or len(block) < 2:
            return None
        if heat.loop is None or not self.always_in_loop(site, heat) or not site.tree.lossless:
            return None
        return placing.lifted(self._source, heat.loop, rows[0])

    def delete(self, site: Site) -> Edit | None:
        """Take the site's one-row statement away; None if that leaves a block empty, or takes a comment along."""
        rows = self.statement_lines(site)
        block = self._index.places[self._statement_of[id(site.node)]].block
        if rows is None or rows[0] != rows[1] or len(block) < 2 or not site.tree.lossless:
            return None
        return placing.deleted(self._source, rows[0])

    def names_used(self, site: Site) -> set[str]:
        """Every name and attribute that the function around the site, which may be the whole file, mentions."""
        return walks.names_used(self._function(site))

    def name_of(self, ref: str, site: Site) -> str | None:
        """A name under which a library module can be reached at the site; None if there is none."""
        function: FunctionInfo | None = self._function(site)
        statement = self._statement_of[id(site.node)]
        hidden: set[str] = set()
        while function is not None:
            env = self._world.frame(function).env
            for name in sorted(env, key=lambda name: (name != ref, name)):
                value = env[name]
                if value.kind is not Kind.LIBRARY or value.ref != ref or name in hidden or not name.isidentifier():
                    continue
                if scope.imported_by_then(name, statement, function, self._index):
                    return name
            hidden |= set(env)
            function = function.outer
        return None

    def keeps_builtin(self, name: str) -> bool:
        """Whether nothing in the file gives the name of a builtin another meaning."""
        return not scope.binds(self._index.module.node, name)

    @property
    def path(self) -> str:
        """The file's path, as evidence names it."""
        return self._index.path

    def called_anywhere(self, *names: str) -> bool:
        """Whether a file of the project calls something by one of these names, as far as its text tells."""
        program = self._unit.program
        return any(name in self._index.calls or (program is not None and program.calls_name(name)) for name in names)

    def mentions(self, *words: str) -> bool:
        """Whether any of the texts occurs in the file's text."""
        return any(word in self._source.text for word in words)
