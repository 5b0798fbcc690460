#elem = affine_map<(i, j) -> (i, j)>

func.func @main(%x: tensor<63x130xf32>) -> tensor<63x130xf32> {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %sqrt_2_pi = arith.constant 0.797884583 : f32
  %cubic = arith.constant 4.471500e-02 : f32
  %empty = tensor.empty() : tensor<63x130xf32>
  %y = linalg.generic {indexing_maps = [#elem, #elem], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<63x130xf32>) outs(%empty : tensor<63x130xf32>) {
  ^bb0(%xi: f32, %out: f32):
    %x2 = arith.mulf %xi, %xi : f32
    %x3 = arith.mulf %x2, %xi : f32
    %bent = arith.mulf %x3, %cubic : f32
    %inner = arith.addf %xi, %bent : f32
    %angle = arith.mulf %inner, %sqrt_2_pi : f32
    %tanh = math.tanh %angle : f32
    %twice = arith.addf %tanh, %one : f32
    %phi = arith.mulf %twice, %half : f32
    %yi = arith.mulf %xi, %phi : f32
    linalg.yield %yi : f32
  } -> tensor<63x130xf32>
  return %y : tensor<63x130xf32>
}
