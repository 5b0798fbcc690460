// Eight multipliers, and the sum of what they give.
hw.module private @product(in %a : i16, in %b : i16, out p : i32) {
  %a_sign = comb.extract %a from 15 : (i16) -> i1
  %a_high = comb.replicate %a_sign : (i1) -> i16
  %a32 = comb.concat %a_high, %a : i16, i16
  %b_sign = comb.extract %b from 15 : (i16) -> i1
  %b_high = comb.replicate %b_sign : (i1) -> i16
  %b32 = comb.concat %b_high, %b : i16, i16
  %p = comb.mul %a32, %b32 : i32
  hw.output %p : i32
}

hw.module @main(in %clk : !seq.clock, in %rst : i1, in %a : !hw.array<8xi16>, in %b : !hw.array<8xi16>, out y : i32) {
  %c0 = hw.constant 0 : i3
  %a0 = hw.array_get %a[%c0] : !hw.array<8xi16>, i3
  %b0 = hw.array_get %b[%c0] : !hw.array<8xi16>, i3
  %p0 = hw.instance "product0" @product(a: %a0 : i16, b: %b0 : i16) -> (p: i32)
  %c1 = hw.constant 1 : i3
  %a1 = hw.array_get %a[%c1] : !hw.array<8xi16>, i3
  %b1 = hw.array_get %b[%c1] : !hw.array<8xi16>, i3
  %p1 = hw.instance "product1" @product(a: %a1 : i16, b: %b1 : i16) -> (p: i32)
  %c2 = hw.constant 2 : i3
  %a2 = hw.array_get %a[%c2] : !hw.array<8xi16>, i3
  %b2 = hw.array_get %b[%c2] : !hw.array<8xi16>, i3
  %p2 = hw.instance "product2" @product(a: %a2 : i16, b: %b2 : i16) -> (p: i32)
  %c3 = hw.constant 3 : i3
  %a3 = hw.array_get %a[%c3] : !hw.array<8xi16>, i3
  %b3 = hw.array_get %b[%c3] : !hw.array<8xi16>, i3
  %p3 = hw.instance "product3" @product(a: %a3 : i16, b: %b3 : i16) -> (p: i32)
  %c4 = hw.constant -4 : i3
  %a4 = hw.array_get %a[%c4] : !hw.array<8xi16>, i3
  %b4 = hw.array_get %b[%c4] : !hw.array<8xi16>, i3
  %p4 = hw.instance "product4" @product(a: %a4 : i16, b: %b4 : i16) -> (p: i32)
  %c5 = hw.constant -3 : i3
  %a5 = hw.array_get %a[%c5] : !hw.array<8xi16>, i3
  %b5 = hw.array_get %b[%c5] : !hw.array<8xi16>, i3
  %p5 = hw.instance "product5" @product(a: %a5 : i16, b: %b5 : i16) -> (p: i32)
  %c6 = hw.constant -2 : i3
  %a6 = hw.array_get %a[%c6] : !hw.array<8xi16>, i3
  %b6 = hw.array_get %b[%c6] : !hw.array<8xi16>, i3
  %p6 = hw.instance "product6" @product(a: %a6 : i16, b: %b6 : i16) -> (p: i32)
  %c7 = hw.constant -1 : i3
  %a7 = hw.array_get %a[%c7] : !hw.array<8xi16>, i3
  %b7 = hw.array_get %b[%c7] : !hw.array<8xi16>, i3
  %p7 = hw.instance "product7" @product(a: %a7 : i16, b: %b7 : i16) -> (p: i32)
  %y = comb.add %p0, %p1, %p2, %p3, %p4, %p5, %p6, %p7 : i32
  hw.output %y : i32
}
