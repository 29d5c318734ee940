# One column: the bytes Postgres sent -> the bytes of a field. `convert` answers 1 when it wrote a value and 0 when
# the value is not of the common form; then the field's Python function decides, which is the reference for all.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject

# Op of column_types.py; checked when this module is imported.
cdef enum:
    OP_PYTHON = 0
    OP_BOOLEAN = 1
    OP_INT16 = 2
    OP_INT32 = 3
    OP_INT64 = 4
    OP_OID = 5
    OP_FLOAT = 6
    OP_DOUBLE = 7
    OP_STRING = 8
    OP_JSONB = 9
    OP_UUID = 10
    OP_BYTES = 11
    OP_BYTES_BASE64 = 12
    OP_BYTES_BASE64_URL = 13
    OP_BYTES_HEX = 14
    OP_DECIMAL = 15
    OP_VARIABLE_DECIMAL = 16
    OP_NUMERIC_DOUBLE = 17
    OP_NUMERIC_STRING = 18
    OP_DATE = 19
    OP_DATE_ISO = 20
    OP_TIME_MS = 21
    OP_TIME_US = 22
    OP_TIME_NS = 23
    OP_TIME_ISO = 24
    OP_TIMESTAMP_MS = 25
    OP_TIMESTAMP_US = 26
    OP_TIMESTAMP_NS = 27
    OP_TIMESTAMP_ISO = 28
    OP_TIMESTAMPTZ = 29

cdef enum:
    CELL_NULL = 0
    CELL_VALUE = 1
    CELL_UNCHANGED = 2

cdef struct Cell:
    int kind
    Py_ssize_t size
    const uint8_t* data

cdef struct Column:
    int source
    int op
    int parameter
    bint json
    bint numeric
    bint binary
    Piece prefix
    Piece null
    Piece unavailable
    PyObject* plan

cdef struct Struct:
    Py_ssize_t count
    Column* columns
    Piece open
    Piece close

cdef int encode_struct(Buffer* out, Struct* plan, const Cell* cells, bint copied) except -1:
    """A key, or the inside of a row."""
    cdef Py_ssize_t i
    put_piece(out, plan.open)
    for i in range(plan.count):
        encode_column(out, &plan.columns[i], &cells[plan.columns[i].source], copied)
    put_piece(out, plan.close)
    return 0

cdef inline int encode_column(Buffer* out, Column* column, const Cell* cell, bint copied) except -1:
    cdef Py_ssize_t mark = out.size
    cdef bint binary = copied and column.binary
    if cell.kind == CELL_NULL:
        return put_piece(out, column.null)
    if cell.kind == CELL_UNCHANGED:
        return put_piece(out, column.unavailable)
    put_piece(out, column.prefix)
    if convert(out, column, cell.data, cell.size, binary) == 0:
        out.size = mark
        by_reference(out, column, cell, binary)
    return 0

cdef int by_reference(Buffer* out, Column* column, const Cell* cell, bint binary) except -1:
    """Let Python write the field, or say what is wrong with it."""
    encoded = reference(<object>column.plan, PyBytes_FromStringAndSize(<char*>cell.data, cell.size), binary)
    if encoded is None:
        return put_piece(out, column.null)
    put_piece(out, column.prefix)
    return put(out, <const uint8_t*>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))

cdef object reference(object plan, bytes raw, bint binary):
    if binary:
        return from_binary(plan)(raw)
    return plan.encode(raw)

