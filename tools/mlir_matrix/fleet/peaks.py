"""Measure the peaks of this machine, one core of it, and keep them in the user's state by the model of the CPU."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import LinkKitParams, PeaksParams
from mlir_matrix.base.files import write_file
from mlir_matrix.base.fingerprint import cpu_digest
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.machines import Peaks
from mlir_matrix.environments.machine import x86_level
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import outputs_of
from mlir_matrix.plan.graph import File, Graph, Produced
from mlir_matrix.plan.request import Limits

_SOURCE = "tools/driver/peaks.c"
_LINKER = "zig"
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
#: Usual sizes, where the kernel does not say how large the caches are.
_USUAL = {"L1": 32 << 10, "L2": 512 << 10, "L3": 16 << 20}
_LARGEST_BUFFER = 512 << 20


def measure_peaks(session: Session, limits: Limits) -> Peaks:
    """Measure the peaks, and keep them where they are higher than those of earlier measurements, which other work may have slowed.

    Raise UsageError if the kernels do not run, and InfrastructureError.
    """
    caches = _caches()
    graph, triple = Graph(), f"{platform.machine()}-linux-musl"
    linker = session.pins.reference(_LINKER)
    runtime = graph.add(
        f"runtime/{triple}",
        tool="link_kit",
        stage=Stage.CODEGEN,
        environment=linker,
        params=LinkKitParams(triple=triple),
        inputs={},
        outputs={"runtime": "runtime.o"},
    )
    cpu = x86_level().replace("-", "_")
    params = PeaksParams(triple=triple, cpu=cpu, buffers=_buffers(caches), number=time.time_ns())
    action = graph.add(
        "peaks",
        tool="peaks",
        stage=Stage.RUN,
        environment=linker,
        params=params,
        inputs={"source": File(0, _SOURCE), "runtime": Produced(runtime, "runtime")},
        outputs={"peaks": "peaks.json"},
        native=True,
    )
    outputs = outputs_of(session, graph, action, "the peaks of this machine", limits)
    found = json.loads(outputs["peaks"])
    before = kept_peaks(session.home)
    peaks = Peaks(
        gflops=_highest(found["gflops"], before.gflops if before else {}),
        gbs=_highest(found["gbs"], before.gbs if before else {}),
        caches=caches,
    )
    kept = json.dumps(peaks.model_dump(mode="json"), indent=1)
    write_file(_file(session.home), f"{kept}\n".encode())
    return peaks


def kept_peaks(home: Home) -> Peaks | None:
    """Return the peaks that were measured on a CPU like this one; None before the first measurement."""
    with suppress(OSError, ValidationError):
        return Peaks.model_validate_json(_file(home).read_bytes())
    return None


def _file(home: Home) -> Path:
    return home.state / "peaks" / f"{cpu_digest()[:16]}.json"


def _highest(found: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: max(float(value), before.get(name, 0.0)) for name, value in found.items()}


def _caches() -> dict[str, int]:
    """Return the bytes of the caches for data, by level."""
    found: dict[str, int] = {}
    for index in sorted(_CACHES.glob("index*")):
        with suppress(OSError, ValueError):
            kind, level, size = (index.joinpath(name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                found[f"L{int(level)}"] = int(size.removesuffix("K")) << 10
    return dict(sorted(found.items())) or dict(_USUAL)


def _buffers(caches: Mapping[str, int]) -> dict[str, int]:
    """Return a buffer for each level: half of a cache, so that nothing else drives it out, and four times the last one."""
    memory = min(max(4 * max(caches.values()), 64 << 20), _LARGEST_BUFFER)
    return {**{level: size // 2 for level, size in caches.items()}, "memory": memory}
