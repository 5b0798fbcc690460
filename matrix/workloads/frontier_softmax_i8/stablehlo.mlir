!logit = !quant.uniform<i8:f32, 0.0625>
!share = !quant.uniform<i8:f32, 0.00390625:-128>

func.func @main(%x: tensor<13x41xi8>) -> tensor<13x41xi8> {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %quantized = stablehlo.bitcast_convert %x : (tensor<13x41xi8>) -> tensor<13x41x!logit>
  %logits = stablehlo.uniform_dequantize %quantized : (tensor<13x41x!logit>) -> tensor<13x41xf32>
  %largest = stablehlo.reduce(%logits init: %lowest) applies stablehlo.maximum across dimensions = [1]
      : (tensor<13x41xf32>, tensor<f32>) -> tensor<13xf32>
  %top = stablehlo.broadcast_in_dim %largest, dims = [0] : (tensor<13xf32>) -> tensor<13x41xf32>
  %d = stablehlo.subtract %logits, %top : tensor<13x41xf32>
  %e = stablehlo.exponential %d : tensor<13x41xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<13x41xf32>, tensor<f32>) -> tensor<13xf32>
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<13xf32>) -> tensor<13x41xf32>
  %shares = stablehlo.divide %e, %sums : tensor<13x41xf32>
  %steps = stablehlo.uniform_quantize %shares : (tensor<13x41xf32>) -> tensor<13x41x!share>
  %y = stablehlo.bitcast_convert %steps : (tensor<13x41x!share>) -> tensor<13x41xi8>
  return %y : tensor<13x41xi8>
}
