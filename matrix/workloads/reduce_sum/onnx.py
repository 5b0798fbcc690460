import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
reduce_sum (float[{M}, {K}] x) => (float[{M}] y)
<int64[1] axes = {{-1}}>
{{
    y = ReduceSum <keepdims = 0>(x, axes)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
