/* Two texts side by side: words must be equal, numbers are handed out in pairs. The grammar is that of text.py, to the letter.
 *
 * Short decimal numbers become doubles here, by one exact operation; the others by the caller's strtod, which rounds correctly, too.
 */

#include <stdint.h>

enum { LONGEST = 1000 }; /* characters of a number; longer ones are text */

typedef double (*Convert)(const char *, char **);

typedef struct {
    int64_t left, right;     /* where to go on */
    int64_t pairs, words;    /* found so far */
    int64_t lines, columns;  /* of `left`, from 0 */
    int64_t differs;         /* 1: the texts differ here; 2: one has ended */
} State;

typedef struct {
    const char *at, *end;
    int64_t breaks;          /* line breaks that were skipped before the token */
} Cursor;

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_hex(char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

static void skip(Cursor *cursor) {
    cursor->breaks = 0;
    while (cursor->at < cursor->end && is_space(*cursor->at)) cursor->breaks += *cursor->at++ == '\n';
}

static int64_t word_length(const char *at, const char *end) {
    const char *begin = at;
    if (at < end && is_letter(*at))
        while (at < end && (is_letter(*at) || is_digit(*at))) ++at;
    return at - begin;
}

static int is_called(const char *at, int64_t length, const char *name) {
    int64_t i = 0;
    for (; i < length && name[i]; ++i)
        if ((at[i] | 32) != name[i]) return 0;
    return i == length && !name[i];
}

static int special(const char *at, int64_t length, double *value) {
    if (is_called(at, length, "nan")) return *value = __builtin_nan(""), 1;
    if (is_called(at, length, "inf") || is_called(at, length, "infinity")) return *value = __builtin_inf(), 1;
    return 0;
}

static const char *digits(const char *at, const char *end, int (*is)(char)) {
    while (at < end && is(*at)) ++at;
    return at;
}

/* Where a mantissa of such digits, with at most one period, ends; `at` where there is none. */
static const char *mantissa_end(const char *at, const char *end, int (*is)(char)) {
    const char *whole = digits(at, end, is);
    if (whole < end && *whole == '.') {
        const char *part = digits(whole + 1, end, is);
        return whole > at || part > whole + 1 ? part : at;
    }
    return whole;
}

static const char *exponent_end(const char *at, const char *end, char lower, char other) {
    if (at == end || ((*at | 32) != lower && (*at | 32) != other)) return at;
    const char *next = at + 1;
    if (next < end && (*next == '+' || *next == '-')) ++next;
    const char *last = digits(next, end, is_digit);
    return last > next ? last : at;
}

static double converted(const char *at, int64_t length, Convert convert) {
    char copy[LONGEST + 1];
    for (int64_t i = 0; i < length; ++i) copy[i] = (at[i] | 32) == 'd' && !(length > 1 && (at[1] | 32) == 'x') ? 'e' : at[i];
    copy[length] = 0;
    return convert(copy, 0);
}

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* An unsigned decimal number: exact where its digits fit a double and one power of ten that is exact does the rest. */
static double decimal(const char *at, const char *mantissa, const char *end, Convert convert) {
    uint64_t value = 0;
    int64_t power = 0;
    int seen = 0, period = 0;
    for (const char *c = at; c < mantissa; ++c) {
        if (*c == '.') { period = 1; continue; }
        seen += seen || *c != '0';
        if (seen > 19) return converted(at, end - at, convert);
        value = value * 10 + (uint64_t)(*c - '0');
        power -= period;
    }
    if (mantissa < end) {
        const char *c = mantissa + 1;
        int negative = *c == '-';
        int64_t exponent = 0;
        for (c += *c == '+' || *c == '-'; c < end; ++c)
            if (exponent < 100000) exponent = exponent * 10 + (*c - '0');
        power += negative ? -exponent : exponent;
    }
    if (!value) return 0;
    if (value >> 53 || power > 22 || power < -22) return converted(at, end - at, convert);
    return power < 0 ? (double)value / TENS[-power] : (double)value * TENS[power];
}

/* The length of the number that begins here, and its value; 0 where none does, less where it is so long that it is text. */
static int64_t number(const char *begin, const char *limit, Convert convert, double *value) {
    const char *at = begin;
    int negative = at < limit && *at == '-';
    if (at < limit && (*at == '+' || *at == '-')) ++at;
    const char *end;
    int64_t length = word_length(at, limit);
    if (length && special(at, length, value)) {
        end = at + length;
    } else if (limit - at > 2 && *at == '0' && (at[1] | 32) == 'x' && mantissa_end(at + 2, limit, is_hex) > at + 2) {
        end = exponent_end(mantissa_end(at + 2, limit, is_hex), limit, 'p', 'p');
        if (end - begin > LONGEST) return begin - end;
        *value = converted(at, end - at, convert);
    } else {
        const char *mantissa = mantissa_end(at, limit, is_digit);
        if (mantissa == at) return 0;
        end = exponent_end(mantissa, limit, 'e', 'd');
        if (end - begin > LONGEST) return begin - end;
        *value = decimal(at, mantissa, end, convert);
    }
    if (negative) *value = -*value;
    return end - begin;
}

static int64_t text_length(const char *at, const char *end) {
    int64_t length = word_length(at, end);
    return length ? length : 1;
}

/* Goes on from `state` until `capacity` pairs are found (their values, and the lines and columns of the left ones, from 0), or the end. */
void matrix_text(const char *left, int64_t left_size, const char *right, int64_t right_size, int any_space, Convert convert,
                 double *lefts, double *rights, int64_t *lines, int64_t *columns, int64_t capacity, State *state) {
    Cursor a = {left + state->left, left + left_size, 0}, b = {right + state->right, right + right_size, 0};
    const char *line = a.at - state->columns;
    int64_t count = 0;
    while (count < capacity) {
        const char *before = a.at;
        skip(&a), skip(&b);
        for (; before < a.at; ++before)
            if (*before == '\n') ++state->lines, line = before + 1;
        int ended = (a.at == a.end) + (b.at == b.end);
        if (ended) {
            state->differs = ended == 1 ? 2 : 0;
            break;
        }
        if (a.breaks != b.breaks && !any_space && state->pairs + state->words) {
            state->differs = 1;
            break;
        }
        double x, y;
        int64_t m = number(a.at, a.end, convert, &x), n = number(b.at, b.end, convert, &y);
        if (m > 0 && n > 0) {
            lefts[count] = x, rights[count] = y, lines[count] = state->lines, columns[count] = a.at - line;
            ++count, ++state->pairs;
        } else {
            m = m > 0 ? 0 : m ? -m : text_length(a.at, a.end), n = n > 0 ? 0 : n ? -n : text_length(b.at, b.end);
            int same = m && m == n && m <= a.end - a.at;
            for (int64_t i = 0; same && i < m; ++i) same = a.at[i] == b.at[i];
            if (!same) {
                state->differs = 1;
                break;
            }
            ++state->words;
        }
        a.at += m, b.at += n;
    }
    state->left = a.at - left, state->right = b.at - right, state->columns = a.at - line;
}
