"""Tables and reasons of ``matrix report support``."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from mlir_matrix.support.documents import Support, SupportEntry
from mlir_matrix.support.report import markdown, text


def entry(test: str, answer: Any = "yes", reason: str = "", **more: Any) -> SupportEntry:
    framework, pipeline, target, workload = test.split("/")
    made: Any = {
        "name": workload, "framework": framework, "pipeline": pipeline, "target": target, "answer": answer,
        "expected": True, "reason": reason, "test": test, "tests": 1, **more,
    }  # fmt: skip
    return made  # type: ignore[no-any-return]


def document(*entries: SupportEntry, by: Any = "workload") -> Support:
    answers: Any = {each["answer"]: 1 for each in entries}
    summary: Any = {"tests": len(entries), "entries": len(entries), "answers": answers}
    return {"schema": "mlir-matrix/support/v1", "by": by, "entries": list(entries), "summary": summary}


def plain(given: Support) -> list[str]:
    return [Text.from_markup(line).plain for line in text(given)]


FAILS = entry("f/p/t/topk", "fails", "No [lowering].", stage="lower", expected=False)
CANNOT = [entry(f"f/p/t/{name}", "cannot", f"workload {name} has no source") for name in ("acos", "exp")]


def test_a_table_and_each_reason_once() -> None:
    lines = plain(document(entry("f/p/t/mlp"), entry("f/q/t/mlp"), FAILS, *CANNOT))
    assert lines[:4] == [
        "f on t",
        "workload  p          q",
        "mlp       yes        yes",
        "topk      ✗ lower !",
    ], "rows that cannot are left out"
    assert lines[4:10] == [
        "",
        "reasons",
        "  ✗ lower !: No [lowering].",
        "      f/p/t/topk",
        "  cannot: the workload has no source",
        "      f/p/t/{acos,exp}",
    ]
    assert lines[-1].endswith("!: not as the suite expects")


def test_reasons_of_what_is_unsupported_are_few() -> None:
    same = [entry(f"f/p/t{number}/mlp", "cannot", f"p gives a; target t{number} runs b") for number in range(3)]
    assert plain(document(*same))[1:3] == [
        "  cannot: p gives a; the target runs b",
        f"      {', '.join(each['test'] for each in same)}",
    ]
    lines = plain(document(*(entry("f/p/t/mlp", "cannot", f"reason {number}") for number in range(20)), FAILS))
    assert sum(line.startswith("  cannot: ") for line in lines) == 8
    assert lines[lines.index("  cannot, for 12 more reasons") + 1] == "      --format json has all"


def test_equal_tables_are_one_and_more_targets_than_pipelines_are_columns() -> None:
    lines = plain(document(*(entry(f"f/{path}/{target}/mlp") for path in "pq" for target in ("t", "u"))))
    assert lines[0] == "f on t, u"
    lines = plain(document(*(entry(f"f/p/{target}/mlp") for target in ("t", "u"))))
    assert lines[:2] == ["f through p", "workload  t    u"]


def test_many_columns_are_in_parts() -> None:
    lines = plain(document(*(entry(f"f/p/target-number-{number}/mlp") for number in range(12))))
    assert sum(line.startswith("workload") for line in lines) > 1
    assert max(map(len, lines)) <= 110


def test_operators_name_what_shows_them() -> None:
    works = entry("f/p/t/mlp", fails_in=[{"test": "f/p/t/odd", "answer": "wrong", "reason": "off by 1"}])
    lines = plain(document({**works, "name": "d.mm"}, by="operator"))
    assert lines[1:3] == ["operator  p      shown by", "d.mm      yes *  mlp"]
    assert lines[4:7] == ["reasons", "  yes *: but wrong in a test: off by 1", "      d.mm in f/p/t/odd"]


def test_markdown_has_no_markup_of_others() -> None:
    page = markdown(document(entry("f/p/t/a|b"), FAILS))
    assert "| workload | p |\n|---|---|\n| a\\|b | yes |\n| topk | ✗ lower \\! |\n" in page
    assert "- ✗ lower \\!: No \\[lowering\\].: `f/p/t/topk`" in page
