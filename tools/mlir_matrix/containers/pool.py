"""The worker pool of ``--executor docker``: warm containers, each with one action at a time.

Starting a container takes a tenth of a second and the imports of its tools; reusing it costs no more than a local worker.
An action leaves nothing: the worker ends its processes, and the pool empties its folder, the only one it can write to.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from mlir_matrix.actions.contract import OUTPUT_FOLDER
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers import action_folder, privileges
from mlir_matrix.containers.container import Container, Pace, start
from mlir_matrix.containers.daemon import connect
from mlir_matrix.containers.image_supply import ImageSupply
from mlir_matrix.containers.reaper import reap, remove_ours
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.folders import fill_folder, make_folder
from mlir_matrix.execute.job import Job, Task
from mlir_matrix.execute.worker_pool import LostJob, PoolContext, WorkerPool, time_limit


class ContainerPool(WorkerPool[Container]):
    """Containers by environment."""

    def __init__(self, context: PoolContext, settings: Containers) -> None:
        """Raise InfrastructureError if no daemon answers."""
        self._daemon = connect()
        reap(self._daemon)
        with self._daemon.plainly("asking for its properties"):
            secured = self._daemon.client.api.info().get("SecurityOptions") or []
        self._user = privileges.choose_user(settings.user, rootless=any("rootless" in option for option in secured))
        self._images = ImageSupply(context, self._daemon, self._user, settings)
        super().__init__(context, self._images)
        self._containers: dict[str, list[Container]] = defaultdict(list)
        self._paces: dict[str, Pace] = defaultdict(Pace)
        if os.geteuid() == 0:
            # The user of the containers reads files of this process.
            os.umask(0o022)

    def workers(self) -> Sequence[Container]:
        return [container for containers in self._containers.values() for container in containers]

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """Return environments with an idle container or none; else those for which another container pays."""
        free = [digest for digest in waiting if self._idle(digest) or not self._containers[digest]]
        return free or [digest for digest, count in waiting.items() if self._pays(digest, count)]

    def _idle(self, digest: str) -> Container | None:
        return next((container for container in self._containers[digest] if container.idle), None)

    def _pays(self, digest: str, waiting: int) -> bool:
        containers = self._containers[digest]
        return all(container.warm for container in containers) and self._paces[digest].pays(waiting, len(containers))

    def send(self, job: Job, task: Task) -> None:
        container = self._idle(job.environment.digest) or self._open(job.environment)
        job.folder = container.folder
        try:
            fill_folder(container.folder, task.prepared, self._context.store, job.copies)
        except OSError:
            self._empty(container)
            raise
        limits = self._context.limits
        container.send(job, timeout_s=time_limit(task.action, limits), memory_mb=limits.memory_mb)

    def _open(self, environment: ResolvedEnvironment) -> Container:
        context, preload = self._context, self._context.preloads[environment.digest]
        image = self._images.image(environment)
        folder = make_folder(context.scratch)
        try:
            self._user.give(folder, f"{folder}/{OUTPUT_FOLDER}")
            binds = privileges.action_binds(folder, privileges.bytecode_folder(environment, context.home))
            cpus = privileges.cpus_of(preload.tools, context.limits)
            identifier, connection = start(
                self._daemon,
                f"environment {environment.name}",
                image,
                privileges.host_config(binds=binds, memory_mb=privileges.memory_of(context.limits), cpus=cpus),
                privileges.config(privileges.command(environment, preload, context.home), self._user),
            )
            new = action_folder.attributes_of(folder)
        except BaseException:
            remove_folder(folder)
            raise
        container = Container(
            environment=environment,
            daemon=self._daemon,
            identifier=identifier,
            connection=connection,
            folder=folder,
            new=new,
        )
        self._containers[environment.digest].append(container)
        context.selector.register(container.fileno(), selectors.EVENT_READ, container)
        return container

    def release(self, job: Job) -> None:
        containers = self._containers[job.environment.digest]
        container = next((container for container in containers if container.folder == job.folder), None)
        if container is None:
            remove_folder(job.folder)
            return
        self._paces[job.environment.digest].note(time.monotonic() - container.since, first=container.answered == 1)
        self._empty(container)

    def _empty(self, container: Container) -> None:
        """Empty a container's folder. If that fails, end the container: its mounts cannot be replaced."""
        container.held = False
        if not action_folder.empty(container.folder, container.new):
            self.remove_worker(container)

    def renew(self, environment: ResolvedEnvironment) -> None:
        for container in list(self._containers[environment.digest]):
            self.remove_worker(container)

    def remove_worker(self, worker: Container) -> tuple[str, list[LostJob]]:
        if worker not in self._containers[worker.environment.digest]:
            return "", []
        self._containers[worker.environment.digest].remove(worker)
        if not worker.held:
            remove_folder(worker.folder)
        return self._end(worker)

    def close(self) -> None:
        containers = self.workers()
        with ThreadPoolExecutor(max(1, len(containers))) as pool:
            list(pool.map(Container.stop, containers))
        remove_ours(self._daemon)
        self._daemon.close()
