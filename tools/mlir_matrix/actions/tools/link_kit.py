"""Build the C driver, start-up code and C library with which every kernel of a target is linked.

params   ``triple``: the target, as Zig names it (``x86_64-linux-musl``)
inputs   the driver's sources, each under its file name (``driver.c``, ``npy.h``, …); needed but for ``runtime``
outputs  ``driver``: the driver, one relocatable object; ``library``: the driver as a shared library, for what compiles
         kernels in memory; ``bench``: the driver that measures a kernel, one relocatable object; ``runtime``: start-up
         code, all of musl with libm, and compiler-rt, one relocatable object.
         Each may be asked for alone: the runtime takes Zig half a minute to build, the others a second

The runtime is one object, because archives contain the path of the cache in which they were made, and debug information contains
paths of the machine. One object without these has equal bytes on all machines. It is smaller (2 MB instead of 10), and ``link``
reads only one file. The linker leaves out the code that a kernel does not use.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.params import LinkKitParams

#: Discards debug information, which contains absolute paths.
_SCRIPT = "SECTIONS { /DISCARD/ : { *(.debug*) *(.comment) } }\n"
#: No contraction, so that the driver prints equal numbers on every CPU.
_FLAGS = (
    "-std=c11", "-O2", "-g0", "-ffp-contract=off",
    "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
)  # fmt: skip
#: The source file with the entry point of each form of the driver.
_MAINS = {"driver": "main.c", "library": "jit.c", "bench": "bench.c"}
#: The symbols that the library exports: functions that kernels call, and its entry point. Other symbols stay local, so they
#: cannot conflict with symbols of the process.
_SHOWN = (
    "{ global: matrix_drive; _mlir_*; memrefCopy; roundeven; roundevenf; __truncsfbf2; __truncdfbf2; local: *; };\n"
)


def run(action: Action[LinkKitParams]) -> None:
    """Build the requested outputs. Raise ActionFailed if the sources do not compile."""
    with tempfile.TemporaryDirectory(prefix="kit-", dir=".") as folder:
        scratch = Path(folder).absolute()
        target = action.params["triple"]
        if "runtime" in action.outputs:
            shutil.move(_runtime(scratch, target), action.outputs["runtime"])
        for form in _MAINS.keys() & action.outputs.keys():
            shutil.move(_driver(scratch, target, action.inputs, form), action.outputs[form])


def zig() -> str:
    """Return the path of the Zig program in this environment."""
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("this environment has no ziglang")
    return str(Path(spec.origin).with_name("zig"))


def zig_environment(scratch: Path) -> dict[str, str]:
    """Return all variables that Zig sees: caches in our folder, no settings of the user, no programs of the machine."""
    cache = str(scratch / "cache")
    return {
        "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, "TMPDIR": str(scratch), "HOME": str(scratch),
        "PATH": "", "LC_ALL": "C",
    }  # fmt: skip


def _zig(scratch: Path, arguments: Sequence[str], *, failure: str, extra: Mapping[str, str] | None = None) -> str:
    """Run Zig in the scratch folder and return its stderr."""
    done = subprocess.run(
        [zig(), *arguments], cwd=scratch, env={**zig_environment(scratch), **(extra or {})}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ActionFailed(failure, diagnostics=done.stdout + done.stderr)
    return done.stderr


def _runtime(scratch: Path, target: str) -> Path:
    """Link an empty program, so that Zig builds its libraries, and merge those into one object."""
    (scratch / "empty.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    text = _zig(
        scratch, ["cc", "-target", target, "-O2", "-g0", "-static", "empty.c", "-o", "empty"],
        failure=f"zig cannot build the C library of {target}", extra={"ZIG_VERBOSE_LINK": "1"},
    )  # fmt: skip
    libraries = _libraries(text)
    if not libraries:
        raise ActionFailed(f"zig does not say which libraries it links for {target}", diagnostics=text)
    return _merge(scratch, target, "runtime.o", libraries, whole=True)


def _libraries(verbose: str) -> list[str]:
    """Return the start-up objects and archives of Zig's last link command, in order, without our own object."""
    commands = [line.split() for line in verbose.splitlines() if line.startswith(("ld.lld ", "wasm-ld "))]
    words = commands[-1] if commands else []
    return [word for word in words if word.endswith((".a", ".o")) and Path(word).name != "empty.o"]


def _driver(scratch: Path, target: str, sources: Mapping[str, str], form: str) -> Path:
    folder = scratch / form
    folder.mkdir()
    for name, path in sources.items():
        shutil.copyfile(path, folder / Path(name).name)
    others = set(_MAINS.values()) - {_MAINS[form]}
    names = sorted(path.name for path in folder.glob("*.c") if path.name not in others)
    if not names:
        raise ActionFailed("the driver has no sources")
    flags = [*_FLAGS, "-fPIC"] if form == "library" else _FLAGS
    objects = []
    for name in names:
        objects.append(f"{form}/{name}.o")
        _zig(
            scratch, ["cc", "-target", target, *flags, "-c", f"{form}/{name}", "-o", objects[-1]],
            failure=f"{name} of the driver does not compile",
        )  # fmt: skip
    return _share(scratch, target, objects) if form == "library" else _merge(scratch, target, f"{form}.o", objects)


def _share(scratch: Path, target: str, objects: Sequence[str]) -> Path:
    (scratch / "shown.map").write_text(_SHOWN, encoding="utf-8")
    _zig(
        scratch, ["cc", "-target", target, "-shared", "-s", "-Wl,--version-script=shown.map", "-Wl,--build-id=none",
                  # Without compiler-rt, which Zig builds in five seconds, and which the driver does not use.
                  "-nostdlib", "-lc", "-lm", "-o", "driver.so", *objects],
        failure="driver.so cannot be linked",
    )  # fmt: skip
    return scratch / "driver.so"


def is_wasm(triple: str) -> bool:
    """Return whether a target is WebAssembly, for which Zig uses another linker."""
    return triple.startswith("wasm")


def _merge(scratch: Path, target: str, name: str, objects: Sequence[str], *, whole: bool = False) -> Path:
    """Merge objects and archives into one object without debug information."""
    if is_wasm(target):
        words = ["wasm-ld", "-r", "--strip-debug", *(["--whole-archive"] if whole else [])]
    else:
        (scratch / "strip.ld").write_text(_SCRIPT, encoding="utf-8")
        words = ["ld.lld", "-r", "-T", "strip.ld", *(["--undefined-glob=*"] if whole else [])]
    _zig(scratch, [*words, "-o", name, *objects], failure=f"{name} cannot be linked")
    return scratch / name
