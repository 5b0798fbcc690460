"""Make factories of builds, and a whole configuration, for a ``master.cfg``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from buildbot import config
from buildbot.plugins import changes, schedulers, secrets, steps, util, worker
from buildbot.process.build import Build
from buildbot.process.buildstep import BuildStep
from buildbot.process.properties import Properties
from buildbot.process.results import worst_status
from twisted.internet import defer

from mlir_matrix.buildbot.state import CANCELLED, RETRY
from mlir_matrix.buildbot.steps import MatrixBisect, MatrixJob, MatrixRun

#: Words that a form accepts: patterns and releases, but no options.
_WORDS = r"(?:(?:^|\s+)[A-Za-z0-9*?\[{][A-Za-z0-9_.+*?\[\]{},!=:@/~-]*)*\s*\Z"
_PINS = r"(?:(?:^|\s+)[A-Za-z][A-Za-z0-9_.+-]*=[A-Za-z0-9_.+-]+)*\s*\Z"
_WORD = r"[A-Za-z0-9_.+=,-]*\Z"


class MatrixBuild(Build):  # type: ignore[misc]
    """A build whose result is that with which it was stopped, so that a restarted master builds again."""

    #: The result of a stopped build. If nobody stops it, its worker was lost.
    stop_result = RETRY

    def stopBuild(self, reason: str = "<no reason given>", results: int = CANCELLED) -> defer.Deferred[None]:  # noqa: N802
        self.stop_result = worst_status(results, self.stop_result if self.stopped else results)
        return super().stopBuild(reason, results)

    def stepDone(self, results: Any, step: BuildStep) -> defer.Deferred[bool]:  # noqa: N802
        # A stopped step is CANCELLED, which counts as worse than RETRY, the result that an ending master sets.
        return super().stepDone(self.stop_result if self.stopped and results == CANCELLED else results, step)


class _CheckoutFactory(util.BuildFactory):  # type: ignore[misc]
    """A factory of builds that check out a repository before their other steps."""

    buildClass = MatrixBuild  # noqa: N815 - Buildbot's name

    def __init__(self, repository: str, branch: str | None, then: Sequence[Any]) -> None:
        checkout = steps.Git(repourl=repository, branch=branch or "HEAD", mode="full", method="clean")
        super().__init__([checkout, *then])


class MatrixFactory(_CheckoutFactory):
    """A factory of builds that check out a repository and run its tests, with a step for each cell.

    ``tests``: the arguments of ``matrix run``, tests before options: ``"nightly --catalog ."``. Properties of a build override
    them: ``tests`` with other suites and patterns, ``pins`` with releases.
    """

    def __init__(
        self,
        tests: str | Sequence[str],
        *,
        repository: str,
        branch: str | None = None,
        program: str = "tools/matrix",
        env: Mapping[str, str] | None = None,
        site: str | Sequence[str] = (),
    ) -> None:
        """Make the factory.

        ``program``: ``matrix`` in the checkout, or an installed one. ``site``: the options of ``matrix report html``, which then
        is the last step, also after failures: ``"--out /srv/www/matrix"``.
        """
        command = [program, "run", *_words(tests)]
        publishing = [_published([program, "report", "html", *_words(site)], env)] if site else []
        super().__init__(repository, branch, [MatrixRun(_forced.withArgs(command), env=env), *publishing])


class BisectFactory(_CheckoutFactory):
    """A factory of builds that bisect the test in the property ``test``. ``good``, ``bad`` and ``component`` are optional."""

    def __init__(
        self,
        options: str | Sequence[str] = (),
        *,
        repository: str,
        branch: str | None = None,
        program: str = "tools/matrix",
        env: Mapping[str, str] | None = None,
    ) -> None:
        command = [program, "bisect", *_words(options)]
        super().__init__(repository, branch, [MatrixBisect(_bisected.withArgs(command), env=env)])


class JobFactory(_CheckoutFactory):
    """A factory of builds that run a verb for a long time, such as ``fuzz --budget 8h``, and show the reports that it writes.

    ``words``: the verb with its arguments.
    """

    def __init__(
        self,
        words: str | Sequence[str],
        *,
        repository: str,
        branch: str | None = None,
        program: str = "tools/matrix",
        env: Mapping[str, str] | None = None,
    ) -> None:
        verb, *options = _words(words)
        step = MatrixJob([program, verb, *options], name=f"matrix {verb}", env=env)
        super().__init__(repository, branch, [step])


def configure(
    *,
    repository: str,
    workers: Mapping[str, str | Sequence[str]],
    passwords: str = "passwords",
    branch: str = "main",
    program: str = "tools/matrix",
    bisect: str | Sequence[str] = (),
    www_port: int | str = 8010,
    worker_port: int | str = 9989,
    url: str = "",
    poll_s: float = 60,
    nightly_hour: int = 2,
    site: str | Sequence[str] = (),
) -> dict[str, Any]:
    """Return the configuration of a master: two builders for each worker, one that runs tests and one that bisects.

    ``workers`` has the arguments of ``matrix run`` by worker; the folder ``passwords`` has a file of mode 0600 for each, with its
    password. Builds start after a push to ``branch``, every night, and by forms. ``bisect``: options of ``matrix bisect``. A
    port that is a number is open to this machine alone for the web pages, and to all for workers. ``site``: that of
    :class:`MatrixFactory`.
    """
    names = list(workers)
    for file in (Path(passwords, name) for name in names):
        if not file.is_file():
            config.error(f"{file.absolute()}: no such file; it has the password of a worker, and mode 0600")
    common: dict[str, Any] = {"repository": repository, "branch": branch, "program": program}
    builders = [
        util.BuilderConfig(name=name, workernames=[name], factory=MatrixFactory(tests, site=site, **common))
        for name, tests in workers.items()
    ]
    bisecting = [
        util.BuilderConfig(name=f"{name}-bisect", workernames=[name], factory=BisectFactory(bisect, **common))
        for name in names
    ]
    address = www_port if isinstance(www_port, str) else f"tcp:{www_port}:interface=127.0.0.1"
    return {
        "title": "mlir-matrix",
        "buildbotURL": url or f"http://localhost:{www_port}/",
        "buildbotNetUsageData": None,
        "secretsProviders": [secrets.SecretInAFile(dirname=passwords)] if os.path.isdir(passwords) else [],
        "workers": [worker.Worker(name, util.Secret(name), max_builds=1) for name in names],
        "protocols": {"pb": {"port": worker_port}},
        "change_source": [changes.GitPoller(repository, branches=[branch], pollInterval=poll_s, pollAtLaunch=True)],
        "builders": [*builders, *bisecting],
        "schedulers": [
            schedulers.SingleBranchScheduler(
                "push", change_filter=util.ChangeFilter(branch=branch), builderNames=names
            ),
            schedulers.Nightly("nightly", branch=branch, hour=nightly_hour, builderNames=names),
            *_forms(names, branch),
        ],
        "www": {"port": address, "plugins": {"waterfall_view": {}, "console_view": {}, "grid_view": {}}},
    }


def _forms(names: Sequence[str], branch: str) -> list[schedulers.ForceScheduler]:
    codebase = util.CodebaseParameter(
        "", branch=util.StringParameter("branch", default=branch, regex=r"[\w][\w./-]*\Z")
    )
    common = {"codebases": [codebase], "reason": util.StringParameter("reason", default="")}
    tests = [
        util.StringParameter("tests", label="suites, patterns, tests (empty: as every night)", regex=_WORDS, size=60),
        util.StringParameter("pins", label="releases, such as llvm=19 iree=3.10", regex=_PINS, size=60),
    ]
    test = [
        util.StringParameter("test", label="test", regex=_WORDS, required=True, size=60),
        util.StringParameter("component", label="component (empty: the compiler of the test)", regex=_WORD),
        util.StringParameter("good", label="release at which it passes", regex=_WORD),
        util.StringParameter("bad", label="release at which it fails", regex=_WORD),
    ]
    bisecting = [f"{name}-bisect" for name in names]
    return [
        schedulers.ForceScheduler("run", buttonName="Run tests", builderNames=names, properties=tests, **common),
        schedulers.ForceScheduler("bisect", buttonName="Bisect", builderNames=bisecting, properties=test, **common),
    ]


def _published(command: Sequence[str], env: Mapping[str, str] | None) -> steps.ShellCommand:
    """Return the step that publishes pages. Tests decide a build, which is orange if pages cannot be published."""
    return steps.ShellCommand(
        name="publish", command=command, env=dict(env or {}), logEnviron=False,
        alwaysRun=True, flunkOnFailure=False, warnOnFailure=True,
    )  # fmt: skip


def _words(given: str | Sequence[str]) -> list[str]:
    return shlex.split(given) if isinstance(given, str) else list(given)


@util.renderer  # type: ignore[untyped-decorator]
def _forced(properties: Properties, command: Sequence[str]) -> list[str]:
    """Return ``matrix run …`` with the tests and pins of a form. A word of the form cannot become an option."""
    verb, words = command[:2], command[2:]
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    tests = str(properties.getProperty("tests") or "").split() or words[:first]
    pins = [f"--pin={pin}" for pin in str(properties.getProperty("pins") or "").split()]
    return [*verb, *words[first:], *pins, "--", *tests]


@util.renderer  # type: ignore[untyped-decorator]
def _bisected(properties: Properties, command: Sequence[str]) -> list[str]:
    options = {name: properties.getProperty(name) for name in ("component", "good", "bad")}
    given = [f"--{name}={value}" for name, value in options.items() if value]
    return [*command, *given, "--", *str(properties.getProperty("test") or "").split()]
