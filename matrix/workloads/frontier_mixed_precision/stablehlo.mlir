func.func @main(%x: tensor<13x24xf16>, %w1: tensor<24x21xf16>, %w2: tensor<21x11xf16>) -> tensor<13x11xf32> {
  %products = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<13x24xf16>, tensor<24x21xf16>) -> tensor<13x21xf32>
  %hidden = stablehlo.convert %products : (tensor<13x21xf32>) -> tensor<13x21xbf16>
  %left = stablehlo.convert %hidden : (tensor<13x21xbf16>) -> tensor<13x21xf32>
  %right = stablehlo.convert %w2 : (tensor<21x11xf16>) -> tensor<21x11xf32>
  %y = stablehlo.dot_general %left, %right, contracting_dims = [1] x [0] : (tensor<13x21xf32>, tensor<21x11xf32>) -> tensor<13x11xf32>
  return %y : tensor<13x11xf32>
}
