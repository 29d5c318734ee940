# Strings, bytes and floating-point numbers. Whatever is out of the ordinary is left to the Python reference: these
# functions then answer "not mine" (0) and have written nothing that counts.

from libc.math cimport fabs, signbit

cdef extern from "Python.h":
    char* PyOS_double_to_string(double value, char format_code, int precision, int flags, int* kind) noexcept
    # With no overflow exception it gives an infinity, as Java does.
    double c_string_to_double "PyOS_string_to_double" (const char* text, char** end, void* overflow) noexcept
    void PyErr_Clear()
    void PyMem_Free(void* memory)

cdef inline bint is_ascii(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word, seen = 0
    cdef Py_ssize_t i = 0
    while i + 8 <= size:
        memcpy(&word, p + i, 8)
        seen |= word
        i += 8
    while i < size:
        seen |= <uint64_t>p[i]
        i += 1
    return seen & <uint64_t>0x8080808080808080 == 0

cdef inline int utf8_length(const uint8_t* p, Py_ssize_t left) noexcept nogil:
    """Bytes of the well-formed multi-byte sequence at p, 0 if there is none."""
    cdef uint8_t lead = p[0]
    if lead < 0xC2:
        return 0
    if lead < 0xE0:
        return 2 if left >= 2 and (p[1] & 0xC0) == 0x80 else 0
    if lead < 0xF0:
        if left < 3 or (p[1] & 0xC0) != 0x80 or (p[2] & 0xC0) != 0x80:
            return 0
        if (lead == 0xE0 and p[1] < 0xA0) or (lead == 0xED and p[1] > 0x9F):
            return 0
        return 3
    if lead > 0xF4 or left < 4 or (p[1] & 0xC0) != 0x80 or (p[2] & 0xC0) != 0x80 or (p[3] & 0xC0) != 0x80:
        return 0
    if (lead == 0xF0 and p[1] < 0x90) or (lead == 0xF4 and p[1] > 0x8F):
        return 0
    return 4

cdef bint is_utf8(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i = 0
    cdef int length
    while i < size:
        if p[i] < 0x80:
            i += 1
            continue
        length = utf8_length(p + i, size - i)
        if length == 0:
            return False
        i += length
    return True

# 0: copied as it is; 1: a short escape; 2: \u00XX; 3: part of a multi-byte sequence.
cdef uint8_t JSON_CLASS[256]
cdef uint8_t SHORT_ESCAPE[256]
for _number in range(256):
    JSON_CLASS[_number] = 2 if _number < 0x20 else 3 if _number >= 0x80 else 0
for _raw, _short in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt'):
    JSON_CLASS[_raw] = 1
    SHORT_ESCAPE[_raw] = _short
cdef const uint8_t* HEX_UPPER = b"0123456789ABCDEF"
cdef const uint8_t* HEX_LOWER = b"0123456789abcdef"

cdef inline uint8_t* put_unit(uint8_t* p, int unit) noexcept nogil:
    p[0] = c"\\"
    p[1] = c"u"
    p[2] = HEX_UPPER[(unit >> 12) & 15]
    p[3] = HEX_UPPER[(unit >> 8) & 15]
    p[4] = HEX_UPPER[(unit >> 4) & 15]
    p[5] = HEX_UPPER[unit & 15]
    return p + 6

cdef inline bint plain_word(const uint8_t* p) noexcept nogil:
    """Whether eight bytes hold nothing that JSON escapes, and only ASCII."""
    cdef uint64_t word, quote, slash
    cdef uint64_t ones = <uint64_t>0x0101010101010101
    memcpy(&word, p, 8)
    quote = word ^ (ones * 0x22)
    slash = word ^ (ones * 0x5C)
    return (
        word | ((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)
    ) & (ones * 0x80) == 0

cdef uint8_t* put_json(uint8_t* p, const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """A quoted JSON string as Jackson writes it (debezium/02 section 3.1); NULL if the text is no UTF-8.

    Needs 6 * size + 2 bytes.
    """
    cdef Py_ssize_t i = 0
    cdef int length, code
    cdef uint8_t kind
    p[0] = c'"'
    p += 1
    while i < size:
        if i + 8 <= size and plain_word(text + i):
            memcpy(p, text + i, 8)
            p += 8
            i += 8
            continue
        kind = JSON_CLASS[text[i]]
        if kind == 0:
            p[0] = text[i]
            p += 1
            i += 1
        elif kind == 1:
            p[0] = c"\\"
            p[1] = SHORT_ESCAPE[text[i]]
            p += 2
            i += 1
        elif kind == 2:
            p = put_unit(p, text[i])
            i += 1
        else:
            length = utf8_length(text + i, size - i)
            if length == 0:
                return NULL
            if length == 4:
                code = (text[i] & 7) << 18 | (text[i + 1] & 63) << 12 | (text[i + 2] & 63) << 6 | (text[i + 3] & 63)
                code -= 0x10000
                p = put_unit(put_unit(p, 0xD800 + (code >> 10)), 0xDC00 + (code & 0x3FF))
            else:
                memcpy(p, text + i, length)
                p += length
            i += length
    p[0] = c'"'
    return p + 1

cdef const uint8_t* BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const uint8_t* BASE64_URL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

cdef uint8_t* put_base64(uint8_t* p, const uint8_t* raw, Py_ssize_t size, const uint8_t* digits) noexcept nogil:
    """Base64 with padding: (size + 2) // 3 * 4 bytes."""
    cdef Py_ssize_t i = 0
    cdef uint32_t group
    while i + 3 <= size:
        group = <uint32_t>raw[i] << 16 | <uint32_t>raw[i + 1] << 8 | raw[i + 2]
        p[0] = digits[group >> 18]
        p[1] = digits[(group >> 12) & 63]
        p[2] = digits[(group >> 6) & 63]
        p[3] = digits[group & 63]
        p += 4
        i += 3
    if size - i == 1:
        p[0] = digits[raw[i] >> 2]
        p[1] = digits[(raw[i] & 3) << 4]
        p[2] = c"="
        p[3] = c"="
        p += 4
    elif size - i == 2:
        group = <uint32_t>raw[i] << 8 | raw[i + 1]
        p[0] = digits[group >> 10]
        p[1] = digits[(group >> 4) & 63]
        p[2] = digits[(group & 15) << 2]
        p[3] = c"="
        p += 4
    return p

cdef inline uint8_t* put_hex(uint8_t* p, const uint8_t* raw, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        p[0] = HEX_LOWER[raw[i] >> 4]
        p[1] = HEX_LOWER[raw[i] & 15]
        p += 2
    return p

cdef uint8_t NIBBLE[256]
for _number in range(256):
    NIBBLE[_number] = 0xFF
for _number in range(16):
    NIBBLE[b"0123456789abcdef"[_number]] = _number
    NIBBLE[b"0123456789ABCDEF"[_number]] = _number

cdef bint get_hex(uint8_t* p, const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """Decode hex digits to size / 2 bytes; false if they are none."""
    cdef Py_ssize_t i = 0
    cdef uint8_t high, low, bad = 0
    if size & 1:
        return False
    while i < size:
        high = NIBBLE[text[i]]
        low = NIBBLE[text[i + 1]]
        bad |= (high | low) & 0x80
        p[0] = <uint8_t>(high << 4 | (low & 15))
        p += 1
        i += 2
    return bad == 0

cdef inline bint eight_digits(const uint8_t* text, uint64_t* value) noexcept nogil:
    """Eight decimal digits at once (little-endian arithmetic within a word)."""
    cdef uint64_t word
    memcpy(&word, text, 8)
    if (word & <uint64_t>0xF0F0F0F0F0F0F0F0) != <uint64_t>0x3030303030303030:
        return False
    if ((word + <uint64_t>0x0606060606060606) & <uint64_t>0xF0F0F0F0F0F0F0F0) != <uint64_t>0x3030303030303030:
        return False
    word = (word & <uint64_t>0x0F0F0F0F0F0F0F0F) * 2561 >> 8
    word = (word & <uint64_t>0x00FF00FF00FF00FF) * 6553601 >> 16
    value[0] = (word & <uint64_t>0x0000FFFF0000FFFF) * <uint64_t>42949672960001 >> 32
    return True

cdef inline bint get_integer(const uint8_t* text, Py_ssize_t size, int64_t* value) noexcept nogil:
    """A decimal integer of at most 18 digits."""
    cdef Py_ssize_t i = 0
    cdef bint negative = size > 0 and text[0] == c"-"
    cdef uint64_t number = 0, eight = 0
    cdef unsigned int digit
    if negative:
        i = 1
    if i == size or size - i > 18:
        return False
    while size - i >= 8:
        if not eight_digits(text + i, &eight):
            return False
        number = number * 100000000 + eight
        i += 8
    while i < size:
        digit = <unsigned int>text[i] - 48
        if digit > 9:
            return False
        number = number * 10 + digit
        i += 1
    value[0] = -<int64_t>number if negative else <int64_t>number
    return True

cdef enum:
    FLOAT_TEXT = 64

cdef bint get_double(const uint8_t* text, Py_ssize_t size, double* value) noexcept:
    """A finite decimal number in up to 63 characters (digits, point, exponent)."""
    cdef char copy[FLOAT_TEXT]
    cdef char* end = NULL
    cdef Py_ssize_t i
    cdef uint8_t c
    if size == 0 or size >= FLOAT_TEXT or not 48 <= text[size - 1] <= 57:
        return False
    if not (48 <= text[0] <= 57 or (text[0] == c"-" and size > 1 and 48 <= text[1] <= 57)):
        return False
    for i in range(size):
        c = text[i]
        if not (48 <= c <= 57 or c == c"." or c == c"-" or c == c"+" or c == c"e"):
            return False
        copy[i] = <char>c
    copy[size] = 0
    value[0] = c_string_to_double(copy, &end, NULL)
    if end != copy + size:
        PyErr_Clear()
        return False
    return True

cdef uint8_t* put_java(uint8_t* p, const char* digits, int count, int exponent, bint negative) noexcept nogil:
    """Java's layout of 0.d1d2… x 10^exponent."""
    cdef int i
    if negative:
        p[0] = c"-"
        p += 1
    if -3 < exponent <= 0:
        p[0] = c"0"
        p[1] = c"."
        p += 2
        for i in range(-exponent):
            p[0] = c"0"
            p += 1
        memcpy(p, digits, count)
        return p + count
    if 0 < exponent <= 7:
        for i in range(exponent):
            p[0] = <uint8_t>digits[i] if i < count else c"0"
            p += 1
        p[0] = c"."
        p += 1
        if count <= exponent:
            p[0] = c"0"
            return p + 1
        memcpy(p, digits + exponent, count - exponent)
        return p + count - exponent
    p[0] = <uint8_t>digits[0]
    p[1] = c"."
    p += 2
    if count == 1:
        p[0] = c"0"
        p += 1
    else:
        memcpy(p, digits + 1, count - 1)
        p += count - 1
    p[0] = c"E"
    return put_signed(p + 1, exponent - 1)

cdef int split_number(const char* text, char* digits, int* exponent) noexcept nogil:
    """Significant digits of a printed number without trailing zeros; returns how many. Value 0.d1d2… x 10^exponent."""
    cdef int count = 0, point = 0, power = 0, leading = 0
    cdef bint fraction = False, negative_power = False
    if text[0] == c"-":
        text += 1
    while text[0] and text[0] != c"e":
        if text[0] == c".":
            fraction = True
        elif count == 0 and text[0] == c"0":
            leading += fraction
        else:
            digits[count] = text[0]
            count += 1
            point += not fraction
        text += 1
    if text[0] == c"e":
        text += 1
        negative_power = text[0] == c"-"
        text += 1
        while text[0]:
            power = power * 10 + (text[0] - 48)
            text += 1
    while count > 1 and digits[count - 1] == c"0":
        count -= 1
    exponent[0] = (point if point else -leading) + (-power if negative_power else power)
    return count

cdef int print_digits(double value, char code, int precision, char* digits, int* exponent) noexcept:
    """Significant digits of a value as Python prints it; 0 without memory."""
    cdef char* text = PyOS_double_to_string(value, code, precision, 0, NULL)
    cdef int count
    if text == NULL:
        PyErr_Clear()
        return 0
    count = split_number(text, digits, exponent)
    PyMem_Free(text)
    return count

cdef uint8_t* put_java_double(uint8_t* p, double value) noexcept:
    """Double.toString; at most 32 bytes. NaN and the infinities are quoted. NULL: not mine."""
    cdef char digits[32]
    cdef int exponent = 0, count
    if value != value:
        memcpy(p, b'"NaN"', 5)
        return p + 5
    if value - value != 0:
        memcpy(p, b'"-Infinity"' if value < 0 else b'"Infinity"', 11 if value < 0 else 10)
        return p + (11 if value < 0 else 10)
    if value == 0:
        memcpy(p, b"-0.0" if signbit(value) else b"0.0", 4 if signbit(value) else 3)
        return p + (4 if signbit(value) else 3)
    count = print_digits(value, c"r", 0, digits, &exponent)
    if count == 1 and not -3 < exponent <= 7:
        count = print_digits(value, c"e", 1, digits, &exponent)
    return put_java(p, digits, count, exponent, value < 0) if count else NULL

cdef uint8_t* put_java_float(uint8_t* p, float value) noexcept:
    """Float.toString; at most 32 bytes. NULL: not mine."""
    cdef char digits[32]
    cdef char* text
    cdef char* end
    cdef int exponent = 0, count, precision
    cdef uint32_t bits
    cdef float again
    if value != value or value - value != 0 or value == 0:
        return put_java_double(p, value)
    memcpy(&bits, &value, 4)
    for precision in range(5, 9):
        # Six digits that read back are the shortest form. Beyond them a power of two has more than one choice.
        if bits & 0x7F800000 == 0 or (precision > 5 and bits & 0x7FFFFF == 0):
            return NULL
        text = PyOS_double_to_string(value, c"e", precision, 0, NULL)
        if text == NULL:
            PyErr_Clear()
            return NULL
        again = <float>c_string_to_double(text, &end, NULL)
        count = split_number(text, digits, &exponent)
        PyMem_Free(text)
        if again == value:
            if count == 1 and not -3 < exponent <= 7:
                count = print_digits(value, c"e", 1, digits, &exponent)
            return put_java(p, digits, count, exponent, value < 0) if count else NULL
    return NULL
