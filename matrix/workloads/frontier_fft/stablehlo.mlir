func.func @main(%x: tensor<7x45xf32>) -> (tensor<7x23xf32>, tensor<7x23xf32>) {
  %y = stablehlo.fft %x, type = RFFT, length = [45] : (tensor<7x45xf32>) -> tensor<7x23xcomplex<f32>>
  %re = stablehlo.real %y : (tensor<7x23xcomplex<f32>>) -> tensor<7x23xf32>
  %im = stablehlo.imag %y : (tensor<7x23xcomplex<f32>>) -> tensor<7x23xf32>
  return %re, %im : tensor<7x23xf32>, tensor<7x23xf32>
}
