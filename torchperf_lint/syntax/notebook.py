"""A notebook as one Python program: its code cells in their order, and what IPython alone understands put aside.

The program has a line for each line of the cells, and a comment in front of each cell. A magic, a shell command or a
request for help is a name that nothing binds, or stands under `with` such a name, and comes back when the program's
text is written into the cells. A cell of which nothing is known (it does not parse, or a magic that may read what the
others bind stands above it) is a call of such a name with all names in its text.
"""

from __future__ import annotations

import ast
import bisect
import keyword
import re
import warnings
from typing import NamedTuple

from torchperf_lint.syntax.cell_heads import Stripped, rows_of, stripped
from torchperf_lint.syntax.json_cells import BadNotebook, Cell, OtherLanguage, code_cells, decoded, with_sources
from torchperf_lint.syntax.source import Source, Unreadable

_PYTHON_CELLS = frozenset("capture debug prun time timeit".split())
"""Cell magics below which stands Python of the same program."""

_APART = frozenset(
    "HTML R SVG bash cmd cython file html javascript js latex markdown perl powershell pypy python python2 python3 ruby"
    " script sh sql svg sx system writefile".split()
)
"""Cell magics below which stands no code of this process; `%%!` is one as well."""

_BARE = frozenset(
    "alias autoawait automagic bookmark cat cd colors conda config cp dirs env history ldir less lf lk ll load load_ext"
    " ls lsmagic lx magic mamba man matplotlib micromamba mkdir more mv notebook pip popd precision pushd pwd pylab"
    " rehashx reload_ext reset rm rmdir set_env system unload_ext uv who whos".split()
)
"""Line magics that may stand without `%` in a cell of one row, and have no Python behind them."""

_STATEMENTS = frozenset("memit prun time timeit".split())
"""Line magics in front of a Python statement."""

_TOKEN = re.compile(
    r'(?P<string>"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''(?:\\.|[^\\])*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z)'
    r"|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\Z))"
    r"|(?P<comment>#[^\n]*)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<join>\\\n)|(?P<end>\n)"
    r"|(?P<other>[^\"'#()\[\]{}\\\n]+|.)",
    re.DOTALL,
)
_MAGIC = re.compile(r"[ \t]*(?P<text>[%!?,;/][^\n]*(?:(?<=\\)\n[^\n]*)*)")
_STATEMENT = re.compile(r"%(?P<name>\w+)[ \t]+(?:-\S+[ \t]+(?:\d+[ \t]+)?)*(?=[^\s-])")
_ASSIGNED = re.compile(r"[ \t]*[^\W\d][\w.\[\]'\", \t]*=[ \t]*(?P<text>[!%][^\n=][^\n]*(?:(?<=\\)\n[^\n]*)*)")
_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w*)[^\n]*")


_BARE_MAGIC = re.compile(r"\s*(?P<name>\w+)(?:[ \t][^\r\n]*)?\s*")
_NAME = re.compile(r"\.?\b[^\W\d]\w*")
_ROW_END = re.compile(r"\r\n|\r|\n")


class Place(NamedTuple):
    """A place in a notebook: the number of its cell among all cells, and row and column there, all from 1."""

    cell: int
    row: int
    column: int


class _Aside(NamedTuple):
    """What stands in the program for a text of IPython's, in a row of the program."""

    put: str
    text: str


