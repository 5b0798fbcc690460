// TOSA multiplies batches of matrices, and operands of its elementwise operators have equal ranks.
func.func @main(%x: tensor<7x60xf32>, %w1: tensor<60x100xf32>, %b1: tensor<100xf32>,
                %w2: tensor<100x10xf32>, %b2: tensor<10xf32>) -> tensor<7x10xf32> {
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %xs = tosa.const_shape {values = dense<[1, 7, 60]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %w1s = tosa.const_shape {values = dense<[1, 60, 100]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %b1s = tosa.const_shape {values = dense<[1, 1, 100]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %w2s = tosa.const_shape {values = dense<[1, 100, 10]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %b2s = tosa.const_shape {values = dense<[1, 1, 10]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %ys = tosa.const_shape {values = dense<[7, 10]> : tensor<2xindex>} : () -> !tosa.shape<2>

  %x3 = tosa.reshape %x, %xs : (tensor<7x60xf32>, !tosa.shape<3>) -> tensor<1x7x60xf32>
  %w13 = tosa.reshape %w1, %w1s : (tensor<60x100xf32>, !tosa.shape<3>) -> tensor<1x60x100xf32>
  %b13 = tosa.reshape %b1, %b1s : (tensor<100xf32>, !tosa.shape<3>) -> tensor<1x1x100xf32>
  %p = tosa.matmul %x3, %w13, %zero, %zero
    : (tensor<1x7x60xf32>, tensor<1x60x100xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x7x100xf32>
  %s = tosa.add %p, %b13 : (tensor<1x7x100xf32>, tensor<1x1x100xf32>) -> tensor<1x7x100xf32>
  %hidden = tosa.clamp %s {min_val = 0.0 : f32, max_val = 0x7F800000 : f32} : (tensor<1x7x100xf32>) -> tensor<1x7x100xf32>

  %w23 = tosa.reshape %w2, %w2s : (tensor<100x10xf32>, !tosa.shape<3>) -> tensor<1x100x10xf32>
  %b23 = tosa.reshape %b2, %b2s : (tensor<10xf32>, !tosa.shape<3>) -> tensor<1x1x10xf32>
  %q = tosa.matmul %hidden, %w23, %zero, %zero
    : (tensor<1x7x100xf32>, tensor<1x100x10xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x7x10xf32>
  %y3 = tosa.add %q, %b23 : (tensor<1x7x10xf32>, tensor<1x1x10xf32>) -> tensor<1x7x10xf32>
  %y = tosa.reshape %y3, %ys : (tensor<1x7x10xf32>, !tosa.shape<2>) -> tensor<7x10xf32>
  return %y : tensor<7x10xf32>
}
