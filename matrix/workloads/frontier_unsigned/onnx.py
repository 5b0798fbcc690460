import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_unsigned (uint16[{N}] x, uint32[{N}] y, uint64[{N}] z) => (
    uint32[{N}] quotient, uint64[{N}] remainder, uint16[{N}] shifted, uint32[{N}] larger, float[{N}] number
)
<int64 three = {{3}}, int64 half = {{16}}>
{{
    short = Cast <to = 4>(three)
    bits = Cast <to = 12>(half)
    wide = Cast <to = 12>(x)
    quotient = Div (y, wide)
    long = Cast <to = 13>(y)
    remainder = Mod (z, long)
    shifted = BitShift <direction = "RIGHT">(x, short)
    high = BitShift <direction = "LEFT">(wide, bits)
    larger = Max (y, high)
    number = Cast <to = 1>(y)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
