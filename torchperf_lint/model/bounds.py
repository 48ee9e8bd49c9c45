"""The bounds of all searches in the model and the idioms: they keep the work in proportion to the code.

Beyond a bound the answer is "unknown", and unknown is not yes; where it is another one, the bound's line says so.
Whoever searches reads the bound here, so a test can set it (`tests/test_bounds.py` has a case for each).
"""

from __future__ import annotations

# -- values ------------------------------------------------------------------------------------------------------------

MOST_CLASSES = 64
"""An object whose class may be one of more than these is of any class: joins would grow with the program."""

MOST_NESTED = 5
"""Containers in containers are known this deep, so that a list that is put into itself settles."""

MOST_ITEMS = 64
"""A literal of more items is known by its joined element only: tables of data are long and alike."""

MOST_LOOPS_DEEP = 3
"""Loops nested deeper are run once, with all that they bind unknown: passes would multiply."""

MOST_LOOP_PASSES = 4
"""A loop is run until its values settle; the last pass takes all that it binds for unknown."""

MOST_CALLS_DEEP = 6
"""Calls in calls are followed no deeper: each level may multiply the work."""

MOST_RECURSION = 1
"""A function is followed into itself this often: `move(batch)` that calls `move(part)`."""

MOST_CALLS_UP = 4
"""Callers of callers are asked no further up what a function's parameters are: beyond, they seldom agree."""

MOST_STATEMENTS_FOLLOWED = 300
"""For one function's frame no more statements are run in the calls that it makes: the sum of their depths."""

MOST_CALLERS = 60
"""A function that is called from more places is taken as it stands: its callers seldom agree."""

MOST_BASES = 20
"""A class may descend from no more classes of the program; further ones are left out."""

MOST_CHOICES = 4
"""Of more classes, what each of them makes of a call or an attribute is not worked out."""

# -- the project -------------------------------------------------------------------------------------------------------

MOST_HOPS = 20
"""Re-exports of one name are followed no further: imports may run in circles."""

MOST_IMPORTS_TO_METRICS = 3
"""Over so many imports a file may have its metrics from one that imports torchmetrics."""

MOST_FILES_CALLING = 3
"""A method whose name is called in more files is looked for only where a file of its class is imported."""

MOST_FILES = 16
"""No more files are looked into for what any of them may show: where a function is handed on, what lies around."""

MOST_BYTES_LOADED = 12_000_000
"""Bytes of source whose trees are kept; a tree takes twenty to forty times its source in memory."""

MOST_BYTES = 2_000_000
"""Bytes, as UTF-8, of the largest file that another one asks, whether or not it is linted itself."""

MOST_STEP_NAMES = 100
"""A file with more functions that go backward is not searched for their callers: a pattern of all names is slow."""

MOST_MARKS = 5_000
"""Brackets, quotes and comments between the parentheses of a function; of more, its parameters are not told."""

MOST_HEAD_BYTES = 4_000
"""Bytes between these parentheses, for the same reason."""

# -- how often a statement runs ----------------------------------------------------------------------------------------

MOST_CALLS_TO_STEP = 2
"""Calls in calls are followed no deeper for a training step."""

MOST_CALLERS_OF_CALLERS = 200
"""No more functions are looked at for one that is called in every step."""

MOST_STEPS_SHOWN = 6
"""A finding names no more calls between itself and the loop; of a longer way the middle is left out."""

MOST_FUNCTIONS_UP = 200
"""No more functions are looked at by names alone; one with more callers of callers may be hot."""

MOST_OPEN_QUESTIONS = 8
"""Questions that are asked twice are tried out together, in two to this power ways; of more, each test counts alone."""

MOST_CONDITIONS = 50
"""Of the tests on the way to a statement of one function the nearest count; those beyond are taken to hold."""

MOST_STEPS_OF_WARM_UP = 100
"""`step < n` with a literal n up to this is a warm-up, not the whole run."""

MOST_CALLS_TO_BINDING = 2
"""Calls of methods in methods are followed no deeper for what they bind: what is bound beyond settles no branch."""

MOST_CALLS_TO_RAISE = 4
"""Between a program's top level and what raises without CUDA lie no more calls."""

# -- loaders -----------------------------------------------------------------------------------------------------------

MOST_STOPS = 200
"""A loader is followed through no more functions."""

MOST_MAKING_STEPS = 40
"""The making of a dataset is followed over no more expressions."""

MOST_SAMPLE_CALLS = 4
"""The code that makes samples is followed over no more calls of the project's functions, one in the other."""

MOST_SAMPLE_FUNCTIONS = 40
"""It is followed into no more functions."""

# -- searches of the idioms --------------------------------------------------------------------------------------------

MOST_CALLS_TO_CONDITION = 4
"""No more calls lie between a statement and the loop that it is asked about; conditions beyond are taken to hold."""

MOST_CALLERS_OF_HELPER = 12
"""No more functions are looked at for one that a step calls."""

MOST_CALLS_TO_CACHE = 3
"""No more calls lie between a site and the place where a cache is filled."""

MOST_CALLS_TO_GRAD_MODE = 3
"""Callers of callers are asked no further whether gradients are recorded: beyond, they are taken to be."""

MOST_CALLS_TO_EPOCHS = 4
"""Callers of callers are asked no further up for a loop over epochs."""

MOST_CALLERS_OF_SAMPLE_CODE = 20
"""No more functions are looked at for one that a sample's code calls."""

MOST_FUNCTIONS_OF_WORKERS = 30
"""A loader's code is followed through no more functions."""

MOST_PIPELINES_NESTED = 4
"""Pipelines in pipelines are opened this deep."""

MOST_TO_SHOWN = 6
"""Over so many names and operands it is sought what shows an expression."""

MOST_CALLS_TO_HOST_WORK = 2
"""Calls in calls are followed no deeper for work that needs the host: beyond, there is none."""

MOST_NAMES_OF_ROUND_TRIP = 8
"""Between a fetch for NumPy and the way back lie no more names."""

MOST_NAMES_OF_ARRAY = 6
"""A list or an array is followed through no more names."""

MOST_READ_AT_ONCE = 50
"""One read takes the place of no more reads: a line has to stay readable."""

MOST_CALLS_TO_TABLE = 2
"""No more calls lie between the place where a table is used and the one where it is named."""

MOST_HELPERS_DEEP = 3
"""Helpers in helpers are followed no deeper for what they make on the host."""

MOST_NAMES_OF_BUFFER = 4
"""Copies of copies of a tensor are followed over no more names; of more, one may be written to."""