cdef int convert(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef int op = column.op
    if op == OP_STRING:
        return convert_text(out, column, data, size)
    elif op == OP_INT16 or op == OP_INT32 or op == OP_INT64 or op == OP_OID:
        return convert_integer(out, column, data, size, binary)
    elif op == OP_BOOLEAN:
        return convert_boolean(out, column, data, size, binary)
    elif op == OP_FLOAT or op == OP_DOUBLE:
        return convert_float(out, column, data, size, binary)
    elif op == OP_JSONB:
        if not binary:
            return convert_text(out, column, data, size)
        return convert_text(out, column, data + 1, size - 1) if size and data[0] == 1 else 0
    elif op == OP_UUID:
        return convert_uuid(out, column, data, size, binary)
    elif op == OP_TIMESTAMPTZ:
        return convert_timestamptz(out, column, data, size, binary)
    elif op == OP_DECIMAL or op == OP_VARIABLE_DECIMAL or op == OP_NUMERIC_DOUBLE or op == OP_NUMERIC_STRING:
        return convert_numeric(out, column, data, size, binary)
    elif op == OP_DATE or op == OP_DATE_ISO:
        return convert_date(out, column, data, size, binary)
    elif op == OP_TIME_MS or op == OP_TIME_US or op == OP_TIME_NS or op == OP_TIME_ISO:
        return convert_time(out, column, data, size, binary)
    elif op == OP_TIMESTAMP_MS or op == OP_TIMESTAMP_US or op == OP_TIMESTAMP_NS or op == OP_TIMESTAMP_ISO:
        return convert_timestamp(out, column, data, size, binary)
    elif op == OP_BYTES or op == OP_BYTES_BASE64 or op == OP_BYTES_BASE64_URL or op == OP_BYTES_HEX:
        return convert_bytea(out, column, data, size, binary)
    return 0

cdef inline int write_text(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size) except -1:
    """ASCII without anything that JSON escapes."""
    cdef uint8_t* p
    reserve(out, size + 12)
    p = out.data + out.size
    if column.json:
        p[0] = c'"'
        memcpy(p + 1, data, size)
        p[size + 1] = c'"'
        out.size += size + 2
    else:
        p = put_varint(p, size)
        memcpy(p, data, size)
        out.size = p + size - out.data
    return 1

cdef inline int write_long(Buffer* out, Column* column, int64_t value) except -1:
    reserve(out, 24)
    out.size = put_number(out.data + out.size, value, column.json) - out.data
    return 1

cdef int convert_text(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size) except -1:
    cdef uint8_t* p
    if column.json:
        reserve(out, 6 * size + 2)
        p = put_json(out.data + out.size, data, size)
        if p == NULL:
            return 0
    else:
        if not is_ascii(data, size) and not is_utf8(data, size):
            return 0
        reserve(out, size + 10)
        p = put_varint(out.data + out.size, size)
        memcpy(p, data, size)
        p += size
    out.size = p - out.data
    return 1

cdef inline int convert_boolean(
    Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) except -1:
    cdef bint value
    if size != 1 or (not binary and data[0] != c"t" and data[0] != c"f"):
        return 0
    value = data[0] != 0 if binary else data[0] == c"t"
    reserve(out, 5)
    if column.json:
        memcpy(out.data + out.size, b"true" if value else b"false", 4 if value else 5)
        out.size += 4 if value else 5
    else:
        out.data[out.size] = value
        out.size += 1
    return 1

cdef inline int convert_integer(
    Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) except -1:
    cdef int64_t value
    cdef int op = column.op
    if binary:
        if op == OP_INT64 and size == 8:
            value = <int64_t>get_u64(data)
        elif op == OP_INT32 and size == 4:
            value = <int32_t>get_u32(data)
        elif op == OP_OID and size == 4:
            value = get_u32(data)
        elif op == OP_INT16 and size == 2:
            value = <int32_t>(<uint32_t>get_u16(data) << 16) >> 16
        else:
            return 0
        return write_long(out, column, value)
    if not get_integer(data, size, &value):
        return 0
    if op == OP_INT32:
        if not -2147483648 <= value <= 2147483647:
            return 0
    elif op == OP_INT16:
        if not -32768 <= value <= 32767:
            return 0
    elif op == OP_OID:
        if not 0 <= value <= 4294967295:
            return 0
    return write_long(out, column, value)

cdef int write_double(Buffer* out, Column* column, double value, bint single) except -1:
    cdef float narrow = <float>value
    cdef uint8_t* p
    reserve(out, 32)
    p = out.data + out.size
    if column.json:
        p = put_java_float(p, narrow) if single else put_java_double(p, value)
    elif single:
        memcpy(p, &narrow, 4)
        p += 4
    else:
        memcpy(p, &value, 8)
        p += 8
    out.size = p - out.data
    return 1

cdef int convert_float(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef bint single = column.op == OP_FLOAT
    cdef uint64_t wide
    cdef uint32_t narrow
    cdef float small
    cdef double value
    if binary:
        if single and size == 4:
            narrow = get_u32(data)
            memcpy(&small, &narrow, 4)
            value = small
        elif not single and size == 8:
            wide = get_u64(data)
            memcpy(&value, &wide, 8)
        else:
            return 0
        if value != value:
            return 0
    elif not get_double(data, size, &value):
        return 0
    return write_double(out, column, value, single)

cdef int convert_uuid(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef uint8_t text[36]
    cdef uint8_t* p = text
    cdef int i
    if not binary:
        return convert_text(out, column, data, size)
    if size != 16:
        return 0
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            p[0] = c"-"
            p += 1
        p = put_hex(p, data + i, 1)
    return write_text(out, column, text, 36)

cdef int convert_date(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef int64_t days
    cdef uint8_t text[24]
    cdef uint8_t* p
    if binary:
        if size != 4:
            return 0
        days = <int32_t>get_u32(data)
        if days == 2147483647:
            days = -2147472692
        elif days == -2147483648:
            days = -2147472691
        else:
            days += POSTGRES_DAYS
    elif size == 10:
        if not get_date(data, &days):
            return 0
    else:
        return 0
    if column.op == OP_DATE:
        return write_long(out, column, days)
    p = put_day(text, days)
    p[0] = c"Z"
    return write_text(out, column, text, p + 1 - text)

cdef int convert_time(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef int64_t us
    cdef uint8_t text[24]
    if binary:
        if size != 8:
            return 0
        us = <int64_t>get_u64(data)
        if not 0 <= us <= DAY_US:
            return 0
    elif not get_clock(data, size, &us):
        return 0
    if column.op == OP_TIME_US:
        return write_long(out, column, us)
    elif column.op == OP_TIME_MS:
        return write_long(out, column, us // 1000)
    elif column.op == OP_TIME_NS:
        return write_long(out, column, us * 1000)
    return write_text(out, column, text, put_iso_time(text, us) - text)

cdef int convert_timestamp(
    Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) except -1:
    cdef Moment moment
    cdef int64_t value
    cdef int endless = 0
    cdef uint8_t text[48]
    cdef uint8_t* p
    if binary:
        if size != 8:
            return 0
        value = <int64_t>get_u64(data)
        endless = 1 if value == INFINITE else -1 if value == MINUS_INFINITE else 0
        moment = postgres_moment(value)
    elif not get_timestamp(data, size, &moment):
        endless = infinite(data, size)
        if endless == 0:
            return 0
    if endless:
        value = INFINITE_MS if endless > 0 else MINUS_INFINITE_MS
        moment.days = floor_div(value, 86400000)
        moment.us = (value - moment.days * 86400000) * 1000
        if column.op == OP_TIMESTAMP_NS:
            return write_long(out, column, INFINITE if endless > 0 else MINUS_INFINITE)
    if column.op == OP_TIMESTAMP_US:
        return write_long(out, column, moment_us(moment))
    elif column.op == OP_TIMESTAMP_MS:
        return write_long(out, column, moment.days * 86400000 + moment.us // 1000)
    elif column.op == OP_TIMESTAMP_NS:
        return write_long(out, column, moment_ns(moment))
    p = put_day(text, moment.days)
    p[0] = c"T"
    p = put_iso_time(p + 1, moment.us)
    return write_text(out, column, text, p - text)

cdef int convert_timestamptz(
    Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) except -1:
    cdef uint8_t text[64]
    cdef uint8_t* p
    cdef int64_t value
    if binary:
        if size != 8:
            return 0
        value = <int64_t>get_u64(data)
        if value == INFINITE:
            return write_text(out, column, b"infinity", 8)
        if value == MINUS_INFINITE:
            return write_text(out, column, b"-infinity", 9)
        p = put_zoned(text, postgres_moment(value), column.parameter)
    else:
        if infinite(data, size):
            return write_text(out, column, data, size)
        p = put_utc_text(text, data, size, column.parameter)
        if p == NULL:
            return 0
    return write_text(out, column, text, p - text)

cdef int convert_bytea(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef int op = column.op
    cdef Py_ssize_t raw_size = size if binary else (size - 2) // 2
    cdef Py_ssize_t text_size
    cdef const uint8_t* raw = data
    cdef uint8_t* p
    if not binary and (size < 2 or size & 1 or data[0] != c"\\" or data[1] != c"x"):
        return 0
    # The decoded bytes go to the end of what is reserved, the output in front of them.
    reserve(out, 4 * raw_size + 32)
    if not binary:
        p = out.data + out.size + 3 * raw_size + 32
        if not get_hex(p, data + 2, size - 2):
            return 0
        raw = p
    p = out.data + out.size
    if op == OP_BYTES and not column.json:
        p = put_varint(p, raw_size)
        memcpy(p, raw, raw_size)
        p += raw_size
    else:
        text_size = 2 * raw_size if op == OP_BYTES_HEX else (raw_size + 2) // 3 * 4
        if column.json:
            p[0] = c'"'
            p += 1
        else:
            p = put_varint(p, text_size)
        if op == OP_BYTES_HEX:
            p = put_hex(p, raw, raw_size)
        else:
            p = put_base64(p, raw, raw_size, BASE64_URL if op == OP_BYTES_BASE64_URL else BASE64)
        if column.json:
            p[0] = c'"'
            p += 1
    out.size = p - out.data
    return 1

cdef int convert_numeric(Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary) except -1:
    cdef Number number
    cdef int op = column.op
    if op == OP_NUMERIC_STRING or op == OP_NUMERIC_DOUBLE:
        return convert_numeric_text(out, column, data, size, binary)
    if binary:
        if not get_binary_numeric(data, size, &number):
            return 0
    elif not get_numeric(data, size, &number):
        return 0
    if op == OP_VARIABLE_DECIMAL:
        strip_zeros(&number)
        return write_variable(out, column, &number)
    # Where every digit was sent at the column's own scale, JSON's number is the very text.
    if not rescale(&number, column.parameter):
        return 0
    return write_decimal(out, column, &number)

cdef int write_variable(Buffer* out, Column* column, Number* number) except -1:
    cdef uint8_t raw[20]
    cdef int size = put_unscaled(raw, number.unscaled, number.negative)
    cdef uint8_t* p
    reserve(out, 80)
    p = out.data + out.size
    if column.json:
        memcpy(p, b'{"scale":', 9)
        p = put_unsigned(p + 9, number.scale)
        memcpy(p, b',"value":"', 10)
        p = put_base64(p + 10, raw, size, BASE64)
        memcpy(p, b'"}', 2)
        p += 2
    else:
        p = put_varint(put_varint(p, number.scale), size)
        memcpy(p, raw, size)
        p += size
    out.size = p - out.data
    return 1

cdef int write_decimal(Buffer* out, Column* column, Number* number) except -1:
    cdef uint8_t raw[20]
    cdef int size
    cdef uint8_t* p
    if column.json and column.numeric:
        return write_big_decimal(out, number)
    size = put_unscaled(raw, number.unscaled, number.negative)
    reserve(out, 40)
    p = out.data + out.size
    if column.json:
        p[0] = c'"'
        p = put_base64(p + 1, raw, size, BASE64)
        p[0] = c'"'
        p += 1
    else:
        p = put_varint(p, size)
        memcpy(p, raw, size)
        p += size
    out.size = p - out.data
    return 1

cdef int write_big_decimal(Buffer* out, Number* number) except -1:
    """BigDecimal.toString in plain notation; small numbers of a large scale go to Python."""
    cdef uint8_t digits[48]
    cdef int count = <int>(put_u128(digits, number.unscaled) - digits)
    cdef int scale = number.scale, whole
    cdef uint8_t* p
    if scale and count - 1 - scale < -6:
        return 0
    reserve(out, 100)
    p = out.data + out.size
    if number.negative and number.unscaled:
        p[0] = c"-"
        p += 1
    whole = count - scale
    if scale == 0:
        memcpy(p, digits, count)
        p += count
    elif whole > 0:
        memcpy(p, digits, whole)
        p[whole] = c"."
        memcpy(p + whole + 1, digits + whole, scale)
        p += count + 1
    else:
        memcpy(p, b"0.0000000000", 12)
        p += 2 - whole
        memcpy(p, digits, count)
        p += count
    out.size = p - out.data
    return 1

cdef int convert_numeric_text(
    Buffer* out, Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) except -1:
    """`decimal.handling.mode` string and double: by way of numeric's text."""
    cdef Number number
    cdef Py_ssize_t start = out.size
    cdef double value
    cdef int room = 12
    if binary:
        # The text is made a little behind its place and then moved in front of itself.
        reserve(out, room)
        out.size += room
        if put_numeric_text(out, data, size) == 0:
            return 0
        size = out.size - start - room
        out.size = start
        reserve(out, 2 * size + 2 * room)
        memcpy(out.data + start + size + 2 * room, out.data + start + room, size)
        data = out.data + start + size + 2 * room
    elif not get_numeric(data, size, &number):
        return 0
    if column.op == OP_NUMERIC_STRING:
        return write_text(out, column, data, size)
    if not get_double(data, size, &value):
        return 0
    return write_double(out, column, value, False)
