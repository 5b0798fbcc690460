import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_nonzero (int32[{N}] x) => (int32[{N}] places, int32[1] count)
<int64[{N}] rest = {{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}}, int64[1] flat = {{-1}}, int64[1] begin = {{0}}, int64[1] size = {{{N}}}>
{{
    table = NonZero (x)
    found = Reshape (table, flat)
    more = Concat <axis = 0>(found, rest)
    first = Slice (more, begin, size)
    padded = Reshape (first, size)
    places = Cast <to = 6>(padded)
    number = Shape (found)
    count = Cast <to = 6>(number)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
