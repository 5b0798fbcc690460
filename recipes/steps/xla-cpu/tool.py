"""Compile StableHLO by XLA."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from jaxlib import xla_client
from jaxlib.version import __version_info__ as version

from mlir_matrix.actions.api import Action, read_text, under_test

#: Releases before end at a flag that they do not know.
_LIMITS_CPU = (0, 4, 36)


def run(action: Action) -> None:
    """Write the serialised executable: the first of a process, because names of later ones are numbered on."""
    os.environ["NPROC"] = "1"
    if version >= _LIMITS_CPU:
        os.environ["XLA_FLAGS"] = f"--xla_cpu_max_isa={action.params['parameters']['isa']}"
    client = xla_client.make_cpu_client()
    text = read_text(action.inputs["ir"], "the StableHLO")
    if "_sparse_dense_ffi" in text:
        # JAX's module for sparse matrices registers these functions, in the process that lowers.
        for name, function, api_version in import_module("jaxlib.cpu_sparse").registrations()["cpu"]:
            xla_client.register_custom_call_target(name, function, platform="cpu", api_version=api_version)
    with under_test():
        code = _compiled(client, text)
    Path(action.outputs["out"]).write_bytes(_ordered(code))


def _compiled(client: Any, text: str) -> bytes:
    """Return the serialised executable, by the names that jaxlib has had for this."""
    options = xla_client.CompileOptions()
    if hasattr(client, "compile_and_load"):
        devices = xla_client.DeviceList(tuple(client.local_devices()))
        executable = client.compile_and_load(text, devices, options)
    else:
        # Up to jaxlib 0.5.
        executable = client.compile(text, options)
    # Up to jaxlib 0.7 the client serialises.
    code: bytes = (
        executable.serialize() if hasattr(executable, "serialize") else client.serialize_executable(executable)
    )
    return code


def _ordered(code: bytes) -> bytes:
    """Return a serialised executable with its object files in order; its compiler's threads finish them in any.

    It is a message of Protocol Buffers behind its header. The first field of the message has the object files as field 8.
    """
    length, begin = _number(code, 0)
    begin, end = next(_fields(code, begin + length, len(code)))
    begin = _number(code, begin + 1)[1]
    objects = [(start, stop) for start, stop in _fields(code, begin, end) if code[start] == 8 << 3 | 2]
    if not objects:
        return code
    first, last = objects[0][0], objects[-1][1]
    return code[:first] + b"".join(sorted(code[start:stop] for start, stop in objects)) + code[last:]


def _fields(code: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where each field of a message begins and ends."""
    while at < end:
        begin = at
        tag, at = _number(code, at)
        if tag & 7 == 0:
            _, at = _number(code, at)
        elif tag & 7 == 2:
            length, at = _number(code, at)
            at += length
        else:
            at += 8 if tag & 7 == 1 else 4
        yield begin, at


def _number(code: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, seven bits a byte, and the place after it."""
    value = shift = 0
    while True:
        value |= (code[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if code[at - 1] < 0x80:
            return value, at
