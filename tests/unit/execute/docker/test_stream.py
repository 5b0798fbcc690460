"""The daemon's stream, however it is cut into pieces."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.execute.docker.stream import Demultiplexer

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
