"""One interface for MLIR's Python bindings, whichever package has them.

The same API ships as ``mlir`` (llvm/eudsl's distribution), and inside ``torch_mlir``, ``iree.compiler`` and
``jaxlib.mlir``. Two of them in one process collide in nanobind's type registry, so a process takes one and keeps it.

Creating a context with its hundred dialects takes as long as the work of an action. ``preload`` creates one without threads,
which each forked child then uses. Nothing else uses it, so a child starts with an unused context. The next action of a job
uses the context again, if the one before loaded no further dialects and had no resources.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from mlir_matrix.actions.contract import ActionFailed, is_verdict, under_test
from mlir_matrix.actions.mlir import reasons
from mlir_matrix.actions.runtime.programs import shortened

#: Packages that carry the bindings, the real distribution first.
ROOTS = ("mlir", "torch_mlir", "iree.compiler", "jaxlib.mlir")

#: ``tm_tensor`` and ``chlo`` have no function that registers them: they are loaded as what a pass depends on.
_TORCH_LOADS = "builtin.module(func.func(convert-torch-to-stablehlo,convert-torch-to-tmtensor))"

#: The most characters of a message. A note such as «see current operation» prints whole functions.
_MESSAGE_LIMIT = 20_000

#: Dialects of operations that our tools read: at the top of modules, and in files of steps.
_SHOWN = ("builtin", "func", "llvm", "ml_program", "memref", "pdl", "transform")

_registered_passes = False
#: A section of resources in MLIR text. Their names are unique in a context, so it cannot read them twice.
_RESOURCES = "{-#"
#: The context that ``preload`` made, or the one that the last session left, by its root.
_ready: dict[str, Any] = {}
#: The sessions with these contexts. They are kept until the process ends, because freeing a context takes a tenth of its time.
_kept: list[ReportingContext] = []


def installed() -> tuple[str, ...]:
    """Return the roots that this environment has, best first. Import only the parents of dotted roots."""
    return tuple(root for root in ROOTS if _has(root))


def _has(root: str) -> bool:
    try:
        return importlib.util.find_spec(f"{root}.ir") is not None
    except ModuleNotFoundError:
        return False


def preload() -> None:
    """Import the bindings in the warm parent if there is one package of them, and make a context without threads."""
    # The bindings import NumPy, whose OpenBLAS starts a thread per core by default. This process forks later, so it needs one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    roots = installed()
    if len(roots) == 1 and roots[0] not in _ready:
        _ready[roots[0]] = load(roots[0]).context()
        _count_dialects(roots[0])
        # The bindings import a dialect's module when they first show one of its operations: up to 30 ms in each child.
        for dialect in _SHOWN:
            _optional(f"{roots[0]}.dialects.{dialect}")


@dataclass(frozen=True, kw_only=True)
class Bindings:
    """The modules of one bindings package; None stands for one that it was built without."""

    root: str
    ir: ModuleType
    passmanager: ModuleType | None
    execution_engine: ModuleType | None
    rewrite: ModuleType | None

    def context(self) -> Any:
        """Return a new context with every dialect of the package and no threads."""
        context = self.ir.Context()
        context.enable_multithreading(False)
        context.allow_unregistered_dialects = False
        # Errors go to our handler, in order and with their notes, also those of passes that then do not fail.
        if hasattr(context, "emit_error_diagnostics"):
            context.emit_error_diagnostics = True
        if self.root == "torch_mlir":
            self._register_torch(context)
        elif self.root == "jaxlib.mlir":
            self._register_jaxlib(context)
        return context

    @contextmanager
    def session(self) -> Iterator[ReportingContext]:
        """Enter a context for the length of the block: an unused one, or one in the state of an unused one."""
        ready = _ready.pop(self.root, None)
        context = ready or self.context()
        session = ReportingContext(bindings=self, context=context)
        if ready is not None:
            _kept.append(session)
        loaded = self._loaded(context)
        handler = context.attach_diagnostic_handler(session.note)
        try:
            with context, self.ir.Location.unknown():
                yield session
        finally:
            handler.detach()
        # What a context has beyond types and attributes: the dialects that passes load, and resources by name.
        if ready is not None and loaded is not None and loaded == self._loaded(context) and not session.has_resources:
            _ready[self.root] = context

    def _loaded(self, context: Any) -> int | None:
        """Return the number of dialects that a context has loaded; None if the package cannot tell."""
        count = _count_dialects(self.root)
        if count is None:
            return None
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        return count(pointer(context._CAPIPtr, f"{self.root}.ir.Context._CAPIPtr".encode()))

    def _register_torch(self, context: Any) -> None:
        """Register torch, stablehlo, chlo and tm_tensor, which are not in the registry of torch-mlir's contexts."""
        global _registered_passes
        importlib.import_module("torch_mlir.dialects.torch").register_dialect(context)
        stablehlo = importlib.import_module("torch_mlir._mlir_libs._stablehlo")
        stablehlo.register_dialect(context)
        if not _registered_passes:
            stablehlo.register_stablehlo_passes()
            _registered_passes = True
        with context, self.ir.Location.unknown():
            self.needed("passmanager").PassManager.parse(_TORCH_LOADS).run(self.ir.Module.create().operation)

    def _register_jaxlib(self, context: Any) -> None:
        """Register JAX's dialects: an extension of JAX has them, contexts start without."""
        registry = self.ir.DialectRegistry()
        importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for dialect in ("_stablehlo", "_chlo"):
            importlib.import_module(f"jaxlib.mlir._mlir_libs.{dialect}").register_dialect(context)

    def needed(self, part: Literal["passmanager", "execution_engine", "rewrite"]) -> Any:
        """Return a module of the package. Raise ActionFailed if the package was built without it."""
        module = getattr(self, part)
        if module is None:
            raise ActionFailed(f"the bindings package {self.root} was built without {self.root}.{part}")
        return module


