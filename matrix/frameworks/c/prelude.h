/* What a kernel may use of C's library: functions of libm. There are no headers, since those of any C library are for one target. */
#define INFINITY __builtin_inff()
typedef __INT64_TYPE__ int64_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT16_TYPE__ int16_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t; /* also the bits of a bf16 */
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;

float sqrtf(float), expf(float), logf(float), sinf(float), tanhf(float), erff(float), powf(float, float), cbrtf(float);
float fmaxf(float, float), floorf(float), ceilf(float), asinf(float), atanf(float);
