"""Reading a disassembly: its instructions, its innermost loops, and the share of vector arithmetic."""

from __future__ import annotations

from mlir_matrix.actions.tools.inspect_object import innermost, instructions, vector_share

NESTED = """
0000000000000000 <f>:
       0:      \txorl\t%eax, %eax
       4:      \tvaddss\t%xmm0, %xmm1, %xmm1
       8:      \tvmulps\t%ymm0, %ymm1, %ymm1
       c:      \tvmulps\t%ymm0, %ymm2, %ymm2 # imm = 0x1
      10:      \tjne\t0x8 <f+0x8>
      14:      \tcallq\t0x0 <f>
      18:      \tjb\t0x4 <f+0x4>
      1c:      \tretq
"""
AARCH64 = """
       0:      \tfmla\tv0.4s, v1.4s, v2.4s
       4:      \tfmadd\ts0, s1, s2, s3
       8:      \tadd\tx0, x0, #0x1
       c:      \tb.ne\t0x0 <f>
"""
RISCV = """
       0:      \tvfmacc.vv\tv8, v16, v24
       4:      \tfmadd.s\tfa0, fa1, fa2, fa3
       8:      \tbnez\ta0, 0x0 <f>
"""


def test_of_nested_loops_the_inner_one_is_innermost() -> None:
    code = list(instructions(NESTED))
    assert [(code[loop.first].address, code[loop.last].address) for loop in innermost(code)] == [(8, 16)]


def test_a_call_is_no_loop_and_operands_are_without_comments() -> None:
    code = list(instructions(NESTED))
    assert code[5].target == -1
    assert code[3].operands == "%ymm0, %ymm2, %ymm2"
    assert code[4].operands == "0x8"


def test_each_instruction_counts_as_often_as_it_was_executed() -> None:
    code = list(instructions(NESTED))
    assert vector_share(code, {4: 6, 8: 1, 12: 1}) == 0.25
    assert vector_share(code, {0: 7}) is None


def test_vectors_of_other_cpus() -> None:
    for text in (AARCH64, RISCV):
        code = list(instructions(text))
        assert vector_share(code, {each.address: 1 for each in code}) == 0.5
