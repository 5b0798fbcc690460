import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
flip (float[{M}, {N}] x) => (float[{M}, {N}] y)
<int64[1] first = {{-1}}, int64[1] last = {{-9223372036854775807}}, int64[1] axis = {{1}}, int64[1] step = {{-1}}>
{{
    y = Slice(x, first, last, axis, step)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
