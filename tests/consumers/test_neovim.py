"""Neovim itself, with the settings of `docs/editors.md`: diagnostics arrive, and a quick fix changes the buffer."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import other_programs
from linting import ROOT
from training_loop import FOUND_AT, LOOP, SLOW_LINE

pytestmark = pytest.mark.consumer

SNIPPETS = re.findall(
    r"(?ms)^([^\n]+):\n\n```lua\n(.*?)^```", (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
)

DRIVER = """\
local wait = 60000
dofile('snippet.lua')
vim.cmd.edit('train.py')
local arrived = vim.wait(wait, function() return #vim.diagnostic.get(0) > 0 end, 50)
local found = vim.diagnostic.get(0)
local before = vim.api.nvim_buf_get_lines(0, 0, -1, false)
local names = {}
for _, client in ipairs(vim.lsp.get_clients({ bufnr = 0 })) do table.insert(names, client.name) end
if arrived then
  vim.api.nvim_win_set_cursor(0, { found[1].lnum + 1, found[1].col })
  vim.lsp.buf.code_action({ apply = true, filter = function(each) return each.isPreferred end })
end
local function lines() return vim.api.nvim_buf_get_lines(0, 0, -1, false) end
local fixed = arrived and vim.wait(wait, function() return not vim.deep_equal(lines(), before) end, 50)
local silent = fixed and vim.wait(wait, function() return #vim.diagnostic.get(0) == 0 end, 50)
local told = { found = found, names = names, lines = lines(), silent = silent }
vim.fn.writefile({ vim.json.encode(told) }, 'told.json')
vim.cmd('qall!')
"""
"""What a user does: open the file, look at its diagnostics, and apply the preferred quick fix of the first."""


def test_the_settings_of_both_versions_are_run() -> None:
    assert [title for title, _ in SNIPPETS] == ["0.11 and newer", "From 0.8 on"]


@pytest.mark.parametrize(("title", "snippet"), SNIPPETS, ids=["config", "start"])
def test_neovim_shows_and_fixes_a_finding(title: str, snippet: str, tmp_path: Path) -> None:
    for name, text in {
        "train.py": LOOP,
        "pyproject.toml": "",
        "snippet.lua": snippet,
        "driver.lua": DRIVER,
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = os.path.dirname(other_programs.found("torchperf-lint"))
    homes = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    done = subprocess.run(
        [other_programs.found("nvim"), "--clean", "--headless", "-c", "luafile driver.lua"],
        cwd=tmp_path,
        env={**os.environ, **homes, "PATH": f"{command}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert "Error" not in done.stderr, done.stderr
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert len(told["names"]) == 1
    (finding,) = told["found"]
    assert (finding["code"], finding["source"]) == ("TPL102", "torchperf-lint")
    assert f"{finding['lnum'] + 1}:{finding['col'] + 1}" == FOUND_AT
    fixed = "\n".join(told["lines"])
    assert SLOW_LINE not in fixed
    assert "correct += (outputs.argmax(1) == targets).sum()" in fixed
    assert told["silent"]
