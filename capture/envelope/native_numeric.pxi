# Exact numbers of up to 38 digits in 128-bit arithmetic; larger ones, and NaN and the infinities, go to Python.
# Cython takes the 128-bit types for 64-bit ones: no conditional expression of theirs, since it would be cut.

cdef enum:
    MOST_DIGITS = 38
    NUMERIC_TEXT = 160

cdef u128 POWERS[MOST_DIGITS + 1]
POWERS[0] = 1
for _number in range(1, MOST_DIGITS + 1):
    POWERS[_number] = POWERS[_number - 1] * 10

cdef struct Number:
    u128 unscaled
    int scale
    int digits
    bint negative
    # Whether BigDecimal would print the very text this was read from.
    bint canonical

cdef extern from *:
    int clz "__builtin_clzll" (uint64_t value) noexcept nogil
    uint64_t byte_swapped "__builtin_bswap64" (uint64_t value) noexcept nogil

cdef bint get_numeric(const uint8_t* text, Py_ssize_t size, Number* number) noexcept nogil:
    """`-?digits[.digits]`."""
    cdef Py_ssize_t i = 0
    cdef u128 high = 0
    cdef uint64_t low = 0
    cdef int count = 0, low_count = 0, scale = -1
    cdef unsigned int digit
    number.negative = size > 0 and text[0] == c"-"
    if number.negative:
        i = 1
    if i >= size or text[i] == c"." or text[size - 1] == c".":
        return False
    number.canonical = text[i] != c"0" or i + 1 == size or text[i + 1] == c"."
    if size > 41:
        return False
    while i < size:
        digit = <unsigned int>text[i] - 48
        if digit <= 9:
            low = low * 10 + digit
            low_count += 1
            count += 1
            if low_count == 18:
                high = high * POWERS[18] + low
                low = 0
                low_count = 0
            if scale >= 0:
                scale += 1
        elif text[i] == c"." and scale < 0:
            scale = 0
        else:
            return False
        i += 1
    if count > MOST_DIGITS:
        return False
    number.unscaled = low
    if high:
        number.unscaled += high * POWERS[low_count]
    number.digits = count
    number.scale = scale if scale > 0 else 0
    return True

cdef enum:
    NUMERIC_NEGATIVE = 0x4000

cdef inline int check_numeric(const uint8_t* raw, Py_ssize_t size) noexcept nogil:
    """Base-10000 digits of a well-formed finite numeric in send format, or -1."""
    cdef int count, i
    if size < 8:
        return -1
    count = get_u16(raw)
    if size != 8 + 2 * count or get_u16(raw + 4) & ~NUMERIC_NEGATIVE or get_u16(raw + 6) > 16383:
        return -1
    for i in range(count):
        if get_u16(raw + 8 + 2 * i) > 9999:
            return -1
    return count

cdef bint get_binary_numeric(const uint8_t* raw, Py_ssize_t size, Number* number) noexcept nogil:
    """A numeric in send format at its display scale."""
    cdef int count = check_numeric(raw, size), i, weight, scale, shift
    cdef u128 value = 0
    if count < 0 or count > 9:
        return False
    weight = <int>(<int32_t>(<uint32_t>get_u16(raw + 2) << 16) >> 16)
    scale = get_u16(raw + 6)
    for i in range(count):
        value = value * 10000 + get_u16(raw + 8 + 2 * i)
    # The value is `value` x 10^(4 * (weight - count + 1)); at the display scale that many digits more or less.
    shift = 4 * (weight - count + 1) + scale
    if count == 0:
        shift = 0
    if shift > 0:
        if 4 * count + shift > MOST_DIGITS:
            return False
        value *= POWERS[shift]
    elif shift < 0:
        if -shift > MOST_DIGITS:
            return False
        value //= POWERS[-shift]
    number.unscaled = value
    number.scale = scale
    number.negative = get_u16(raw + 4) == NUMERIC_NEGATIVE and value != 0
    number.digits = 4 * count + (shift if shift > 0 else 0)
    number.canonical = False
    return True

cdef inline bint rescale(Number* number, int scale) noexcept nogil:
    """To a scale that is not smaller, within 38 digits."""
    cdef int more = scale - number.scale
    if more == 0:
        return True
    if more < 0 or number.digits + more > MOST_DIGITS:
        return False
    number.unscaled *= POWERS[more]
    number.digits += more
    number.scale = scale
    return True

cdef inline void strip_zeros(Number* number) noexcept nogil:
    while number.scale > 0 and number.unscaled % 10 == 0:
        number.unscaled //= 10
        number.scale -= 1

cdef inline int put_unscaled(uint8_t* p, u128 magnitude, bint negative) noexcept nogil:
    """The shortest big-endian two's complement; returns its size, at most 17. Needs 17 bytes."""
    cdef u128 bits = magnitude
    cdef uint8_t sign = 0xFF if negative and magnitude else 0
    cdef uint8_t raw[17]
    cdef int i, start = 0
    cdef int64_t small
    cdef uint64_t shifted
    if magnitude <= <u128>INFINITE:
        small = -<int64_t>magnitude if negative else <int64_t>magnitude
        # As many bytes as the value and its sign bit take.
        i = ((64 - clz(<uint64_t>(small ^ (small >> 63)) | 1)) >> 3) + 1
        shifted = byte_swapped(<uint64_t>small << (64 - 8 * i))
        memcpy(p, &shifted, 8)
        return i
    if sign:
        bits = ~magnitude + 1
    raw[0] = sign
    for i in range(16, 0, -1):
        raw[i] = <uint8_t>bits
        bits >>= 8
    while start < 16 and raw[start] == sign and (raw[start + 1] ^ sign) < 0x80:
        start += 1
    memcpy(p, raw + start, 17 - start)
    return 17 - start

cdef inline uint8_t* put_u128(uint8_t* p, u128 value) noexcept nogil:
    cdef uint64_t low
    if value <= <u128>0xFFFFFFFFFFFFFFFF:
        return put_unsigned(p, <uint64_t>value)
    low = <uint64_t>(value % POWERS[18])
    return put_padded(put_u128(p, value // POWERS[18]), low, 18)

cdef uint8_t* put_numeric_text(uint8_t* p, const uint8_t* raw, Py_ssize_t size) noexcept nogil:
    """numeric_out of a numeric in send format, at most NUMERIC_TEXT bytes; NULL: not mine."""
    cdef int count = check_numeric(raw, size), weight, scale, i, digit, left
    if count < 0:
        return NULL
    weight = <int>(<int32_t>(<uint32_t>get_u16(raw + 2) << 16) >> 16)
    scale = get_u16(raw + 6)
    if weight > 16 or scale > 64:
        return NULL
    if get_u16(raw + 4) == NUMERIC_NEGATIVE:
        p[0] = c"-"
        p += 1
    if weight < 0 or count == 0:
        p[0] = c"0"
        p += 1
    else:
        digit = get_u16(raw + 8)
        if digit == 0 and weight > 0:
            return NULL
        p = put_unsigned(p, digit)
        for i in range(1, weight + 1):
            p = put_padded(p, get_u16(raw + 8 + 2 * i) if i < count else 0, 4)
    if scale:
        p[0] = c"."
        p += 1
        left = scale
        i = weight + 1 if count else 0
        while left > 0:
            digit = get_u16(raw + 8 + 2 * i) if 0 <= i < count else 0
            put_padded(p, digit, 4)
            p += left if left < 4 else 4
            left -= 4
            i += 1
    return p
