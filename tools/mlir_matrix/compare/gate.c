/* Pass or fail, the counts and the largest errors of two arrays of floating-point numbers, in one pass over memory.
 *
 * The answers are those of census.py to the last bit: the same operations on doubles in the same order of rounding, without contraction.
 * What is finite goes by vector loops without branches; a block in which something is not, or is tiny, goes element by element. Divisions
 * are slow, so ratios are only computed in blocks where a multiplication shows that one may be larger than any before.
 */

#include <stdint.h>

enum { BLOCK = 256 };

typedef struct {
    int64_t wrong, over_atol, over_rtol, over_ulp, nan, inf, nan_expected;
    double max_abs, max_rel, max_ulp, used;
} Counts;

typedef struct {
    double atol, rtol;
    uint64_t max_ulp; /* all ones: that is no criterion */
    double ulp_bound; /* the same, as it was given */
} Bounds;

static const uint64_t NONE = UINT64_MAX;
static const double INFINITE = __builtin_inf();
/* Products with less than this (and not 0) may lose bits to the end of the exponents. */
static const double TINY = 0x1p-900;

static float half_value(uint16_t bits) {
    /* Shifted into a float whose exponent is 112 too small: one multiplication, which is exact, mends all but the top exponent. */
    union { uint32_t word; float value; } number = {(uint32_t)(bits & 0x7FFF) << 13};
    number.value *= 0x1p112f;
    number.word |= (bits & 0x7C00) == 0x7C00 ? 0x7F800000u : 0;
    number.word |= (uint32_t)(bits & 0x8000) << 16;
    return number.value;
}

static float brain_value(uint16_t bits) {
    union { uint32_t word; float value; } number = {(uint32_t)bits << 16};
    return number.value;
}

static double single_value(uint32_t bits) {
    union { uint32_t word; float value; } number = {bits};
    return number.value;
}

static double double_value(uint64_t bits) {
    union { uint64_t word; double value; } number = {bits};
    return number.value;
}

static uint64_t double_bits(double value) {
    union { double value; uint64_t word; } number = {value};
    return number.word;
}

/* 1 where left > right, neither of which is NaN: by the sign of a difference, which vectors have at hand sooner than a comparison. */
static uint64_t above_bit(double left, double right) { return double_bits(right - left) >> 63; }

static double larger(double left, double right) { return left > right ? left : right; }

