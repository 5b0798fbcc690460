"""The worker pool of ``--executor docker``: warm containers, each with one action at a time.

Starting a container takes a tenth of a second and the imports of its tools; using it again costs no more than a local
worker. Nothing of an action stays: the worker ends its processes and we empty its folder, the only one it can write to.
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
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.docker import options
from mlir_matrix.execute.docker.container import Container, Pace, start
from mlir_matrix.execute.docker.image_supply import ImageSupply
from mlir_matrix.execute.docker.reaper import reap, remove_ours
from mlir_matrix.execute.job import Job
from mlir_matrix.execute.sandbox import Folders
from mlir_matrix.execute.worker_pool import LostJob, PoolContext, Supply, is_silent, time_limit
from mlir_matrix.images.daemon import connect


class ContainerPool:
    """Containers by environment."""

    def __init__(self, context: PoolContext, settings: Containers) -> None:
        """Raise InfrastructureError if no daemon answers."""
        self._context = context
        self._daemon = connect()
        reap(self._daemon)
        with self._daemon.plainly("asking what it can do"):
            secured = self._daemon.client.api.info().get("SecurityOptions") or []
        self._user = options.choose_user(settings.user, rootless=any("rootless" in option for option in secured))
        self._images = ImageSupply(context, self._daemon, self._user, settings)
        self.supply: Supply = self._images
        self._folders = Folders(context.scratch, context.files)
        self._containers: dict[str, list[Container]] = defaultdict(list)
        self._paces: dict[str, Pace] = defaultdict(Pace)
        self._serial = 0
        if os.geteuid() == 0:
            # The user of the containers reads our files.
            os.umask(0o022)

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return environments with an idle container or none at all; else those for which another container pays."""
        free = [digest for digest in waiting if self._idle(digest) or not self._containers[digest]]
        return free or [digest for digest, count in waiting.items() if self._pays(digest, count)]

    def _idle(self, digest: str) -> Container | None:
        return next((container for container in self._containers[digest] if container.idle), None)

    def _pays(self, digest: str, waiting: int) -> bool:
        containers = self._containers[digest]
        return all(container.warm for container in containers) and self._paces[digest].pays(waiting, len(containers))

    def send(self, job: Job) -> None:
        """Send a job to an idle container, or a new one."""
        container = self._idle(job.environment.digest) or self._open(job.environment)
        job.folder = container.folder
        try:
            self._folders.fill(container.folder, job.prepared, self._context.store, job.copies)
        except OSError:
            self._empty(container)
            raise
        self._serial += 1
        limits = self._context.limits
        container.send(self._serial, job, timeout_s=time_limit(job, limits), memory_mb=limits.memory_mb)

    def _open(self, environment: ResolvedEnvironment) -> Container:
        context, tools = self._context, self._context.tools[environment.digest]
        image = self._images.image(environment)
        folder = self._folders.take()
        try:
            self._user.give(folder, f"{folder}/{OUTPUT_FOLDER}")
            binds = options.action_binds(folder, options.bytecode_folder(environment, context.home))
            cpus = options.cpus_of(tools, context.limits)
            identifier, connection = start(
                self._daemon,
                f"environment {environment.name}",
                image.id,
                options.host_config(binds=binds, memory_mb=options.memory_of(context.limits), cpus=cpus),
                options.config(options.command(environment, image, tools, context.home), self._user),
            )
        except BaseException:
            remove_folder(folder)
            raise
        container = Container(
            environment=environment, daemon=self._daemon, identifier=identifier, connection=connection, folder=folder
        )
        self._containers[environment.digest].append(container)
        context.selector.register(container.fileno(), selectors.EVENT_READ, container)
        return container

    def release(self, job: Job) -> None:
        """Empty the folder of an answered job, for the next one."""
        containers = self._containers[job.environment.digest]
        container = next((container for container in containers if container.folder == job.folder), None)
        if container is None:
            # Its container ended while its outputs were hashed.
            remove_folder(job.folder)
            return
        self._paces[job.environment.digest].note(time.monotonic() - container.since, first=container.answered == 1)
        self._empty(container)

    def _empty(self, container: Container) -> None:
        """Empty a container's folder. If that fails, end the container: its mounts cannot be exchanged."""
        container.held = False
        if not self._folders.empty(container.folder):
            self.remove_worker(container)

    def renew(self, environment: ResolvedEnvironment) -> None:
        """End the idle containers of an environment."""
        for container in list(self._containers[environment.digest]):
            self.remove_worker(container)

    def remove_worker(self, worker: Container) -> tuple[str, list[LostJob]]:
        """Remove a container that has ended or answers nonsense. Return its last output and its unfinished job."""
        if worker not in self._containers[worker.environment.digest]:
            return "", []
        self._context.selector.unregister(worker.connection)
        self._containers[worker.environment.digest].remove(worker)
        words = worker.last_words()
        worker.close()
        left = [
            LostJob(job=job, began=os.path.exists(f"{worker.folder}/{LOG_FILE}")) for job in worker.pending.values()
        ]
        if left or not worker.held:
            remove_folder(worker.folder)
        return words, left

    def end_silent(self) -> None:
        """End containers that do not answer even after the time limit."""
        for container in self._all():
            if is_silent(container, self._context.limits):
                container.kill()

    def _all(self) -> list[Container]:
        return [container for containers in self._containers.values() for container in containers]

    def close(self) -> None:
        """Remove all containers."""
        containers = self._all()
        with ThreadPoolExecutor(max(1, len(containers))) as pool:
            list(pool.map(Container.close, containers))
        remove_ours(self._daemon)
        self._daemon.close()
