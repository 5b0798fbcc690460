"""Bisections whose tests end as a function says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.bisect.observations import Observation, Observations
from mlir_matrix.bisect.prober import Prober
from mlir_matrix.bisect.signature import By, signature
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.results import TestResult

#: The outcome of the n-th run of a test at a point.
Behaviour = Callable[[str, int, int], str]


class Simulated(Prober):
    """A prober whose tests end as a function says; counts runs and rounds."""

    def __init__(
        self,
        tests: Sequence[str],
        behaviour: Behaviour,
        kept: list[Observation] | None = None,
        takes: Callable[[int], float] = lambda _: 0.1,
    ) -> None:
        """``takes``: the seconds of a run at a point; what takes longer than the limit is late."""
        self.kept = kept if kept is not None else []
        self.takes = takes

        def no_tests(points: Sequence[int]) -> tuple[object, dict[str, dict[int, object]]]:
            raise AssertionError(points)

        super().__init__(
            tests_at=no_tests, observations=Observations(tests), by=By(), limits=Limits(jobs=2),
            keep=self.kept.append,
        )  # type: ignore[arg-type] # fmt: skip
        self._behaviour = behaviour

    def probe(self, wanted: Mapping[str, Sequence[int]], limit_s: float) -> None:
        for test, points in wanted.items():
            for point in points:
                known = self.observations.at(test, point)
                number = len(known.observations) if known else 0
                takes = self.takes(point)
                outcome = Outcome(self._behaviour(test, point, number) if takes <= limit_s else "timed-out")
                result = TestResult(
                    id=f"{test}@{point}", framework="f", pipeline="p", target="t", workload="w",
                    outcome=outcome, stage="lower", expected=True, reason=f"{outcome} here",
                    duration_s=min(takes, limit_s),
                )  # fmt: skip
                seen = Observation(test=test, point=point, signature=signature(result), result=result, limit_s=limit_s)
                self.observations.add(seen)
                self.keep(seen)
