// Unsigned integers are signless in linalg; which operation they need is decided before.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%{{.*}}: tensor<4xi32>, %{{.*}}: tensor<4xi32>) -> tensor<4xi32>
// CHECK-NOT:   ui32
// CHECK:       arith.divui
func.func @main(%x: tensor<4xui32>, %y: tensor<4xui32>) -> tensor<4xui32> {
  %z = stablehlo.divide %x, %y : tensor<4xui32>
  return %z : tensor<4xui32>
}
