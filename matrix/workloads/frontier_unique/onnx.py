import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_unique (int32[{N}] x) => (int32[{N}] values, int32[1] count)
<int32[{N}] rest = {{-99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99, -99}}, int64[1] begin = {{0}}, int64[1] size = {{{N}}}>
{{
    found = Unique <sorted = 1>(x)
    more = Concat <axis = 0>(found, rest)
    first = Slice (more, begin, size)
    values = Reshape (first, size)
    number = Shape (found)
    count = Cast <to = 6>(number)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
