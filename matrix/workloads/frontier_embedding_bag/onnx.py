import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_embedding_bag (int32[{B}, {L}] i, float[{V}, {E}] w) => (float[{B}, {E}] y)
<int64[1] axes = {{1}}>
{{
    rows = Gather <axis = 0>(w, i)
    y = ReduceSum <keepdims = 0>(rows, axes)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
