"""Hold IR against the contract of its kind: operations, types, the form of ``@main``, passes that must change nothing.

Whatever a backend cannot decide is not checked: IR of the kind never fails here.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from mlir_matrix.actions.contract import ActionFailed, add_metrics
from mlir_matrix.actions.mlir import generic_form
from mlir_matrix.actions.params import Contract, MainForm, TypeWord

#: Text that each type has, and the type, by the word that contracts have for it. Before it is neither a dialect nor a longer name.
TYPES: Mapping[TypeWord | str, tuple[str, str]] = {
    "tensor": ("tensor<", r"(?<![\w.])tensor<(?:[^<>]|<[^<>]*>)*>"),
    "memref": ("memref<", r"(?<![\w.])memref<(?:[^<>]|<[^<>]*>)*>"),
    "memref-layout": ("memref<", r"(?<![\w.])memref<[^<>]*, (?:strided|affine_map)<(?:[^<>]|->)*>[^<>]*>"),
    "vector": ("vector<", r"(?<![\w.])vector<[^<>]*>"),
    "unranked": ("<*x", r"(?<![\w.])(?:tensor|memref)<\*x[^<>]*>"),
}
#: The types of ``@main`` by the word of contracts, and in words. Compiled here, because each action has a process of its own.
FORMS: Mapping[MainForm, tuple[re.Pattern[str], str]] = {
    "tensor": (re.compile(r"tensor<(?!\*)(?:[^<>#]|<[^<>#]*>)*>"), "a ranked tensor"),
    "memref": (re.compile(r"memref<(?!\*)[^<>#]*(?:complex<\w+>)?(?:, \d+)?>"), "a memref with the identity layout"),
    "vtensor": (re.compile(r"!torch\.vtensor<.*>"), "a !torch.vtensor"),
    "c-interface": (re.compile(""), "passed by C's calling convention"),
}
_MAIN = re.compile(r"^ *func\.func (?:public )?@main(\(.*)", re.MULTILINE)
_ENTRY = re.compile(r"^ *llvm\.func (?:[\w()\" =,]+ )?@_mlir_ciface_main\(.*\{$", re.MULTILINE)
#: The module is what holds the IR of each kind.
_HOLDER = "builtin.module"
#: The most operations of a reason, and the most lines of diagnostics.
_NAMED, _LISTED = 3, 100


class Inspected(Protocol):
    """IR that a backend has at hand. Each function raises ActionFailed if the compiler cannot do it."""

    def operations(self) -> Mapping[str, int] | None:
        """Return how many of each operation there are; None if the release cannot count them."""

    def located(self) -> str:
        """Return the IR in generic form, with locations, and without aliases."""

    def after(self, passes: str) -> str:
        """Return the text of the IR after passes, which may change it."""

    def has_dialect(self, name: str) -> bool:
        """Return whether the release has a dialect; True if that is unknown."""


class _Found(NamedTuple):
    """What a kind does not have: an operation, or an operation and its type."""

    what: str
    operation: generic_form.LocatedOperation


def hold(contract: Contract, text: str, inspected: Inspected, verb: str = "left") -> None:
    """Raise ActionFailed for IR that breaks a contract; keep the number of each operation as a metric.

    ``text``: the IR as it is written. ``verb``: what the tool has done with that which the kind does not have.
    """
    counts = inspected.operations()
    if counts is not None:
        add_metrics({"operations": dict(sorted(counts.items()))})
        refused = _refused(counts, contract)
        if refused:
            found, note = _operations(inspected, refused), _misspelt(contract, refused, inspected)
            raise _failed(contract, f"{verb} {{}} that kind {{}} does not have", found, note)
    types = [_of_type(word) for word in contract.get("types", ())]
    # Most IR has no such text. Where it has, it may be that of an attribute.
    if any(part in text for part, _ in types):
        found = _values(inspected, [each for _, each in types])
        if found:
            raise _failed(contract, f"{verb} {{}} with types that kind {{}} does not have", found)
    _hold_main(contract, text)
    for passes in contract.get("canonical", ()):
        _hold_canonical(contract, text, inspected, passes)


def _refused(operations: Iterable[str], contract: Contract) -> set[str]:
    """Return the operations that IR of a kind may not have."""
    allowed, forbidden = _Names(contract.get("allow", ["*"])), _Names(contract.get("forbid", ()))
    return {name for name in operations if name != _HOLDER and (name in forbidden or name not in allowed)}


class _Names:
    """Names of operations, some of them by their begin."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._begins = tuple(glob[:-1] for glob in globs if glob.endswith("*"))
        self._whole = frozenset(globs)

    def __contains__(self, name: str) -> bool:
        return name.startswith(self._begins) or name in self._whole


