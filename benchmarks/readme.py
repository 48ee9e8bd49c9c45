"""Writes the output of its commands into README.md here: `python benchmarks/readme.py --corpus DIR [--only WORD]`.

Each block of the README that begins with `$ python ...` is run again; `$CORPUS` is the folder of the tuning set.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from corpus import corpus_parser
from linter import CHECKOUT, environment

README = Path(__file__).with_name("README.md")
_BLOCK = re.compile(r"^```console\n\$ python (?P<command>[^\n]*)\n(?P<output>.*?)^```$", re.DOTALL | re.MULTILINE)


def printed(command: str, corpus: Path) -> str:
    """A command's output; exits where it fails."""
    words = [word.replace("$CORPUS", str(corpus)) for word in command.split()]
    run = subprocess.run(
        [sys.executable, *words], cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(f"{command}: {run.stderr.strip()}")
    return run.stdout.replace(str(corpus) + os.sep, "$CORPUS/")


def main() -> int:
    parser = corpus_parser(__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="the blocks whose command holds this word")
    options = parser.parse_args()

    def anew(block: re.Match[str]) -> str:
        command = block["command"]
        if options.only not in command:
            return block[0]
        return f"```console\n$ python {command}\n{printed(command, options.corpus)}```"

    README.write_text(_BLOCK.sub(anew, README.read_text("utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
