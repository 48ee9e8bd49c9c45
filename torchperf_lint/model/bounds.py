"""The bounds of all searches in the model and the idioms: they keep the work in proportion to the code.

Beyond a bound the answer is "unknown", which never counts as yes; a bound with another result says so in its line.
Every search reads its bound from this module, so tests can set it (`tests/test_bounds.py` has a case for each).
"""

from __future__ import annotations

# -- values ------------------------------------------------------------------------------------------------------------

MOST_CLASSES = 64
"""An object with more possible classes than this has an unknown class: joins would grow with the program."""

MOST_STORES_ELSEWHERE = 16
"""An attribute that other code sets in more places than this is not known: each of them is evaluated."""

MOST_NESTED = 5
"""Nested containers are known to this depth, so that a list that contains itself reaches a fixpoint."""

MOST_ITEMS = 64
"""A longer literal is known only by its joined element: tables of data are long and uniform."""

MOST_LOOPS_DEEP = 3
"""More deeply nested loops run once, and all that they bind is unknown: passes would multiply."""

MOST_LOOP_PASSES = 4
"""A loop runs until its values are stable; the last pass makes all that it binds unknown."""

MOST_CALLS_DEEP = 6
"""Nested calls are followed to this depth: each level may multiply the work."""

MOST_RECURSION = 1
"""A function is followed into itself this often: `move(batch)` that calls `move(part)`."""

MOST_CALLS_UP = 6
"""Parameters are inferred from callers of callers up to this height: beyond, callers seldom agree."""

MOST_CALLS_ELSEWHERE = 24
"""Calls of a function in other files that are followed; where there are more, they only show how often it runs."""

MOST_FILES_CALLING_METHOD = 48
"""Where too many calls have a function's name, the nearest of so many files: calls on what is named like its class come
first."""

MOST_ROUNDS = 6
"""Rounds until the results of a cycle of queries must have settled; few need more than three."""

MOST_QUERIES_SETTLED = 2_000
"""Queries of a cycle that may take `MOST_ROUNDS`; a larger one takes `ROUNDS_OF_MANY`.

The largest cycle of the training code that was counted has 1,822 (fairseq). That of a compiler whose functions all lead
to each other (torch._inductor) has 12,000.
"""

ROUNDS_OF_MANY = 1
"""Rounds of a large cycle: each takes longer than the rest of the project."""

MOST_QUERIES_DEEP = 400
"""Queries that may be nested, so that Python's stack suffices; the next one is put off.

The queries above it run again with its result, as long as `MOST_ROUNDS` allows. Each takes many of Python's frames.
"""

MOST_STATEMENTS_FOLLOWED = 300
"""Statements that may run in the calls of one frame: the sum over all depths."""

MOST_CALLERS = 60
"""With more callers, a function's parameters are not inferred from them: they seldom agree."""

MOST_BASES = 20
"""A class may descend from this many classes of the program; further bases are left out."""

MOST_HEIRS = 300
"""With more classes below a class, only so many are asked what they give its constructor."""

MOST_CHOICES = 4
"""With more possible classes, a call or an attribute is not evaluated for each of them."""

MOST_SUBCLASSES = 24
"""With more subclasses that decide what a base's attribute is, it is not known: the base's method runs for each."""

MOST_OVERRIDES = 8
"""With more methods that override an abstract one, its result is not known: they are evaluated for each call."""

MOST_REGISTERED = 8
"""Of more classes or functions that one file adds to a registry, none is taken for the one that a lookup gives."""

MOST_PLACES_OF_VALUE = 80
"""Expressions over which a function or an object is followed as a value; beyond, it reaches no call."""

MOST_CALLS_HANDING = 3
"""Calls that hand a function over, one to the next; which calls lead to those beyond is left open."""

MOST_WAYS_OF_VALUE = 400
"""The same expressions, counted once for each chain of calls that hands the value over; beyond, it reaches no call."""

# -- the project -------------------------------------------------------------------------------------------------------

MOST_HOPS = 20
"""Re-exports of one name are followed this far: imports may be cyclic."""

MOST_IMPORTS_TO_METRICS = 3
"""Imports between a file and one that imports torchmetrics, over which the file may get its metrics."""

MOST_FILES_CALLING = 3
"""If more files call a method's name, only files that import a file of its class are searched."""

MOST_FILES_DEFINING = 16
"""If more files define a method's name, its calls on receivers of unknown class are not followed: it tells nothing."""

MOST_FILES = 16
"""Files that one search reads, e.g. for calls that are handed a function, or for a file's neighbours."""

FEWEST_LETTERS = 3
"""A name that is composed at run time shows as many letters, or it may be any name."""

MOST_CALLS_TO_TEXT = 3
"""Calls over which a name that is looked up is followed back to the string that a caller passes."""

MOST_BYTES_LOADED = 12_000_000
"""Bytes of source whose trees stay in memory, or more where memory is ample (`engine/memory.py`).

A tree takes forty times its source, and eighty with all that is known of it. Results that rest on a dropped tree go
with it: where the files of a project call each other much, dropping is slower by far than keeping.
"""

MOST_BYTES_REPLACED = 1_000_000
"""Bytes of replaced statements of an edited file after which all answers are forgotten, with what they hold."""