def _of_type(word: str) -> tuple[str, str]:
    """Return the text and the expression for a word of contracts, or for a type of a dialect, ``!torch.tensor``."""
    return TYPES.get(word) or (word, rf"{re.escape(word)}(?![\w.-])")


def _operations(inspected: Inspected, names: Collection[str]) -> list[_Found]:
    """Return the operations with these names, without those inside of others."""
    found: list[_Found] = []
    outer = -1
    for each in generic_form.operations(inspected.located()):
        if 0 <= outer < each.depth:
            continue
        outer = each.depth if each.name in names else -1
        if outer >= 0:
            found.append(_Found(each.name, each))
    return found


def _values(inspected: Inspected, types: Iterable[str]) -> list[_Found]:
    """Return the operations with operands, results or arguments of blocks of these types."""
    wanted = re.compile("|".join(types))
    matches = ((each, wanted.search(each.types)) for each in generic_form.operations(inspected.located()))
    return [_Found(f"{each.name} on {match[0]}", each) for each, match in matches if match]


def _misspelt(contract: Contract, refused: Iterable[str], inspected: Inspected) -> str:
    """Return a sentence for each dialect of a contract that the release does not have, and that looks like one of the IR."""
    allowed = {glob.partition(".")[0] for glob in contract.get("allow", ())}
    near = {
        (each, dialect)
        for dialect in {name.partition(".")[0] for name in refused}
        for each in difflib.get_close_matches(dialect, allowed)
    }
    unknown = [(each, dialect) for each, dialect in sorted(near) if not inspected.has_dialect(each)]
    return "".join(
        f"the contract allows {each}.*, and this release has no such dialect: {dialect}?\n" for each, dialect in unknown
    )


def _failed(contract: Contract, sentence: str, found: Sequence[_Found], note: str = "") -> ActionFailed:
    """Return the failure: how many of what there are, where the first ones are, and a list and a note as diagnostics."""
    counted = Counter(each.what for each in found)
    named, file = [], ""
    for what, number in counted.most_common(_NAMED):
        first = next(each.operation for each in found if each.what == what)
        # The path of a file may be long.
        at = f"line {first.place.partition(':')[0]}" if file and first.file == file else _place(first)
        file = file or first.file
        shown = what if number == 1 else f"{number} {what}"
        if first.file:
            shown += f" at {at}" if number == 1 else f" (first at {at})"
        named.append(shown)
    if len(counted) > _NAMED:
        named.append(f"{len(counted) - _NAMED} more")
    lines = [
        f"{each.what} at {_place(each.operation)}\n" if each.operation.file else f"{each.what}\n" for each in found
    ]
    if len(lines) > _LISTED:
        lines[_LISTED:] = [f"[{len(lines) - _LISTED} more]\n"]
    total = f"{len(found)} operation{'' if len(found) == 1 else 's'}"
    reason = f"{sentence.format(total, contract['kind'])}: {', '.join(named)}"
    return ActionFailed(reason, diagnostics="".join([*lines, note]))


def _place(operation: generic_form.LocatedOperation) -> str:
    return f"{operation.file}:{operation.place}"


def _hold_canonical(contract: Contract, text: str, inspected: Inspected, passes: str) -> None:
    """Raise ActionFailed if passes change the IR, or fail."""
    wrong = f"the IR is not in the canonical form of kind {contract['kind']}"
    try:
        changed = inspected.after(passes)
    except ActionFailed as error:
        raise ActionFailed(f"{wrong}: {passes}: {error.reason}", diagnostics=error.diagnostics) from error
    if changed != text:
        lines = difflib.unified_diff(text.splitlines(True), changed.splitlines(True), "is", "canonical", n=1)
        raise ActionFailed(f"{wrong}: {passes} changes it", diagnostics="".join(islice(lines, _LISTED)))


def _hold_main(contract: Contract, text: str) -> None:
    """Raise ActionFailed unless ``@main`` has the form of a kind."""
    word, kind = contract.get("main"), contract["kind"]
    if word is None:
        return
    if word == "c-interface":
        if not _ENTRY.search(text):
            raise ActionFailed(f"@main has no C interface, which kind {kind} asks for: no llvm.func @_mlir_ciface_main")
        return
    found = _MAIN.search(text)
    if found is None:
        raise ActionFailed(f"there is no func.func @main, which kind {kind} asks for")
    pattern, meant = FORMS[word]
    for role, type_text in _interface(found[1]):
        if not pattern.fullmatch(type_text):
            raise ActionFailed(f"@main has {role} of {type_text}; in kind {kind} each is {meant}")


def _interface(signature: str) -> Iterator[tuple[str, str]]:
    """Yield the role and the type of each argument and result of a function in MLIR's custom form, as written after its name."""
    arguments, results = generic_form.custom_signature(signature)
    yield from (("an argument", each) for each in arguments)
    yield from (("a result", each) for each in results)
