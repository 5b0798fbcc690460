"""Run what a page of the documentation shows, and compare what is printed.

A fenced block ``console runnable`` is run: a line that begins with ``$ `` is a command, what follows is what it prints. In it a
line that is only ``…`` stands for any lines, ``…`` within a line for any text, and spaces for as many as there are.
``exit=N`` says with what the block's last command ends. A block with ``title=PATH`` is a file. Each page has a folder of its
own, in which ``tools`` is this checkout's and ``mlir-matrix`` the checkout; blocks take effect in their order.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the words after the fence, its text, and the line that it begins on."""

    words: tuple[str, ...]
    text: str
    line: int

    def option(self, name: str) -> str | None:
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)

    @property
    def runnable(self) -> bool:
        return self.words[:2] == ("console", "runnable")

    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command with the lines that it is said to print."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(tuple(match[1].split()), match[2], text.count("\n", 0, match.start()) + 1)
        for match in _BLOCK.finditer(text)
    ]


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.runnable]


def squeeze(text: str) -> str:
    """Columns are as wide as what is in them, and that may change."""
    return re.sub(r"[ \t]+", " ", text).strip()


def pattern(shown: list[str]) -> re.Pattern[str]:
    """What the output must match, from what the page shows of it."""
    parts = []
    for line in map(squeeze, shown):
        parts.append(r"(?:[^\n]*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"\n")
    return re.compile("".join(parts))


def run(command: str, folder: Path, home: Path) -> tuple[int, str]:
    """Exit code and output of a command: what is on stdout; what is on stderr where it failed before it had a result."""
    environment = {**os.environ, "MATRIX_HOME": str(home), "CI": "true", "NO_COLOR": "1"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    text = done.stdout or (done.stderr if done.returncode else "")
    return done.returncode, "".join(f"{squeeze(line)}\n" for line in text.splitlines())


def perform(block: Block, folder: Path, home: Path, where: str) -> None:
    """Run the commands of a block and hold what they print against what it shows."""
    commands = block.commands()
    for number, (command, shown) in enumerate(commands, 1):
        code, printed = run(command, folder, home)
        wanted = int(block.option("exit") or 0) if number == len(commands) else 0
        if code != wanted:
            pytest.fail(f"{where}: {command}\nends with {code}, not {wanted}:\n{printed}", pytrace=False)
        if not pattern(shown).fullmatch(printed):
            page = "\n".join(shown)
            pytest.fail(f"{where}: {command}\nthe page shows:\n{page}\n\nit prints:\n{printed}", pytrace=False)