@dataclass(kw_only=True)
class ReportingContext:
    """A context in use. It collects messages, which become the diagnostics of a failure."""

    bindings: Bindings
    context: Any
    reported: list[str] = field(default_factory=list)
    #: Message and location of the first error.
    error: tuple[str, str] | None = None
    #: Modules and pass managers, which live as long as the session.
    owned: list[Any] = field(default_factory=list)
    #: Whether a module that was read or written may have resources.
    has_resources: bool = False

    def note(self, diagnostic: Any) -> bool:
        """Handle a diagnostic. True means that nothing goes to stderr."""
        self.reported.append(_told(diagnostic, ""))
        if self.error is None and self.reported[-1].startswith("error: "):
            self.error = str(diagnostic.message), str(diagnostic.location)
        return True

    def failed(self, reason: str, error: BaseException | None = None) -> ActionFailed:
        """Return the error to raise, with the diagnostics, or with the exception's text where there are none."""
        text = "".join(self.reported) or (f"{error}\n" if error else "")
        return ActionFailed(reason, diagnostics=text)

    @contextmanager
    def compiling(self, what: str) -> Iterator[None]:
        """Turn what a call of the compiler raises into an ActionFailed, «``what``: the first error»."""
        try:
            with under_test():
                yield
        except Exception as error:
            if not is_verdict(error):
                raise
            raise self.failed(f"{what}: {self._first_error(error)}", error) from error

    def parse(self, path: str, what: str = "the IR") -> Any:
        """Return a verified module from a file of text or bytecode. Raise ActionFailed."""
        source = Path(path).read_bytes()
        if not source.strip():
            raise ActionFailed(f"{what} is empty")
        try:
            if not source.startswith(b"ML\xefR"):
                source.decode()
        except UnicodeDecodeError as error:
            raise ActionFailed(f"{what} is neither MLIR text nor bytecode", diagnostics=f"{error}\n") from error
        self.has_resources |= source.startswith(b"ML\xefR") or _RESOURCES.encode() in source
        with self.compiling(f"{what} does not parse"):
            # By its path, which is what locations then show.
            module = self.bindings.ir.Module.parseFile(path)
        self.owned.append(module)
        return module

    def run(self, module: Any, passes: str, printed: str = "") -> None:
        """Run ``builtin.module(passes)`` on the module, in place. ``printed``: a folder for the IR after each pass."""
        manager = self.bindings.needed("passmanager").PassManager
        try:
            with under_test():
                parsed = manager.parse(f"builtin.module({passes})")
        except Exception as error:
            if not is_verdict(error):
                raise
            raise ActionFailed("the pass pipeline does not parse", diagnostics=f"{error}\n") from error
        self.owned.append(parsed)
        parsed.enable_verifier(True)
        if printed:
            parsed.enable_ir_printing(print_after_all=True, tree_printing_dir_path=printed)
        try:
            with under_test():
                parsed.run(module.operation)
        except Exception as error:
            if not is_verdict(error):
                raise
            told = self.error
            reason = reasons.by_module(self.bindings.ir, module, *told) if told else self._first_error(error)
            raise self.failed(reason, error) from error

    def rewrite(self, module: Any, patterns: Any) -> None:
        """Apply ``pdl.pattern`` operations greedily until nothing matches. Consumes ``patterns``."""
        pdl = self.bindings.needed("rewrite")
        with self.compiling("the patterns failed"):
            pdl.apply_patterns_and_fold_greedily(module, pdl.PDLModule(patterns).freeze())

    def text(self, module: Any) -> str:
        """Return the verified module without locations: its bytes do not depend on files and lines."""
        with self.compiling("the IR is not valid"):
            module.operation.verify()
            text = str(module.operation.get_asm(enable_debug_info=False)).rstrip("\n") + "\n"
        self.has_resources |= _RESOURCES in text
        return text

    def _first_error(self, error: BaseException) -> str:
        return shortened(self.error[0] if self.error else str(error))