class Notebook:
    """A notebook's program, as bytes, and the way back; raises Unreadable or OtherLanguage where there is none."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        try:
            self._text = decoded(data)
            self.cells = code_cells(self._text)
        except OtherLanguage:
            raise
        except BadNotebook as error:
            raise Unreadable(str(error)) from None
        self._word = "cell"
        while f"__{self._word}_" in self._text or f"# %% {self._word} " in self._text:
            self._word += "_"
        self._asides: list[_Aside] = []
        self._shifts: dict[int, tuple[int, int]] = {}  # row of the program -> first moved column, by how much
        self._starts: list[int] = []  # the rows of the program that the cells begin in
        self._plain: list[Stripped] = []
        self.spoilt: list[tuple[Place, str]] = []  # the cells that are not Python, and why: they are put aside
        rows, parts = 1, []
        for cell in self.cells:
            self._starts.append(rows + 1)
            self._plain.append(_plain(cell.source))
            text = self._parsed(self._plain[-1].text, rows + 1)
            part = f"{self._opening(cell)}{text}" + ("" if cell.source.endswith("\n") else "\n")
            parts.append(part)
            rows += _rows(part)
        self.program = "".join(parts).encode(errors="surrogatepass")

    def place(self, row: int, column: int) -> Place:
        """The place of a row and column of the program, both from 1."""
        index = max(0, bisect.bisect_right(self._starts, row) - 1)
        if not self._starts:
            return Place(1, 1, 1)
        first, by = self._shifts.get(row, (0, 0))
        moved = column - by if by and column >= first else column
        inside = max(1, row - self._starts[index] + 1)
        return Place(self.cells[index].number, inside, max(1, moved) + len(self._plain[index].head(inside)))

    def in_program(self, cell: int, row: int, column: int) -> tuple[int, int]:
        """The row and column of the program for a row and column of a cell; the way back from `place`."""
        index = next(index for index, each in enumerate(self.cells) if each.number == cell)
        at = self._starts[index] + row - 1
        first, by = self._shifts.get(at, (0, 0))
        column = max(1, column - len(self._plain[index].head(row)))
        return at, column + by if column + by >= first else column

    def is_below_magic(self, row: int) -> bool:
        """Whether a row of the program begins with a statement that stands for a magic, as `%time`."""
        return row in self._shifts

    def stands_for(self, text: str) -> bool:
        """Whether a text of the program has a name that stands for a text of IPython's."""
        return f"__{self._word}_" in text

    def head(self, row: int) -> str:
        """What a row of the program begins with in its cell, and IPython strips."""
        index = max(0, bisect.bisect_right(self._starts, row) - 1)
        return self._plain[index].head(max(1, row - self._starts[index] + 1)) if self._starts else ""

    def offset(self, program: Source, offset: int) -> tuple[int, int]:
        """The number of the cell that a byte offset of the program lies in, and the offset in that cell's source."""
        place = self.place(*program.position(offset))
        if self._starts and program.row(offset) < self._starts[0]:
            return place.cell, 0
        rows = self.rows_in(place.cell)
        row = rows[place.row - 1] if place.row <= len(rows) else ""
        inside = "".join([*rows[: place.row - 1], row[: place.column - 1]])
        return place.cell, len(inside.encode(errors="surrogatepass"))

    def source(self, number: int) -> str:
        """The source of the cell with this number."""
        return next(cell.source for cell in self.cells if cell.number == number)

    def rows_in(self, number: int) -> list[str]:
        """The rows of the cell with this number, with their ends."""
        return rows_of(self.source(number))

    @property
    def rows(self) -> bytes:
        """The texts of the cells as they are, in the rows that the program has for them."""
        return "".join(
            f"{self._opening(cell)}{cell.source}" + ("" if cell.source.endswith("\n") else "\n") for cell in self.cells
        ).encode(errors="replace")

    def written(self, program: bytes) -> bytes | None:
        """The notebook with the sources of this program; None where a cell or a text of IPython's is lost in it."""
        text = program.decode(errors="surrogatepass")
        sources, end = [], len(text)
        for cell in reversed(self.cells):
            opening = self._opening(cell)
            at = text.rfind(opening, 0, end)
            if at < 0 or (at and text[at - 1] != "\n"):
                return None
            source = text[at + len(opening) : end]
            if not cell.source.endswith("\n"):  # the program ended its last line
                source = source.removesuffix("\n")
            sources.append(source)
            end = at
        if end:
            return None
        whole = "\0".join(reversed(sources))
        for aside in self._asides:
            if whole.count(aside.put) != 1:
                return None
            whole = whole.replace(aside.put, aside.text)
        found = whole.split("\0") if self.cells else []
        if len(found) != len(self.cells):
            return None
        put = [plain.put_back(source) for plain, source in zip(self._plain, found, strict=True)]
        return with_sources(self._text, self.cells, put).encode(errors="surrogatepass")

    def _opening(self, cell: Cell) -> str:
        # To IPython a comment about the encoding is one like others; in a file the first one counts.
        encoding = " coding: utf-8" if "coding" in cell.source else ""
        return f"# %% {self._word} {cell.number}{encoding}\n"

    def _parsed(self, source: str, row: int) -> str:
        """A cell, which begins in this row of the program, as Python; one that is none is put aside as a whole."""
        before = len(self._asides)
        text = self._as_python(source, row)
        try:
            _compiled(Source(self.path, text.encode()))
        except (Unreadable, UnicodeEncodeError) as error:
            at, column, reason = 1, 1, "half of a surrogate pair"
            if isinstance(error, Unreadable):
                at, column, reason = min(error.row or 1, _rows(source) + 1), error.column or 1, error.reason
            place = self.place(row + at - 1, column)
            del self._asides[before:]
            self._shifts = {each: shift for each, shift in self._shifts.items() if each < row}
            bare = _BARE_MAGIC.fullmatch(source)
            if bare is not None and bare["name"] in _BARE:
                return self._aside(source)
            if bare is None or bare["name"] not in _STATEMENTS:
                self.spoilt.append((place, reason))
            return self._unseen(source)
        return text

    # -- IPython -------------------------------------------------------------------------------------------------------

    def _as_python(self, source: str, row: int) -> str:
        """The source of a cell, which begins in this row of the program, as Python."""
        whole = _CELL_MAGIC.match(source)
        if whole is not None:
            if whole["name"] not in _PYTHON_CELLS:
                return self._aside(source) if whole["name"] in ("", *_APART) else self._unseen(source)
            rest = source[whole.end() :]
            head = self._aside(whole.group())
            return head + self._lines(rest, row + _rows(head))
        return self._lines(source, row)

    def _lines(self, source: str, row: int) -> str:
        parts: list[str] = []
        place = 0
        while place < len(source):
            end = self._special(source, place, row, parts)
            if end is None:
                end, code = _logical_line(source, place)
                line = source[place:end]
                parts.append(self._help(line) if code.endswith("?") else line)
            row += _rows(source[place:end])
            place = end
        return "".join(parts)

    def _special(self, source: str, place: int, row: int, parts: list[str]) -> int | None:
        """Put the special line at a place aside; its end, or None where the line is Python."""
        found = _MAGIC.match(source, place) or _ASSIGNED.match(source, place)
        if found is None:
            return None
        head, text = source[place : found.start("text")], found["text"]
        statement = _STATEMENT.match(text) if not head.strip() else None
        if statement is not None and statement["name"] in _STATEMENTS and "\n" not in text:
            name = self._name()
            put = f"with {name}: "
            self._asides.append(_Aside(put, statement.group()))
            self._shifts[row] = len(head) + len(put) + 1, len(put) - len(statement.group())
            parts += [head, put, text[statement.end() :]]
        else:
            parts += [head, self._aside(text)]
        return found.end()

    def _help(self, line: str) -> str:
        """A line that asks for help, as `model.fit?`."""
        text = line.strip()
        at = line.index(text)
        return line[:at] + self._aside(text) + line[at + len(text) :]

    def _aside(self, text: str) -> str:
        """A name for the text, and the line ends in it."""
        put = self._name() + "".join(_ROW_END.findall(text))
        self._asides.append(_Aside(put, text))
        return put

    def _unseen(self, text: str) -> str:
        """A call with the names and attributes in a text, which might do anything with them, and its line ends."""
        name = self._name()
        found = {each: each.removeprefix(".") for each in _NAME.findall(text)}
        used = [each for each, word in found.items() if word.isidentifier() and not keyword.iskeyword(word)]
        put = f"{name}({', '.join(f'{name}{each}' if each.startswith('.') else each for each in used)})"
        put += "".join(_ROW_END.findall(text))
        self._asides.append(_Aside(put, text))
        return put

    def _name(self) -> str:
        return f"__{self._word}_{len(self._asides)}__"


def _plain(source: str) -> Stripped:
    """The source of a cell, stripped, and what stands below a magic that runs it as a cell as well."""
    plain = stripped(source)
    magic = _CELL_MAGIC.match(plain.text)
    return plain if magic is None or magic["name"] not in _PYTHON_CELLS else plain.below(_rows(magic.group()) + 1)


def _compiled(source: Source) -> None:
    """Raise Unreadable where IPython would refuse the cell, as for a `return` outside a function."""
    tree = source.parse()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        raise Unreadable(f"syntax error: {error.msg}", error.lineno, error.offset) from None
    except (RecursionError, MemoryError, ValueError):
        return  # parsed, and too deep to compile


def _logical_line(source: str, place: int) -> tuple[int, str]:
    """The end of the logical line that begins at a place, and its code without strings, comments and blanks."""
    code: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(source, place):
        kind = token.lastgroup
        if kind == "end" and depth <= 0:
            return token.end(), "".join(code).strip()
        depth += (kind == "open") - (kind == "close")
        code.append(token.group() if kind in ("other", "open", "close") else "s" if kind == "string" else "")
    return len(source), "".join(code).strip()


def _rows(text: str) -> int:
    """The number of line ends, as Python counts them."""
    return len(_ROW_END.findall(text))
