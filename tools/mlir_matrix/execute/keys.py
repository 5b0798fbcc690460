"""What an action reads, as a digest: command, environment, its tool's code, its inputs' bytes, the CPU where that shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mlir_matrix.actions.contract import OUTPUT_FOLDER
from mlir_matrix.digest import digest_bytes, digest_file, digest_value
from mlir_matrix.plan.graph import Action, File, Graph

ACTIONS_FOLDER = Path(__file__).resolve().parent.parent / "actions"
#: Every action passes through these.
_ALWAYS = ("bootstrap", "worker", "child", "isolation", "contract")
_IMPORT = re.compile(
    r"^\s*(?:from mlir_matrix\.actions\.(\w+) import|from mlir_matrix\.actions import (.+)$)", re.MULTILINE
)


@cache
def _imports(module: str) -> tuple[str, tuple[str, ...]]:
    """Digest of a module of ``mlir_matrix.actions``, and the siblings that it imports."""
    path = ACTIONS_FOLDER / f"{module}.py"
    if not path.is_file():
        return "absent", ()
    text = path.read_text(encoding="utf-8")
    found = [
        name.strip() for one, many in _IMPORT.findall(text) for name in (one or many.strip("() ")).split(",") if name
    ]
    return digest_file(path), tuple(found)


def tool_modules(tool: str) -> dict[str, str]:
    """All modules of ours that a tool runs, with their digests."""
    seen: dict[str, str] = {}
    todo = [tool, *_ALWAYS]
    while todo:
        module = todo.pop()
        if module not in seen:
            seen[module], more = _imports(module)
            todo.extend(more)
    return seen


@cache
def tool_digest(tool: str) -> str:
    """Their digest, so that a change to any redoes the tool's actions and no others."""
    return digest_value(tool_modules(tool))


@cache
def cpu_digest() -> str:
    """What native code generation sees of this machine: the CPU's model and features."""
    wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part", "isa")
    facts: dict[str, str] = {"machine": os.uname().machine}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if not line.strip():
                    break
                if name.strip() in wanted:
                    facts[name.strip()] = value.strip()
    except OSError:
        facts["cpuinfo"] = "unreadable"
    return digest_value(facts)


class Read(NamedTuple):
    """An input of an action: what it is called, its path in the action's folder, and its bytes."""

    name: str
    path: str
    digest: str
    #: The source file that has the bytes; None where they are a blob of the store.
    file: Path | None


@cache
def _suffix(path: str) -> str:
    return os.path.splitext(path)[1]


def input_names(action: Action, graph: Graph) -> dict[str, str]:
    """Path of each input in the action's folder. Sources keep their file names: they show up in tracebacks."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name, ref in action.inputs.items():
        if isinstance(ref, File):
            base = os.path.basename(ref.path)
            path = f"in/{base}" if f"in/{base}" not in taken else f"in/{name}-{base}"
        else:
            path = f"in/{name}{_suffix(graph.actions[ref.action].outputs[ref.output])}"
        taken.add(path)
        names[name] = path
    return names


def request(action: Action, inputs: Mapping[str, str]) -> dict[str, Any]:
    """The request file of an action: everything it is told. It holds no absolute path."""
    return {
        "tool": action.tool,
        "stage": action.stage,
        "params": action.params,
        "inputs": inputs,
        "outputs": {name: f"{OUTPUT_FOLDER}/{path}" for name, path in action.outputs.items()},
    }


def action_key(action: Action, inputs: Iterable[Read], *, environment: str) -> str:
    """The key under which the result of an action is kept; ``environment`` is the environment's digest."""
    words = [action.tool, action.stage, action.params_digest, environment, tool_digest(action.tool)]
    words.append(cpu_digest() if action.native else "")
    for read in inputs:
        words += read[:3]
    for output in action.outputs.items():
        words += output
    return digest_bytes("\n".join(words).encode())
