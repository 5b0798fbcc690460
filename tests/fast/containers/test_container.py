"""A container's answers come in frames, in whatever pieces; why it ended is what it last said, or what its daemon knows."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.containers.container import Container, Demultiplexer, Pace
from mlir_matrix.containers.privileges import FOLDER
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment

ENVIRONMENT = ResolvedEnvironment(name="python", interpreter=own(), packages=())
OUTPUT, ERRORS = 1, 2


def container(daemon: Any) -> Container:
    container, connection = daemon.start(daemon, "", "", {}, {"command": []})
    return Container(
        environment=ENVIRONMENT, daemon=daemon, identifier=container, connection=connection, folder="/here", new=()
    )


def test_what_is_asked_is_where_the_container_has_it(fake: Callable[..., Any]) -> None:
    daemon = fake()
    made = container(daemon)
    assert made.idle
    made.send("job", timeout_s=1.0, memory_mb=64)
    assert not made.idle
    asked = json.loads(daemon.ends[0].recv(1000))
    assert (asked["requestId"], asked["sandboxDir"]) == (1, FOLDER)


def test_an_answer_in_pieces(fake: Callable[..., Any]) -> None:
    """Between which it may complain. Until its outputs are taken its folder is for nothing else."""
    daemon = fake()
    made = container(daemon)
    made.send("job", timeout_s=1.0, memory_mb=64)
    daemon.say(OUTPUT, b'{"requestId": 1, ')
    assert made.receive() == ([], True)
    daemon.say(ERRORS, b"a warning\n")
    assert made.receive() == ([], True)
    daemon.say(OUTPUT, b'"exitCode": 0}\n')
    (((payload, answer),), alive) = made.receive()
    assert (payload, answer.trouble, alive, made.idle) == ("job", "", True, False)
    made.held = False
    assert made.idle


def test_what_makes_no_sense_is_no_worker(fake: Callable[..., Any]) -> None:
    daemon = fake()
    made = container(daemon)
    daemon.say(OUTPUT, b"Segmentation fault\n")
    assert made.receive() == ([], False)


def test_one_that_is_gone(fake: Callable[..., Any]) -> None:
    """Its end is told by its answers, not by what is sent to it; a lot may have been said before."""
    daemon = fake()
    made = container(daemon)
    daemon.say(ERRORS, b"x" * 10_000 + b"\nthe last word\n")
    while made.receive()[1]:
        if made.last_output() == "the last word":
            daemon.ends[0].close()
    made.send("job", timeout_s=1.0, memory_mb=64)
    assert made.receive() == ([], False)
    assert made.last_output() == "the last word"
    made.stop()
    assert daemon.removed == ["1"]


@pytest.mark.parametrize(("out_of_memory", "words"), [(True, "its container ran out of memory"), (False, "so it said")])
def test_why_it_ended(out_of_memory: bool, words: str, fake: Callable[..., Any]) -> None:
    daemon = fake(out_of_memory=out_of_memory)
    made = container(daemon)
    daemon.say(ERRORS, b"so it said\n")
    made.receive()
    assert made.last_output() == words


FRAMES = st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=40)), max_size=12)


def sent(frames: list[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack(">BxxxL", which, len(data)) + data for which, data in frames)


@given(FRAMES, st.lists(st.integers(min_value=0, max_value=600), max_size=20))
def test_pieces_do_not_matter(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = sent(frames)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    demultiplexer = Demultiplexer()
    output = errors = b""
    for begin, end in pairwise(places):
        more, wrong = demultiplexer.feed(stream[begin:end])
        output, errors = output + more, errors + wrong
    assert output == b"".join(data for which, data in frames if which == 1)
    assert errors == b"".join(data for which, data in frames if which == 2)


def test_a_byte_at_a_time() -> None:
    demultiplexer = Demultiplexer()
    heard = [demultiplexer.feed(bytes([byte])) for byte in sent([(1, b"ab"), (1, b""), (2, b"c"), (1, b"d")])]
    assert b"".join(output for output, _ in heard) == b"abd"
    assert b"".join(errors for _, errors in heard) == b"c"


def test_only_where_what_waits_takes_longer_than_a_start() -> None:
    pace = Pace()
    pace.note(2.0, first=True)
    assert not pace.pays(50, 1)
    assert pace.pays(200, 1)
    pace.note(0.5, first=False)
    assert pace.pays(5, 1)
    assert not pace.pays(5, 2)
    assert not pace.pays(0, 1)


def test_what_it_has_seen() -> None:
    pace = Pace()
    pace.note(1.0, first=True)
    for seconds in (0.01, 0.03):
        pace.note(seconds, first=False)
    assert not pace.pays(50, 1)
    assert pace.pays(51, 1)
