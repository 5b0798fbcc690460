import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_ragged_embedding_bag (int32[{T}] i, int32[{B}] offsets, float[{V}, {E}] w) => (float[{B}, {E}] y)
<int32 zero = {{0}}, int32 end = {{{T}}}, int32 one = {{1}}, int64[1] columns = {{1}}, int64[1] first = {{1}},
 int64[1] after = {{{B}}}, int64[1] rows = {{0}}, int32[1] total = {{{T}}}>
{{
    t = Range (zero, end, one)
    begins = Unsqueeze (offsets, columns)
    others = Slice (offsets, first, after, rows)
    limits = Concat <axis = 0>(others, total)
    ends = Unsqueeze (limits, columns)
    begun = GreaterOrEqual (t, begins)
    open = Less (t, ends)
    inside = And (begun, open)
    mask = Cast <to = 1>(inside)
    terms = Gather <axis = 0>(w, i)
    y = MatMul (mask, terms)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
