"""Which tests a machine runs, in which order, and why not the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.choose import Left, MachineChoice
from mlir_matrix.fleet.durations import Estimates, Recorded, Snapshot
from support.catalogs import TARGETS, catalog
from support.machines import CATALOG, HAS, chosen, day, machine, suite_tests

SMOKE = suite_tests("smoke")
NAMES = [test.id for test in SMOKE if test.selected]
IR = [name for name in NAMES if "/ir/" in name]
MLP, TOPK = "pytorch/linalg-loops/x86_64/mlp", "pytorch/linalg-loops/x86_64/topk"
RECORDS = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        Recorded,
        st.floats(0, 600),
        st.integers(1, 28).map(day),
        st.one_of(st.just(""), st.integers(1, 28).map(day)),
    ),
)


def names(found: MachineChoice) -> list[str]:
    return [test.id for test in found.tests if test.selected]


def reasons(found: MachineChoice) -> dict[str, str]:
    return {test.id: test.reason for test in found.tests if not test.selected}


@given(
    RECORDS,
    st.sampled_from(
        ["{}", "{budget-minutes: 1}", "{budget-minutes: 0.01, require: ['**/mlp']}", "{prefer: ['jax/**']}"]
    ),
)
def test_each_test_is_there_once_and_those_that_run_fit_the_budget(tests: dict[str, Recorded], wants: str) -> None:
    box, history = machine(wants), Snapshot(tests)
    found = chosen(box, SMOKE, history)
    assert sorted(test.id for test in found.tests) == sorted(test.id for test in SMOKE)
    assert {test.id for test in found.tests if not test.selected and test.outcome is None} == set(found.left)
    cost = Estimates(history).seconds
    used = {test.id: cost(test) / 120 for test in found.tests if test.selected}
    assert found.minutes == pytest.approx(sum(used.values()))
    limit = box.document.wants.budget_minutes
    required = {name: minutes for name, minutes in used.items() if box.document.wants.require and name.endswith("/mlp")}
    if limit is None:
        assert not found.left
    else:
        assert sum(used.values()) <= max(limit, sum(required.values())) + 1e-9
        assert found.excess == pytest.approx(sum(required.values()) if sum(required.values()) > limit else 0.0)
        # Nothing that was left out would have fitted.
        free = limit - sum(used.values())
        assert all(cost(test) / 120 > free for test in found.tests if test.id in found.left)


def test_the_order_is_never_run_then_recently_failed_then_oldest() -> None:
    never, failed, old, new = NAMES[:4]
    history = Snapshot(
        {name: Recorded(1, day(20)) for name in NAMES[4:]}
        | {
            failed: Recorded(1, day(28), day(27)),
            # It failed, but not within 14 days of the plan.
            old: Recorded(1, day(1), day(1)),
            new: Recorded(1, day(28)),
        }
    )
    order = names(chosen(machine(), SMOKE, history))
    assert order[:3] == [never, failed, old]
    assert order[-1] == new
    preferred = names(chosen(machine(f"{{prefer: ['{new}'], require: ['{old}']}}"), SMOKE, history))
    assert preferred[:4] == [old, new, never, failed]


def test_little_memory_makes_a_plan_longer() -> None:
    """Two actions of 4 GiB do not fit into 4 GiB at a time; those of 2 GiB do."""
    box = machine(has=HAS.replace("memory-gib: 8", "memory-gib: 4"))
    minutes = [
        chosen(each, SMOKE, memory_mb=limit).minutes for each, limit in ((machine(), 4096), (box, 4096), (box, 2048))
    ]
    assert minutes[1] == pytest.approx(2 * minutes[0])
    assert minutes[2] == minutes[0]


def test_an_action_that_tests_share_counts_once() -> None:
    history = Snapshot({name: Recorded(60, day(2)) for name in NAMES})
    # Half of each test is an import that all share: a minute, and then half a minute for each other test, on two cores.
    found = chosen(machine("{budget-minutes: 1}"), SMOKE, history, actions=lambda test: ["import", test.id])
    assert len(names(found)) == 3
    assert found.minutes == pytest.approx(1)
    assert "takes 0.25 min" in reasons(found)[NAMES[-1]]


def test_what_does_not_fit_is_named_with_its_time() -> None:
    history = Snapshot({name: Recorded(60, day(2)) for name in NAMES})
    found = chosen(machine("{budget-minutes: 1}"), SMOKE, history)
    assert len(names(found)) == 2
    assert found.counts == {Left.OVER: len(NAMES) - 2}
    why = reasons(found)[NAMES[-1]]
    assert (
        why == "over the budget of 1 min (machines/box.yaml:3:9): takes 0.5 min (last run 2026-02-02), 1 min are taken"
    )


def test_the_estimate_of_an_unknown_test_is_that_of_its_cell_then_of_its_target() -> None:
    (mlp,) = [test for test in SMOKE if test.id == MLP]
    assert Estimates(Snapshot()).seconds(mlp) == 1
    records = {"a/b/other/c": Recorded(90, day(1)), "a/b": Recorded(90, day(1))}
    assert Estimates(Snapshot(records)).seconds(mlp) == 90
    records["jax/linalg-loops/x86_64/topk"] = Recorded(40, day(1))
    assert Estimates(Snapshot(records)).seconds(mlp) == 40
    records[TOPK] = Recorded(7, day(1))
    assert Estimates(Snapshot(records)).seconds(mlp) == 7
    records[MLP] = Recorded(3, day(1))
    assert Estimates(Snapshot(records)).seconds(mlp) == 3


def test_a_rule_leaves_out_with_its_position() -> None:
    found = chosen(machine("{leave-out: [{match: ['**/topk', 'mlir/**'], reason: too slow}]}"), SMOKE)
    assert reasons(found)[TOPK] == "left out by machines/box.yaml:3:21: too slow"
    assert all(found.left[name] == Left.UNWANTED for name in IR)


def test_a_target_of_another_machine_cannot_run() -> None:
    found = chosen(machine(has=HAS.replace("architecture: m", "architecture: aarch64")), SMOKE)
    assert reasons(found)[MLP] == "target x86_64 runs on m; machine box (machines/box.yaml:2:13): aarch64"
    assert names(found) == IR
    assert found.left[MLP] == Left.CANNOT


@pytest.mark.parametrize(
    ("has", "wants", "left", "reason"),
    [
        (
            "",
            "{}",
            Left.CANNOT,
            "target x86_64 needs /dev/kvm, which machine box (machines/box.yaml:1:1) does not have",
        ),
        (
            ", devices: [/dev/kvm]",
            "{}",
            Left.UNWANTED,
            "target x86_64 needs /dev/kvm, which machine box (…) does not grant",
        ),
        (", devices: [/dev/kvm]", "{devices: [/dev/kvm]}", None, ""),
    ],
)
def test_devices_are_had_and_granted(has: str, wants: str, left: Left | None, reason: str) -> None:
    texts = {**TARGETS, "x86_64": f"{TARGETS['x86_64']}\ndevices: [/dev/kvm]"}
    made = catalog(
        {"smoke": "blocks: [{product: {framework: [jax], target: [x86_64], workload: [mlp]}}]"}, targets=texts
    )
    found = chosen(machine(wants, HAS + has), suite_tests("smoke", of=made), of=made)
    assert found.left.get("jax/linalg-loops/x86_64/mlp") == left
    why = reasons(found).get("jax/linalg-loops/x86_64/mlp", "")
    assert why.partition(", which")[0] == reason.partition(", which")[0]


def test_code_for_a_newer_processor_cannot_run() -> None:
    steps = {
        "stablehlo-to-linalg": "accepts: [stablehlo]\ngives: linalg",
        "lower": "accepts: [linalg]\ngives: llvm",
        "emit": "accepts: [llvm]\ngives: object\nparameters: {cpu: {description: d, default: x86-64-v3}}",
    }
    pipelines = {"p": "entry: {stablehlo: [stablehlo-to-linalg]}\nsteps: [lower]"}
    made = catalog(
        {"smoke": "blocks: [{product: {framework: [jax], target: [x86_64], workload: [mlp]}}]"},
        steps=steps, pipelines=pipelines, cases={},
    )  # fmt: skip
    tests = suite_tests("smoke", of=made)
    assert [test.selected for test in tests] == [True]
    for level, runs in (("x86-64-v4", True), ("x86-64-v3", True), ("x86-64-v2", False), ("null", False)):
        found = chosen(machine(has=HAS.replace("null", level)), tests, of=made)
        assert bool(names(found)) is runs, level
        assert runs or "generates code for x86-64-v3" in reasons(found)["jax/p/x86_64/mlp"]


def test_programs_of_the_machine_are_needed() -> None:
    components = {"llvm": "[{release: '1', provider: host, programs: [my-opt]}]", "onnx": "[{release: '1'}]",
                  "ziglang": "[{release: '1'}]", "idle": "[{release: '1', provider: source}]"}  # fmt: skip
    made = catalog(
        {"smoke": "blocks: [{product: {framework: [jax], pipeline: [linalg-loops], target: [x86_64], workload: [mlp]}}]"},
        components=components, known_good="pins: {llvm: '1'}",
    )  # fmt: skip
    tests = suite_tests("smoke", of=made)
    assert names(chosen(machine(has=f"{HAS}, tools: [my-opt]"), tests, of=made))
    (why,) = reasons(chosen(machine(), tests, of=made)).values()
    assert why.startswith("llvm 1 (provider host) needs my-opt, which machine box")


def test_a_test_that_a_suite_leaves_out_stays_out() -> None:
    tests = list(choose(CATALOG, ["wide"]).tests(excluded=True))
    found = chosen(machine(), tests)
    assert reasons(found)[TOPK].endswith(": slow")
    assert TOPK not in found.left
