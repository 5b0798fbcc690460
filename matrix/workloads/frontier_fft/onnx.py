import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_fft (float[{M}, {N}] x) => (float[{M}, {K}] re, float[{M}, {K}] im)
<int64[1] last = {{-1}}, int64 axis = {{1}}, int64 first = {{0}}, int64 second = {{1}}>
{{
    columns = Unsqueeze (x, last)
    y = DFT <onesided = 1>(columns, , axis)
    re = Gather <axis = 2>(y, first)
    im = Gather <axis = 2>(y, second)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
