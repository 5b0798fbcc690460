"""Write the workspace in which Bazel executes a plan: a module that contains only the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.plan_document import lasting, to_document
from mlir_matrix.plan.graph import ActionId
from mlir_matrix.plan.planner import PlannedTests

#: The name of the tests' repository.
REPOSITORY = "matrix"
#: Its folder of actions.
ACTIONS = "_actions/"


def write_workspace(
    session: Session, plan: PlannedTests, properties: Mapping[str, str], c_libraries: Mapping[str, str]
) -> Path:
    """Write the workspace of a plan and return its folder. Raise InfrastructureError.

    A set of catalogs has one workspace, so that Bazel's server keeps its state. ``c_libraries``: the digests of objects in
    the action cache, by the action that builds each.
    """
    roots = [str(root.absolute()) for root in session.catalog.roots]
    folder = session.home.cache / "bazel" / "workspaces" / digest_value(roots)[:16]
    document = lasting(to_document(plan.tests, plan, session, sealed=True))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        store = ActionCache(session.home.actions)
        for digest in c_libraries.values():
            _write(folder / _object(digest), store.read_blob(digest))
        exported = ["plan.json", *map(_object, c_libraries.values())]
        _write(folder / "BUILD.bazel", f"exports_files({_text(exported)})\n".encode())
        _write(folder / "MODULE.bazel", _module(roots, properties, session.home.packages, c_libraries).encode())
        _write(folder / "plan.json", json.dumps(document, separators=(",", ":")).encode())
    except OSError as error:
        raise InfrastructureError(f"the workspace for Bazel cannot be written: {error}") from None
    return folder


def label_of(test: str) -> str:
    """Return the label of a test, such as ``pytorch/linalg-loops/x86_64/mlp``, in the repository of the tests."""
    package, _, name = test.rpartition("/")
    return f"{package}:{name}"


def place_of(identifier: str) -> str:
    """Return the path of an action below ``_actions/``: package and name as in ``hub.bzl``."""
    return identifier if "/" in identifier else "/".join(ActionId.parse(identifier))


def action_label_of(identifier: str) -> str:
    """Return the label of an action in that repository."""
    return f"{ACTIONS}{place_of(identifier).replace('/', ':', 1)}"


def _object(digest: str) -> str:
    return f"c-library-{digest}.o"


def _module(roots: Sequence[str], properties: Mapping[str, str], packages: Path, c_libraries: Mapping[str, str]) -> str:
    root, *catalogs = roots
    return f"""\
module(name = "matrix_run")

bazel_dep(name = "mlir_matrix")
local_path_override(
    module_name = "mlir_matrix",
    path = {_text(root)},
)

matrix = use_extension("@mlir_matrix//toolchains/bazel:extensions.bzl", "matrix")
matrix.plan(
    name = {_text(REPOSITORY)},
    c_libraries = {_text({f"//:{_object(digest)}": action for action, digest in c_libraries.items()})},
    catalogs = {_text(catalogs)},
    exec_properties = {_text(dict(properties))},
    packages = {_text(str(packages))},
    plan = "//:plan.json",
)
use_repo(matrix, {_text(REPOSITORY)})

register_toolchains("@{REPOSITORY}//_toolchains:all")

register_execution_platforms("@{REPOSITORY}//_platforms:all")
"""


def _text(value: object) -> str:
    """Return a value in Starlark, where strings, lists and dictionaries are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, data: bytes) -> None:
    """Write a file unless it has this content: Bazel reads files with new times again."""
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)