def _told(diagnostic: Any, indent: str) -> str:
    severity = str(diagnostic.severity).rsplit(".", 1)[-1].lower()
    message = str(diagnostic.message)
    if len(message) > _MESSAGE_LIMIT:
        message = f"{message[:_MESSAGE_LIMIT]} … ({len(message)} characters)"
    location = str(diagnostic.location)
    where = "" if location == "loc(unknown)" else f"\n{indent}  at {location}"
    notes = "".join(_told(each, indent + "  ") for each in diagnostic.notes)
    return f"{indent}{severity}: {message}{where}\n{notes}"


def load(root: str = "") -> Bindings:
    """Return the bindings of a package, by default of the best one. Raise RuntimeError for a second package."""
    root = root or next(iter(installed()), "")
    if not root:
        raise ActionFailed(f"the environment has no MLIR bindings: none of {', '.join(ROOTS)} can be imported")
    if root not in ROOTS:
        raise ActionFailed(f"unknown bindings package {root!r}; known are {', '.join(ROOTS)}")
    others = [each for each in ROOTS if each != root and f"{each}.ir" in sys.modules]
    if others:
        raise RuntimeError(f"{others[0]} is loaded in this process; {root} in the same process would collide with it")
    try:
        ir = importlib.import_module(f"{root}.ir")
    except ModuleNotFoundError as error:
        raise ActionFailed(f"the environment has no bindings package {root}", diagnostics=f"{error}\n") from error
    return Bindings(
        root=root,
        ir=ir,
        passmanager=_optional(f"{root}.passmanager"),
        execution_engine=_optional(f"{root}.execution_engine"),
        rewrite=_optional(f"{root}.rewrite"),
    )


@cache
def _count_dialects(root: str) -> Callable[[int], int] | None:
    """Return MLIR's function that counts the dialects of a context; None if the package does not export it."""
    try:
        path = importlib.import_module(f"{root}._mlir_libs._mlir").__file__
        # Not loaded again; its symbols include those of the libraries that it needs.
        found = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY).mlirContextGetNumLoadedDialects
    except (ImportError, OSError, AttributeError):
        return None
    found.argtypes, found.restype = [ctypes.c_void_p], ctypes.c_ssize_t
    return found


def _optional(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
