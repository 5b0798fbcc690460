import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
cumsum_squares (float[{M}, {N}] x) => (float[{M}, {N}] y)
<int64 axis = {{-1}}>
{{
    squares = Mul(x, x)
    y = CumSum(squares, axis)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