MOST_BYTES = 2_000_000
"""Bytes, as UTF-8, of the largest file that other files query, whether or not it is linted itself."""

MOST_STEP_NAMES = 100
"""A file with more functions that call backward is not searched for their callers: a pattern of all names is slow."""

MOST_MARKS = 5_000
"""Brackets, quotes and comments between a function's parentheses; with more, its parameters are unknown."""

MOST_HEAD_BYTES = 4_000
"""Bytes between a function's parentheses; with more, its parameters are unknown."""

# -- how often a statement runs ----------------------------------------------------------------------------------------

MOST_CALLS_TO_STEP = 2
"""Nested calls are followed to this depth to find a training step."""

MOST_CALLS_TO_MODEL = 3
"""Nested calls are followed to this depth to find what runs a model on a batch that a loop cuts."""

MOST_CALLERS_OF_CALLERS = 200
"""Functions that are visited to find a caller that runs in every step."""

MOST_STEPS_SHOWN = 6
"""Calls that a finding lists between itself and the loop; of a longer path the middle is left out."""

MOST_FUNCTIONS_UP = 200
"""Functions that are visited by names alone; one with more transitive callers may be hot."""

MOST_OPEN_QUESTIONS = 8
"""Conditions tested twice on a path are enumerated together, in two to this power cases; of more, each counts alone."""

MOST_CONDITIONS = 50
"""Only the nearest conditions on the path to a statement in one function count; the others are assumed to hold."""

MOST_TESTS_OF_BINDINGS = 4
"""Tests decided one for another, to know which `if` has bound what a test reads: each asks for several names, and so
the work doubles with each."""

MOST_STEPS_OF_WARM_UP = 100
"""`step < n` with a literal n up to this is a warm-up, not the whole run."""

MOST_CALLS_TO_BINDING = 2
"""Method calls are followed to this depth to find bindings; a binding beyond settles no branch."""

MOST_CALLS_TO_RAISE = 4
"""Calls between a program's top level and the statement that raises without CUDA."""

# -- loaders -----------------------------------------------------------------------------------------------------------

MOST_STOPS = 200
"""Functions that a loader is followed through."""

MOST_SINGLE_CALLS = 40
"""Calls over which one loader is followed singly, in all functions: each runs what it calls once more."""

MOST_MAKING_STEPS = 40
"""Expressions over which a dataset's construction is followed."""

MOST_SAMPLE_CALLS = 4
"""Nested calls of the project's functions over which the code that makes samples is followed."""

MOST_SAMPLE_FUNCTIONS = 40
"""Functions that the code that makes samples is followed into."""

# -- searches of the idioms --------------------------------------------------------------------------------------------

MOST_CALLS_TO_CONDITION = 4
"""Calls between a statement and the loop in question; conditions beyond are assumed to hold."""

MOST_CALLERS_OF_HELPER = 12
"""Functions that are visited to find the steps that call a helper."""

MOST_CALLS_TO_CACHE = 3
"""Calls between a site and the place where a cache is filled."""

MOST_CALLS_TO_GRAD_MODE = 3
"""Callers are followed up to this height for the gradient mode; beyond, gradients are assumed to be recorded."""

MOST_CALLS_TO_EPOCHS = 4
"""Callers are followed up to this height to find a loop over epochs."""

MOST_CALLERS_OF_SAMPLE_CODE = 20
"""Functions that are visited to find the callers of code that makes samples."""

MOST_FUNCTIONS_OF_WORKERS = 30
"""Functions that a loader's code is followed through."""

MOST_PIPELINES_NESTED = 4
"""Nested pipelines are opened to this depth."""

MOST_TO_SHOWN = 6
"""Names and operands over which evidence for an expression is sought."""

MOST_CALLS_TO_HOST_WORK = 2
"""Nested calls are followed to this depth for work that needs the host; beyond, there is none."""

MOST_NAMES_OF_ROUND_TRIP = 8
"""Names between a copy to the host for NumPy and the way back."""

MOST_NAMES_OF_ARRAY = 6
"""Names that a list or an array is followed through."""

MOST_READ_AT_ONCE = 50
"""Reads that one combined read replaces: a line has to stay readable."""

MOST_CALLS_TO_TABLE = 2
"""Calls between the use of a table and the place where it is named."""

MOST_CALLS_TO_MASK = 3
"""Calls between the use of a mask and the place that makes it: a mask that is handed on further counts as left out."""

MOST_CALLS_TO_SEARCH = 4
"""Calls between a search on the host and the function that reads for it: beyond, the read is one like others."""

MOST_STEPS_TO_OPTION = 9
"""Calls and attributes from an argument back to the default of the option that it passes on."""

MOST_HELPERS_DEEP = 3
"""Nested helpers are followed to this depth to find what they make on the host."""

MOST_NAMES_OF_BUFFER = 4
"""Copies of copies of a tensor are followed over this many names; with more, one may be written to."""

MOST_MODULES_DEEP = 4
"""Classes of modules, and functions that their `__init__` calls, are followed to this depth to find weights."""

MOST_CALLS_TO_BUILDER = 3
"""Calls between a layer and the `__init__` that builds it for a larger module."""

MOST_STEPS_OF_IMAGE = 8
"""Calls and names between the one that makes an image of a tensor and the one that makes a tensor of it again."""