/* Words: the unsigned type of a number's bits; Signed: the same, signed; value(bits): the number, which a double holds. */
#define DEFINE_GATE(name, Words, Signed, value)                                                                        \
    static Words name##_apart(Words left, Words right) {                                                               \
        const int top = 8 * sizeof(Words) - 1;                                                                         \
        const Words most = (Words)~((Words)1 << top);                                                                  \
        Signed s = (Signed)((Signed)left >> top), t = (Signed)((Signed)right >> top);                                  \
        Signed a = (Signed)((left ^ ((Words)s & most)) - (Words)s), b = (Signed)((right ^ ((Words)t & most)) - (Words)t); \
        Signed high = a > b ? a : b, low = a > b ? b : a;                                                              \
        return (Words)((Words)high - (Words)low);                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    static double name##_error(Words left, Words right) {                                                              \
        return __builtin_fabs((double)value(left) - (double)value(right));                                             \
    }                                                                                                                  \
                                                                                                                       \
    static double name##_share(double error, double bound, double ulp, const Bounds *bounds) {                         \
        double share = error == 0 ? 0 : error / bound;                                                                 \
        if (bounds->max_ulp != NONE && error != 0) {                                                                   \
            double other = ulp / bounds->ulp_bound;                                                                    \
            share = other < share ? other : share;                                                                     \
        }                                                                                                              \
        return share;                                                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    static void name##_one(Words left, Words right, const Bounds *bounds, Counts *counts) {                            \
        double a = value(left), e = value(right);                                                                      \
        int a_nan = a != a, e_nan = e != e;                                                                            \
        counts->nan_expected += e_nan;                                                                                 \
        if (a_nan || e_nan) {                                                                                          \
            if (!(a_nan && e_nan)) counts->nan += 1, counts->wrong += 1, counts->used = INFINITE;                      \
            return;                                                                                                    \
        }                                                                                                              \
        double size = __builtin_fabs(e);                                                                               \
        uint64_t ulp = name##_apart(left, right);                                                                      \
        counts->max_ulp = larger(counts->max_ulp, (double)ulp);                                                        \
        if (ulp == 0) return;                                                                                          \
        if (__builtin_fabs(a) == INFINITE || size == INFINITE) {                                                       \
            counts->inf += 1, counts->wrong += 1, counts->used = INFINITE;                                             \
            return;                                                                                                    \
        }                                                                                                              \
        double error = __builtin_fabs(a - e), relative = bounds->rtol != 0 ? bounds->rtol * size : 0;                  \
        double bound = bounds->atol + relative;                                                                        \
        int by_ulp = bounds->max_ulp != NONE && ulp <= bounds->max_ulp;                                                \
        counts->wrong += !(error <= bound) && !by_ulp;                                                                 \
        counts->over_atol += error > bounds->atol;                                                                     \
        counts->over_rtol += error > relative;                                                                         \
        counts->over_ulp += bounds->max_ulp != NONE && ulp > bounds->max_ulp;                                          \
        counts->max_abs = larger(counts->max_abs, error);                                                              \
        if (size > 0) counts->max_rel = larger(counts->max_rel, error / size);                                         \
        counts->used = larger(counts->used, name##_share(error, bound, (double)ulp, bounds));                          \
    }                                                                                                                  \
                                                                                                                       \
    static int name##_block(const Words *left, const Words *right, int count, const Bounds *bounds, Counts *counts) {  \
        const Words most = bounds->max_ulp > (Words)~(Words)0 ? (Words)~(Words)0 : (Words)bounds->max_ulp;             \
        Words max_ulp = 0, over_ulp = 0;                                                                               \
        for (int i = 0; i < count; ++i) {                                                                              \
            Words ulp = name##_apart(left[i], right[i]);                                                               \
            max_ulp = ulp > max_ulp ? ulp : max_ulp;                                                                   \
            Words beyond = (Words)((ulp > most ? ulp : most) - most);                                                  \
            over_ulp += beyond < 1 ? beyond : 1;                                                                       \
        }                                                                                                              \
        const double atol = bounds->atol, rtol = bounds->rtol;                                                         \
        const double rel = counts->max_rel * (1 - 0x1p-50), used = counts->used * (1 - 0x1p-50);                       \
        uint64_t wrong = 0, over_atol = 0, over_rtol = 0, above = 0, tiny = 0;                                         \
        uint64_t top = 0; /* the order of numbers that are not negative is that of their bits, and NaN comes last */   \
        for (int i = 0; i < count; ++i) {                                                                              \
            double e = value(right[i]), size = __builtin_fabs(e), error = __builtin_fabs(value(left[i]) - e);          \
            double relative = rtol * size, bound = atol + relative;                                                    \
            top = double_bits(error) > top ? double_bits(error) : top;                                                 \
            over_atol += above_bit(error, atol);                                                                       \
            over_rtol += above_bit(error, relative);                                                                   \
            wrong += above_bit(error, bound);                                                                          \
            above |= double_bits(rel * size - error) | double_bits(used * bound - error);                              \
            if (sizeof(Words) == 8) tiny |= double_bits(size - TINY) & double_bits(0.0 - size);                        \
        }                                                                                                              \
        if (top >= double_bits(INFINITE) || tiny >> 63) return 0;                                                      \
        if (bounds->max_ulp != NONE && wrong) {                                                                        \
            wrong = 0;                                                                                                 \
            for (int i = 0; i < count; ++i)                                                                            \
                wrong += (name##_error(left[i], right[i]) > atol + rtol * __builtin_fabs((double)value(right[i]))) &   \
                         (name##_apart(left[i], right[i]) > most);                                                     \
        }                                                                                                              \
        if (above >> 63) {                                                                                             \
            double max_rel = counts->max_rel, share = counts->used;                                                    \
            for (int i = 0; i < count; ++i) {                                                                          \
                double size = __builtin_fabs((double)value(right[i])), relative = rtol * size;                         \
                double error = name##_error(left[i], right[i]);                                                        \
                if (!(error > rel * size) && !(error > used * (atol + relative))) continue;                            \
                Words ulp = name##_apart(left[i], right[i]);                                                           \
                if (size > 0) max_rel = larger(max_rel, error / size);                                                 \
                share = larger(share, name##_share(error, atol + relative, (double)ulp, bounds));                      \
            }                                                                                                          \
            counts->max_rel = max_rel, counts->used = share;                                                           \
        }                                                                                                              \
        counts->wrong += (int64_t)wrong, counts->over_atol += (int64_t)over_atol, counts->over_rtol += (int64_t)over_rtol;\
        counts->over_ulp += bounds->max_ulp != NONE ? (int64_t)over_ulp : 0;                                           \
        counts->max_abs = larger(counts->max_abs, double_value(top));                                                  \
        counts->max_ulp = larger(counts->max_ulp, (double)max_ulp);                                                    \
        return 1;                                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    void matrix_gate_##name(const void *actual, const void *expected, int64_t count, const Bounds *bounds,             \
                            Counts *counts) {                                                                          \
        const Words *left = actual, *right = expected;                                                                 \
        for (int64_t start = 0; start < count; start += BLOCK) {                                                       \
            int size = count - start < BLOCK ? (int)(count - start) : BLOCK;                                           \
            if (!name##_block(left + start, right + start, size, bounds, counts))                                      \
                for (int i = 0; i < size; ++i) name##_one(left[start + i], right[start + i], bounds, counts);          \
        }                                                                                                              \
    }

DEFINE_GATE(f16, uint16_t, int16_t, half_value)
DEFINE_GATE(bf16, uint16_t, int16_t, brain_value)
DEFINE_GATE(f32, uint32_t, int32_t, single_value)
DEFINE_GATE(f64, uint64_t, int64_t, double_value)
