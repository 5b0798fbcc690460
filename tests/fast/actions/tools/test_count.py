"""Reading what callgrind writes."""

from __future__ import annotations

from mlir_matrix.actions.tools.count import events

COUNTED = """\
version: 1
positions: instr
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw

fn=(below main)
0x401000 3 1
0x401004 3 1 1 0 2 1 0 1
calls=1 0x402000
0x401008 900 300 300 0 50 50 0 9 9
0x401008 1
0x401000 2 1

totals: 9 4 1 0 2 1 0 1
"""


def test_a_call_is_counted_once_in_the_function_that_is_called() -> None:
    assert events(COUNTED) == {
        "instructions": 9,
        "d1_misses": 3,
        "ll_misses": 1,
        "executed": {"401000": 5, "401004": 3, "401008": 1},
    }
