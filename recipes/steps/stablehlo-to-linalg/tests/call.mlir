// JAX puts what it traced once into private functions: they are inlined and gone.
// CHECK-LABEL: func.func public @main
// CHECK: linalg.matmul
// CHECK: arith.maximumf
// CHECK-NOT: stablehlo.
// CHECK-NOT: func.func private
module {
  func.func public @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = call @relu(%0) : (tensor<4x16xf32>) -> tensor<4x16xf32>
    return %1 : tensor<4x16xf32>
  }
  func.func private @relu(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<4x16xf32>
    %0 = stablehlo.maximum %x, %zero : tensor<4x16xf32>
    return %0 : tensor<4x16xf32>
  }
}
