"""Compute keys of actions: digests of command, environment, tool code, input bytes and, for native code, the CPU."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mlir_matrix.actions.contract import OUTPUT_FOLDER
from mlir_matrix.base.digest import digest_bytes, digest_value
from mlir_matrix.base.fingerprint import cpu_digest, gpu_digest
from mlir_matrix.plan.graph import File, Graph, PlannedAction

ACTIONS_FOLDER = Path(__file__).resolve().parent.parent / "actions"
#: Modules of every action.
_ALWAYS = ("__init__", "contract", "runtime/bootstrap", "runtime/child", "runtime/worker", "sandbox/isolation")
#: The backends that run passes: ``mlir/by_NAME``.
BACKENDS = ("bindings", "programs")
_PACKAGE = "mlir_matrix.actions"
#: An import statement that may name a module of ours, with continued lines and parentheses.
_IMPORT = re.compile(
    r"^[ \t]*((?:from[ \t]*\.|(?:from|import)\b(?=.*(?:mlir_matrix|\\$)))(?:[^\n\\(]|\\\n|\([^)]*\))*)", re.MULTILINE
)


@cache
def _imports(module: str) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a module of ``mlir_matrix.actions``, such as ``tools/run``, and the modules that it imports."""
    path = ACTIONS_FOLDER / f"{module}.py"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "absent", ()
    folder = (os.path.dirname(module) + "/__init__").removeprefix("/")
    found = dict.fromkeys([folder, *imported_modules(data.decode())])
    return digest_bytes(data), tuple(found)


def imported(text: str) -> Iterator[str]:
    """Yield the paths of modules and functions that a module imports from ``mlir_matrix.actions``.

    Parse only statements that may name them. Whole modules take 2 ms each, in all a fifth of the time of an unchanged run.
    """
    try:
        found = ast.parse("\n".join(_IMPORT.findall(text)))
    except SyntaxError:
        found = ast.parse(text)
    for node in ast.walk(found):
        if isinstance(node, ast.Import):
            yield from (_sibling(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = _PACKAGE.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield from (_sibling(f"{base}.{alias.name}") for alias in node.names)


def imported_modules(text: str) -> Iterator[str]:
    """Yield the modules of ``mlir_matrix.actions`` that a module of the program imports."""
    yield from filter(None, map(_module_of, imported(text)))


def _sibling(name: str) -> str:
    """Return the path of a module or function in the package, from its dotted name; empty if it is outside."""
    return name.removeprefix(f"{_PACKAGE}.").replace(".", "/") if name.startswith(f"{_PACKAGE}.") else ""


@cache
def _module_of(path: str) -> str:
    """Return the module of a path of :func:`imported`; empty if there is none."""
    while path:
        for module in (path, f"{path}/__init__"):
            if (ACTIONS_FOLDER / f"{module}.py").is_file():
                return module
        path = os.path.dirname(path)
    return ""


def tool_modules(tool: str, backend: str | None = None) -> dict[str, str]:
    """Return the digests of all modules of the package that a tool imports with a backend."""
    backends = [f"mlir/by_{backend}"] if backend else []
    return with_imports([f"tools/{tool}", *_ALWAYS, *backends])


def with_imports(modules: Iterable[str]) -> dict[str, str]:
    """Return the digests of modules of the package, and of all modules of the package that they import."""
    seen: dict[str, str] = {}
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in seen:
            seen[module], more = _imports(module)
            todo.extend(more)
    return seen


@cache
def tool_digest(tool: str, backend: str | None = None) -> str:
    """Return the digest of a tool's modules. After a change to one, only the tool's actions run again.

    ``params`` is left out: it holds only types, and a new parameter of one tool must not run the others' actions again.
    """
    return digest_value({name: digest for name, digest in tool_modules(tool, backend).items() if name != "params"})


class Read(NamedTuple):
    """An input of an action: its name, its path in the action's folder, and its digest."""

    name: str
    path: str
    digest: str
    #: The source file, or None if the bytes are a blob of the store.
    file: Path | None


@cache
def _suffix(path: str) -> str:
    return os.path.splitext(path)[1]


def input_names(action: PlannedAction, graph: Graph) -> dict[str, str]:
    """Return the path of each input in the action's folder. Sources keep their file names, for tracebacks."""
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


def request(action: PlannedAction, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the request file of an action. It holds no absolute path."""
    return {
        "tool": action.tool,
        "stage": action.stage,
        "params": action.params,
        "inputs": inputs,
        "outputs": {name: f"{OUTPUT_FOLDER}/{path}" for name, path in action.outputs.items()},
    }


def platform_digest(action: PlannedAction) -> str:
    """Return the digest of the CPU that native code depends on, and of GPUs and their drivers if the action may use a device."""
    if not action.native:
        return ""
    if not action.params.get("devices"):
        return cpu_digest()
    return digest_value([cpu_digest(), gpu_digest(), *_gpu_libraries()])


@cache
def _gpu_libraries() -> list[str]:
    """Return the libraries of GPU drivers, under the names that have their releases."""
    from mlir_matrix.actions.sandbox.gpu_driver import DRIVERS, library_path  # most runs need no device

    return [os.path.realpath(path) for path in map(library_path, DRIVERS.values()) if path]


def action_key(action: PlannedAction, inputs: Iterable[Read], *, environment: str) -> str:
    """Return the key of an action's result; ``environment`` is the digest of the environment."""
    words = [
        action.tool,
        action.stage,
        action.params_digest,
        environment,
        tool_digest(action.tool, action.params.get("backend")),
        platform_digest(action),
    ]
    for read in inputs:
        words += read[:3]
    for output in action.outputs.items():
        words += output
    return digest_bytes("\n".join(words).encode())
