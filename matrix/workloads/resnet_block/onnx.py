import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
resnet_block (
    float[{N}, {C}, {H}, {W}] x,
    float[{C}, {C}, {KH}, {KW}] w1, float[{C}] scale1, float[{C}] shift1,
    float[{C}, {C}, {KH}, {KW}] w2, float[{C}] scale2, float[{C}] shift2
) => (float[{N}, {C}, {H}, {W}] y) {{
    space = Constant<value_ints = [1, 2]>()
    conv1 = Conv<pads = [1, 1, 1, 1]>(x, w1)
    scale1_image = Unsqueeze(scale1, space)
    shift1_image = Unsqueeze(shift1, space)
    scaled1 = Mul(conv1, scale1_image)
    norm1 = Add(scaled1, shift1_image)
    hidden = Relu(norm1)
    conv2 = Conv<pads = [1, 1, 1, 1]>(hidden, w2)
    scale2_image = Unsqueeze(scale2, space)
    shift2_image = Unsqueeze(shift2, space)
    scaled2 = Mul(conv2, scale2_image)
    norm2 = Add(scaled2, shift2_image)
    sum = Add(norm2, x)
    y = Relu(sum)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
