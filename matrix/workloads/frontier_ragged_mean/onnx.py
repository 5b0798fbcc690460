import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_ragged_mean (float[{B}, {T}, {E}] x, int32[{B}] lengths) => (float[{B}, {E}] y)
<int32 zero = {{0}}, int32 end = {{{T}}}, int32 one = {{1}}, int64[1] columns = {{1}}, int64[1] last = {{2}}, float nothing = {{0.0}}>
{{
    t = Range (zero, end, one)
    limits = Unsqueeze (lengths, columns)
    within = Less (t, limits)
    inside = Unsqueeze (within, last)
    kept = Where (inside, x, nothing)
    sums = ReduceSum <keepdims = 0>(kept, columns)
    counts = Cast <to = 1>(limits)
    y = Div (sums, counts)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
