# Columns of exact numbers; the rules are those of native_columns.pxi.

cdef inline uint8_t* convert_decimal(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef Number number
    if binary:
        if not get_binary_numeric(data, size, &number):
            return NULL
    elif not get_numeric(data, size, &number):
        return NULL
    if column.op == OP_VARIABLE_DECIMAL:
        strip_zeros(&number)
        return write_variable(p, column, &number)
    if not rescale(&number, column.parameter):
        return NULL
    if column.json and column.numeric:
        return write_big_decimal(p, &number)
    return write_decimal(p, column, &number)

cdef uint8_t* write_variable(uint8_t* p, const Column* column, const Number* number) noexcept nogil:
    cdef uint8_t raw[20]
    cdef int size = put_unscaled(raw, number.unscaled, number.negative)
    if column.json:
        memcpy(p, b'{"scale":', 9)
        p = put_unsigned(p + 9, number.scale)
        memcpy(p, b',"value":"', 10)
        p = put_base64(p + 10, raw, size, BASE64)
        memcpy(p, b'"}', 2)
        return p + 2
    return copy_text(put_varint(put_varint(p, number.scale), size), raw, size)

cdef inline uint8_t* write_decimal(uint8_t* p, const Column* column, const Number* number) noexcept nogil:
    cdef uint8_t raw[20]
    cdef int size = put_unscaled(raw, number.unscaled, number.negative)
    if column.json:
        p[0] = c'"'
        p = put_base64(p + 1, raw, size, BASE64)
        p[0] = c'"'
        return p + 1
    return copy_text(put_varint(p, size), raw, size)

cdef uint8_t* write_big_decimal(uint8_t* p, const Number* number) noexcept nogil:
    """BigDecimal.toString in plain notation; small numbers of a large scale go to Python."""
    cdef uint8_t digits[48]
    cdef int count = <int>(put_u128(digits, number.unscaled) - digits)
    cdef int scale = number.scale, whole = count - scale
    if scale and count - 1 - scale < -6:
        return NULL
    if number.negative and number.unscaled:
        p[0] = c"-"
        p += 1
    if scale == 0:
        memcpy(p, digits, count)
        return p + count
    if whole > 0:
        memcpy(p, digits, whole)
        p[whole] = c"."
        memcpy(p + whole + 1, digits + whole, scale)
        return p + count + 1
    memcpy(p, b"0.0000000000", 12)
    p += 2 - whole
    memcpy(p, digits, count)
    return p + count

cdef uint8_t* convert_numeric_text(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept:
    """`decimal.handling.mode` string and double: by way of numeric's text."""
    cdef uint8_t text[NUMERIC_TEXT]
    cdef uint8_t* end
    cdef Number number
    cdef double value = 0
    if binary:
        end = put_numeric_text(text, data, size)
        if end == NULL:
            return NULL
        data = text
        size = end - text
    elif not get_numeric(data, size, &number):
        return NULL
    if column.op == OP_NUMERIC_STRING:
        return write_text(p, column, data, size)
    if not get_double(data, size, &value):
        return NULL
    return write_double(p, column, value, False)
