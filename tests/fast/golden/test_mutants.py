"""Plans of audits: which sites are mutated, which actions run again and which do not."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.golden.mutants import MOST_SITES, OUTPUTS, Auditor, Mutant, draws_of, plan_sites, spread
from mlir_matrix.plan.planner import Planner

MATMUL = "mlir/linalg-loops/x86_64/matmul"


def chosen(current: Session, *globs: str) -> list[Test]:
    return list(choose(current.catalog, globs).tests())


def planted(
    current: Session, glob: str = MATMUL, *, seeds: int = 2, outputs: Sequence[str] = OUTPUTS, **sites: int
) -> tuple[Planner, list[Mutant]]:
    planner = Planner(current.catalog, ToleranceResolver(current.catalog).of, current.pins)
    auditor = Auditor(current.catalog, planner, seeds=seeds, numpy="numpy")
    (test,) = chosen(current, glob)
    return planner, list(
        auditor.mutants(test, {name.replace("_", "-"): count for name, count in sites.items()}, outputs)
    )


@given(st.integers(0, 1000), st.integers(2, 9))
def test_sites_are_spread_over_all_of_them(count: int, most: int) -> None:
    sites = spread(count, most)
    assert len(sites) == len(set(sites)) == min(count, most)
    assert sites == sorted(sites)
    assert all(0 <= site < count for site in sites)
    if count > 1:
        assert (sites[0], sites[-1]) == (0, count - 1)


def test_inputs_that_are_the_same_in_each_draw_are_drawn_once(current: Session) -> None:
    workloads = current.catalog.workloads
    assert draws_of(workloads["matmul"].document, 3) == (0, 1, 2)
    assert draws_of(workloads["exp"].document, 3) == (0,)
    assert draws_of(workloads["argmax"].document, 3) == (0, 1, 2)


def test_ir_is_mutated_in_the_middle_of_the_route_and_nothing_before_it_is_done_again(current: Session) -> None:
    planner, mutants = planted(current, off_by_one_index=9)
    changed = [mutant for mutant in mutants if mutant.mutation]
    assert [mutant.site for mutant in changed] == spread(9)
    assert len(changed) == MOST_SITES
    actions = planner.graph.actions
    (loops,) = {actions[mutant.planting].inputs["ir"] for mutant in changed}
    assert actions[loops.action].id.startswith("linalg-to-loops")  # type: ignore[union-attr]
    tools = [actions[name].tool for name in planner.graph.needed_by(changed[0].reports[0].judged)]
    assert tools.index("mutate") < tools.index("object") < tools.index("run") < tools.index("audit")
    imports = [action for action in actions.values() if action.tool == "python_file"]
    assert len(imports) == 1


def test_kinds_follow_from_names(current: Session) -> None:
    _, mutants = planted(current, wrong_constant=1, allowed_fma=1)
    assert [(mutant.kind, mutant.mutation) for mutant in mutants] == [
        ("allowed", ""), ("outputs", ""), ("trivial", ""), ("mutant", "wrong-constant"), ("allowed", "allowed-fma"),
    ]  # fmt: skip
    _, mutants = planted(current, outputs=(), wrong_constant=1)
    assert [mutant.kind for mutant in mutants] == ["allowed", "trivial", "mutant"]


def test_more_draws_repeat_none(current: Session) -> None:
    """Draws that were taken are in the same actions, whatever follows."""
    few, many = (planted(current, seeds=seeds, wrong_constant=1)[0].graph.actions for seeds in (10, 25))
    assert few.keys() < many.keys()


def test_a_judging_action_reads_all_of_its_draws(current: Session) -> None:
    planner, mutants = planted(current, "mlir/linalg-loops/x86_64/topk", seeds=3)
    (report,) = mutants[0].reports
    assert report.draws == (0, 1, 2)
    read = set(planner.graph.actions[report.judged].inputs)
    wanted = {
        f"{part}-{draw}-{name}"
        for part in ("actual", "expected", "bound")
        for draw in report.draws
        for name in ("values", "indices")
    }
    assert read == wanted | {"failures"}


def test_where_a_layer_is_derived_it_reads_the_bounds_of_each_draw(current: Session) -> None:
    planner, mutants = planted(current, "mlir/linalg-loops/x86_64/frontier_ragged_mean", seeds=2)
    (report,) = mutants[0].reports
    inputs = planner.graph.actions[report.judged].inputs
    assert {name for name in inputs if name.startswith("own-")} == {"own-0-y", "own-1-y"}
    assert inputs["own-0-y"] != inputs["bound-0-y"]


def test_programs_without_bindings_keep_their_ir(current: Session) -> None:
    (test,) = chosen(current, f"{MATMUL}@llvm=19")
    planner = Planner(current.catalog, ToleranceResolver(current.catalog).of, current.pins)
    assert plan_sites(planner, [test]) == {}
    assert not planner.graph.actions


def test_targets_that_link_no_kernels_have_an_action_for_each_draw(current: Session) -> None:
    planner, mutants = planted(current, "mlir/linalg-loops/x86_64-jit/matmul@llvm=19")
    (allowed,) = [mutant for mutant in mutants if mutant.kind == "allowed"]
    for report in allowed.reports:
        assert len(report.ran) == len(report.draws)
        assert {planner.graph.actions[name].tool for name in report.ran} == {"run_jit"}
        assert "failures" not in planner.graph.actions[report.judged].inputs
