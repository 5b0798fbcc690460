import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_sort (float[{M}, {N}] x) => (float[{M}, {N}] values, int32[{M}, {N}] indices)
<int64[1] k = {{{N}}}>
{{
    values, positions = TopK <axis = -1, largest = 0>(x, k)
    indices = Cast <to = 6>(positions)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
