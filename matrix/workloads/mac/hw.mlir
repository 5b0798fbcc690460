// Multiply and accumulate: a pair of numbers each clock.
hw.module @main(in %clk : !seq.clock, in %rst : i1, in %a : i16, in %b : i16, out y : i32) {
  %zero = hw.constant 0 : i32
  %a_sign = comb.extract %a from 15 : (i16) -> i1
  %a_high = comb.replicate %a_sign : (i1) -> i16
  %a32 = comb.concat %a_high, %a : i16, i16
  %b_sign = comb.extract %b from 15 : (i16) -> i1
  %b_high = comb.replicate %b_sign : (i1) -> i16
  %b32 = comb.concat %b_high, %b : i16, i16
  %product = comb.mul %a32, %b32 : i32
  %sum = comb.add %y, %product : i32
  %y = seq.compreg %sum, %clk reset %rst, %zero : i32
  hw.output %y : i32
}
