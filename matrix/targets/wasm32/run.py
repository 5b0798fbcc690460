"""Run a program of WebAssembly by Wasmtime. It sees the files of the action by WASI, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import wasmtime

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionCrashed


def run(action: Action) -> None:
    """Compile the program, call it, and judge how it ended."""
    here = os.getcwd()
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["kernel", *api.driver_arguments(action)]
    # C's paths are relative to the folder of this name.
    wasi.preopen_dir(here, ".")
    for path in {os.path.dirname(os.path.abspath(each)) for each in action.inputs.values()} - {here}:
        wasi.preopen_dir(path, path)
    wasi.stdout_file, wasi.stderr_file = "stdout", "stderr"
    engine = wasmtime.Engine()
    linker, store = wasmtime.Linker(engine), wasmtime.Store(engine)
    linker.define_wasi()
    store.set_wasi(wasi)
    try:
        module = wasmtime.Module.from_file(engine, action.inputs["artifact"])
        instance = linker.instantiate(store, module)
        instance.exports(store)["_start"](store)
        code = 0
    except wasmtime.ExitTrap as exit:
        code = exit.code
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        raise ActionCrashed("a trap of WebAssembly", diagnostics=str(error)) from error
    api.judge(code, _text("stdout"), _text("stderr"))
    api.check_written(action)


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")
