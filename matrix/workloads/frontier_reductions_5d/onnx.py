import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_reductions_5d (float[{A}, {B}, {C}, {D}, {E}] x) => (
    float[{A}, {C}, {E}] largest, float[{A}, {B}, {C}, {D}] product, float[{B}, {D}] total
)
<int64[2] odd = {{1, 3}}, int64[1] last = {{4}}, int64[3] even = {{0, 2, 4}}>
{{
    largest = ReduceMax <keepdims = 0>(x, odd)
    product = ReduceProd <keepdims = 0>(x, last)
    total = ReduceSum <keepdims = 0>(x, even)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
