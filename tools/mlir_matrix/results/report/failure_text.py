"""Describe a failed test as plain text from its entry in the results, for logs of other programs. Import NumPy only if needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlir_matrix.base.text import counted, harmless

#: The most characters of a text. The folder of the failure has all of it.
LONGEST = 200_000
#: The most names of tests that the text of a cause has.
_MOST_NAMES = 200


def failure_text(entry: Mapping[str, Any]) -> str:
    """Return everything about an unexpected outcome, without control characters: reason, rule, census, diagnostics, commands."""
    return "".join(f"{capped(harmless(part), entry)}\n" for part in _parts(entry))


def cause_text(cause: Mapping[str, Any], example: Mapping[str, Any]) -> str:
    """Return a cause with the names of its tests, then everything about one of them. A cause of one test is that test."""
    tests = cause["tests"]
    if len(tests) == 1:
        return failure_text(example)
    lines = [cause["title"], f"{counted(len(tests), 'test')}: {', '.join(cause['globs'])}"]
    lines += [f"file:   {cause['file']}"] if cause.get("file") else []
    lines += ["", *(f"  {test}" for test in tests[:_MOST_NAMES])]
    lines += [f"  … and {len(tests) - _MOST_NAMES} more"] if len(tests) > _MOST_NAMES else []
    return f"{harmless(chr(10).join(lines))}\n\n{failure_text(example)}"


def cause_name(cause: Mapping[str, Any]) -> str:
    """Return a name for a cause: its title with the number of its tests, or the one test that it explains."""
    tests = cause["tests"]
    return str(tests[0]) if len(tests) == 1 else f"{counted(len(tests), 'test')}: {cause['title']}"


def headline(entry: Mapping[str, Any]) -> str:
    """Return the outcome with its reason, in one line."""
    rule = entry.get("expectation")
    wanted = f" (expected {rule['outcome']}, {rule['position']})" if rule else ""
    return " ".join(harmless(f"{entry['outcome']}{wanted}: {entry['reason']}").split())


def capped(text: str, entry: Mapping[str, Any]) -> str:
    """Cut a long text, and name the file with all of it."""
    if len(text) <= LONGEST:
        return text
    where = entry.get("kept") or "the results document"
    return f"{text[:LONGEST]}\n… {len(text) - LONGEST} more characters are left out here; all are in {harmless(where)}"


def _parts(entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"{entry['outcome']} {entry['id']}"
    if rule := entry.get("expectation"):
        yield f"expected {rule['outcome']} ({rule['position']}): {rule['reason']}"
    if held := entry.get("quarantine"):
        yield f"in quarantine until {held['until']} ({held['position']}; {held['owner']}): {held['reason']}"
    yield str(entry["reason"])
    verdict = entry.get("verdict")
    if verdict and verdict.get("outputs"):
        yield f"\n{_census(verdict)}"
    for text in (verdict and verdict.get("diagnostics"), entry.get("diagnostics")):
        if text:
            yield f"\n{str(text).rstrip()}"
    yield ""
    if pins := entry.get("pins"):
        yield f"pins:   {', '.join(f'{name} {release}' for name, release in pins.items())}"
    if step := entry.get("step"):
        yield f"step:   {step['name']}"
    for name in ("device", "scaled", "signal", "frame", "kept", "repeat", "next"):
        if entry.get(name):
            yield f"{f'{name}:':<7} {entry[name]}"


def _census(verdict: Mapping[str, Any]) -> str:
    from mlir_matrix.compare.report import render  # its package imports NumPy

    try:
        return render(verdict)
    except (KeyError, TypeError, ValueError):
        # Another version of the program has written it.
        return str(verdict.get("reason", ""))
