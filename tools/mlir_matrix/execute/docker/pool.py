"""The crew of ``--executor docker``: workers in warm containers, each with one action at a time.

Containers are few and stay: to start one takes a tenth of a second and the import of what its tools need, to use one again
no more than a worker of this machine. Nothing of an action stays in one: the worker ends its processes, we empty its folder,
and there is no other place that it could write to.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from mlir_matrix.actions.runtime.child import LOG_FILE
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.actions.runtime.contract import OUTPUT_FOLDER
from mlir_matrix.catalog.models.containers import Containers
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.docker import options
from mlir_matrix.execute.docker.container import Pace, Slot, start
from mlir_matrix.execute.docker.containers import reap, remove_ours
from mlir_matrix.execute.docker.image_supply import ImageSupply
from mlir_matrix.execute.job import Job
from mlir_matrix.execute.sandbox import Folders
from mlir_matrix.execute.worker_pool import Left, Place, Supply, is_silent, time_limit
from mlir_matrix.images.daemon import connect


class ContainerCrew:
    """Slots of containers, by environment."""

    def __init__(self, place: Place, settings: Containers) -> None:
        """Raises InfrastructureError where there is no daemon."""
        self._place = place
        self._daemon = connect()
        reap(self._daemon)
        with self._daemon.plainly("asking what it can do"):
            secured = self._daemon.client.api.info().get("SecurityOptions") or []
        self._user = options.choose_user(settings.user, rootless=any("rootless" in option for option in secured))
        self._images = ImageSupply(place, self._daemon, self._user, settings)
        self.supply: Supply = self._images
        self._folders = Folders(place.scratch, place.files)
        self._slots: dict[str, list[Slot]] = defaultdict(list)
        self._paces: dict[str, Pace] = defaultdict(Pace)
        self._serial = 0
        if os.geteuid() == 0:
            # Another user reads what we write for it.
            os.umask(0o022)

    def able(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Those that have a slot to spare or none at all; if there are none, those for which another slot would pay."""
        free = [digest for digest in waiting if self._idle(digest) or not self._slots[digest]]
        return free or [digest for digest, count in waiting.items() if self._pays(digest, count)]

    def _idle(self, digest: str) -> Slot | None:
        return next((slot for slot in self._slots[digest] if slot.idle), None)

    def _pays(self, digest: str, waiting: int) -> bool:
        slots = self._slots[digest]
        return all(slot.warm for slot in slots) and self._paces[digest].pays(waiting, len(slots))

    def send(self, job: Job) -> None:
        """Have a job executed in a slot's folder."""
        slot = self._idle(job.environment.digest) or self._open(job.environment)
        job.folder = slot.folder
        try:
            self._folders.fill(slot.folder, job.prepared, self._place.store, job.copies)
        except OSError:
            self._empty(slot)
            raise
        self._serial += 1
        limits = self._place.limits
        slot.send(self._serial, job, timeout_s=time_limit(job, limits), memory_mb=limits.memory_mb)

    def _open(self, environment: ResolvedEnvironment) -> Slot:
        place, tools = self._place, self._place.tools[environment.digest]
        image = self._images.image(environment)
        folder = self._folders.take()
        try:
            self._user.give(folder, f"{folder}/{OUTPUT_FOLDER}")
            binds = options.slot_binds(folder, options.bytecode_folder(environment, place.home))
            cpus = options.cpus_of(tools, place.limits)
            container, connection = start(
                self._daemon,
                f"environment {environment.name}",
                image.id,
                options.host_config(binds=binds, memory_mb=options.memory_of(place.limits), cpus=cpus),
                options.config(options.command(environment, image, tools, place.home), self._user),
            )
        except BaseException:
            remove_folder(folder)
            raise
        slot = Slot(
            environment=environment, daemon=self._daemon, container=container, connection=connection, folder=folder
        )
        self._slots[environment.digest].append(slot)
        place.selector.register(slot.fileno(), selectors.EVENT_READ, slot)
        return slot

    def release(self, job: Job) -> None:
        """Empty the folder of a job that has been answered, for the next one."""
        slots = self._slots[job.environment.digest]
        slot = next((slot for slot in slots if slot.folder == job.folder), None)
        if slot is None:
            # Its container ended while its outputs were hashed.
            remove_folder(job.folder)
            return
        self._paces[job.environment.digest].note(time.monotonic() - slot.since, first=slot.answered == 1)
        self._empty(slot)

    def _empty(self, slot: Slot) -> None:
        """Empty a slot's folder. The container ends with a folder that is not as it was: its mounts cannot be exchanged."""
        slot.held = False
        if not self._folders.empty(slot.folder):
            self.remove_worker(slot)

    def renew(self, environment: ResolvedEnvironment) -> None:
        """End an environment's containers, which are idle."""
        for slot in list(self._slots[environment.digest]):
            self.remove_worker(slot)

    def remove_worker(self, worker: Slot) -> tuple[str, list[Left]]:
        """Let go of a container that is gone or makes no sense: its last words, and the job that it leaves behind."""
        if worker not in self._slots[worker.environment.digest]:
            return "", []
        self._place.selector.unregister(worker.connection)
        self._slots[worker.environment.digest].remove(worker)
        words = worker.last_words()
        worker.close()
        left = [Left(job=job, began=os.path.exists(f"{worker.folder}/{LOG_FILE}")) for job in worker.pending.values()]
        if left or not worker.held:
            remove_folder(worker.folder)
        return words, left

    def end_silent(self) -> None:
        """End containers that do not even say that an action took too long."""
        for slot in self._all():
            if is_silent(slot, self._place.limits):
                slot.kill()

    def _all(self) -> list[Slot]:
        return [slot for slots in self._slots.values() for slot in slots]

    def close(self) -> None:
        """Remove all containers."""
        slots = self._all()
        with ThreadPoolExecutor(max(1, len(slots))) as pool:
            list(pool.map(Slot.close, slots))
        remove_ours(self._daemon)
        self._daemon.close()
