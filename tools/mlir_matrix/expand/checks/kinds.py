"""Check the contracts of kinds: that each can be met, and that each part of it has an effect."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from mlir_matrix.base.names import printable
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Kind
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.kinds import lineage

#: The type that each form of ``@main`` has, and the operation that it is.
_MAIN = {
    "tensor": ("tensor", "func.func"),
    "memref": ("memref", "func.func"),
    "vtensor": ("!torch.vtensor", "func.func"),
    "c-interface": ("", "llvm.func"),
}


def check(checker: Checker) -> None:
    """Check all kinds."""
    for kind in checker.catalog.kinds.values():
        document = kind.document
        has_contract = document.ops or document.types.forbid or document.main or document.canonical or document.extends
        if has_contract and not document.file.endswith(".mlir"):
            message = f"a kind with a contract is MLIR, and its file ends in .mlir, not {printable(document.file)}"
            checker.wrong(kind, message, "file")
        line = lineage(checker.catalog, kind.name)
        if _ancestors(checker, kind, line):
            _operations(checker, kind, line)
            _main(checker, kind, line)


def _ancestors(checker: Checker, kind: Entry[Kind], line: Sequence[Entry[Kind]]) -> bool:
    """Check what a kind extends. Return whether all of that exists."""
    base = kind.document.extends
    if base is None:
        return True
    if not checker.known(kind, "kind", base, checker.catalog.kinds, "extends"):
        return False
    last = line[0].document.extends
    if last is None:
        return True
    names = [entry.name for entry in reversed(line)]
    # An unknown kind, and a circle of others, are reported where they are.
    if last == kind.name:
        checker.wrong(kind, f"a circle: {' extends '.join([*names, last])}", "extends")
    return False


def _operations(checker: Checker, kind: Entry[Kind], line: Sequence[Entry[Kind]]) -> None:
    """Check that no glob is allowed and forbidden, and that each forbidden one takes something away."""
    own = kind.document.ops
    if own is None:
        return
    for entry in line:
        for index, glob in enumerate(entry.document.ops.forbid if entry.document.ops else ()):
            place = entry.source.position("ops", "forbid", index)
            for number, each in enumerate(own.allow):
                if fnmatchcase(each, glob):
                    message = f"'{each}' is forbidden, too ({place}), and so never allowed"
                    checker.wrong(kind, message, "ops", "allow", number)
    allowed = _allowed(line)
    for index, glob in enumerate(own.forbid):
        dialect = glob.partition(".")[0]
        if dialect != "*" and not any(fnmatchcase(dialect, each.partition(".")[0]) for each in allowed):
            message = f"'{glob}' takes nothing away: 'allow' has no operation of the dialect {dialect}"
            checker.wrong(kind, message, "ops", "forbid", index)


def _allowed(line: Sequence[Entry[Kind]]) -> set[str]:
    """Return what a kind and those that it extends allow."""
    return {glob for entry in line if entry.document.ops for glob in entry.document.ops.allow} or {"*"}


def _main(checker: Checker, kind: Entry[Kind], line: Sequence[Entry[Kind]]) -> None:
    """Check that a function can have the form of ``@main``."""
    forms = [entry.document.main for entry in line if entry.document.main]
    if not forms:
        return
    key = "main" if kind.document.main else "extends"
    type_name, operation = _MAIN[forms[-1]]
    if any(type_name in entry.document.types.forbid for entry in line):
        message = f"no IR meets this contract: 'main' asks for the type {type_name}, which 'types' forbids"
        checker.wrong(kind, message, key)
    forbidden = [glob for entry in line if entry.document.ops for glob in entry.document.ops.forbid]
    refuses = ""
    if any(fnmatchcase(operation, glob) for glob in forbidden):
        refuses = "forbids"
    elif not any(fnmatchcase(operation, glob) for glob in _allowed(line)):
        refuses = "does not allow"
    if refuses:
        message = f"no IR meets this contract: 'main' asks for {operation}, which 'ops' {refuses}"
        checker.wrong(kind, message, key)
