"""The build event stream: events whatever the pieces it arrives in, and nothing from what makes no sense."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.bazel.bep import Acted, BuildFinished, Completed, Event, Events, Failed, Made

LABEL = "@@m~matrix//mlir/linalg-loops/x86_64:mlp"
STREAM: list[dict[str, Any]] = [
    {"id": {"started": {}}, "started": {"uuid": "x"}},
    {
        "id": {"namedSet": {"id": "0"}},
        "namedSetOfFiles": {
            "files": [
                {"name": "external/m/_actions/judge/mlp-0123/result.json", "uri": "file:///a%20b/result.json"},
                {"name": "external/m/_actions/far/0123/result.json", "uri": "bytestream://host/blobs/x/1"},
            ]
        },
    },
    {"id": {"targetCompleted": {"label": LABEL}}, "completed": {"success": True}},
    {
        "id": {"actionCompleted": {"label": "@@m//_actions/run:mlp-0123"}},
        "action": {"success": False, "failureDetail": {"message": "exit 1"}, "stderr": {"uri": "file:///nowhere"}},
    },
    {"id": {"actionCompleted": {"label": "@@m//_actions/run:mlp-4567"}}, "action": {"success": True}},
    {"id": {"buildFinished": {}}, "finished": {"exitCode": {"name": "BUILD_FAILURE"}}},
]
EVENTS: list[Event] = [
    Made(name="external/m/_actions/judge/mlp-0123/result.json", path="/a b/result.json"),
    Completed(label=LABEL),
    Failed(label="@@m//_actions/run:mlp-0123", reason="exit 1", output=""),
    Acted(),
    BuildFinished(code="BUILD_FAILURE"),
]


def lines(stream: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in stream)


@given(st.lists(st.integers(0, len(lines(STREAM))), max_size=8))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    data, events = lines(STREAM), Events()
    places = [0, *sorted(cuts), len(data)]
    found = [event for start, end in pairwise(places) for event in events.feed(data[start:end])]
    assert found == EVENTS


def test_what_failed_says_what_it_said(tmp_path: Path) -> None:
    said = tmp_path / "stderr"
    said.write_text("it broke")
    event = {
        "id": {"actionCompleted": {"label": "//a:b"}},
        "action": {"success": False, "stderr": {"uri": said.as_uri()}},
    }
    assert list(Events().feed(lines([event]))) == [Failed(label="//a:b", reason="", output="it broke")]


def test_a_target_that_could_not_be_analysed() -> None:
    """The reason stands in another event than the one that says that it will never be."""
    stream = [
        {
            "id": {"configuredLabel": {"label": LABEL}},
            "aborted": {"reason": "ANALYSIS_FAILURE", "description": "no such package"},
        },
        {"id": {"targetCompleted": {"label": LABEL}}, "aborted": {"reason": "ANALYSIS_FAILURE"}},
    ]
    assert list(Events().feed(lines(stream))) == [Completed(label=LABEL, reason="no such package")]


@pytest.mark.parametrize("line", [b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"{}", b'{"id": {}}'])
def test_what_makes_no_sense_is_left_out(line: bytes) -> None:
    assert list(Events().feed(line + b"\n" + lines(STREAM))) == EVENTS
