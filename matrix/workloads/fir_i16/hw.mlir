// A line of registers, each behind an adder: what is added now comes out a clock, two or three later.
hw.module @main(in %clk : !seq.clock, in %rst : i1, in %x : i16, out y : i32) {
  %zero = hw.constant 0 : i32
  %c0 = hw.constant 3 : i32
  %c1 = hw.constant -5 : i32
  %c2 = hw.constant 7 : i32
  %c3 = hw.constant 2 : i32
  %sign = comb.extract %x from 15 : (i16) -> i1
  %high = comb.replicate %sign : (i1) -> i16
  %x32 = comb.concat %high, %x : i16, i16
  %p0 = comb.mul %x32, %c0 : i32
  %p1 = comb.mul %x32, %c1 : i32
  %p2 = comb.mul %x32, %c2 : i32
  %p3 = comb.mul %x32, %c3 : i32
  %r3 = seq.compreg %p3, %clk reset %rst, %zero : i32
  %s2 = comb.add %p2, %r3 : i32
  %r2 = seq.compreg %s2, %clk reset %rst, %zero : i32
  %s1 = comb.add %p1, %r2 : i32
  %r1 = seq.compreg %s1, %clk reset %rst, %zero : i32
  %s0 = comb.add %p0, %r1 : i32
  %y = seq.compreg %s0, %clk reset %rst, %zero : i32
  hw.output %y : i32
}
