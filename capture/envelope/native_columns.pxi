# One column: the bytes Postgres sent -> the bytes of a field. `convert` returns the position behind what it wrote, or
# NULL when the value is not of the common form; then the field's Python function decides, which is the reference.
# Whoever calls has reserved ROOM and as many times the value's size as the format may take.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject

# Op of mapping.py; checked when this module is imported.
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
    # More than any value of fixed size takes, with what is copied behind its end.
    ROOM = 320
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
    # Room for all constant parts and values of fixed size, and for a byte of text: six in JSON (\u001F); in Avro
    # three, since a bytea is decoded behind its own output.
    Py_ssize_t room
    Py_ssize_t times

cdef int encode_struct(Buffer* out, const Struct* plan, const Cell* cells, Py_ssize_t size, bint copied) except -1:
    """A key, or the inside of a row; `size` is that of the message."""
    cdef Py_ssize_t i, room = plan.room + plan.times * size
    cdef const Column* column
    cdef const Cell* cell
    cdef uint8_t* p
    cdef uint8_t* start
    reserve(out, room)
    p = copy_piece(out.data + out.size, &plan.open)
    for i in range(plan.count):
        column = &plan.columns[i]
        cell = &cells[column.source]
        if cell.kind == CELL_VALUE:
            start = p
            p = copy_piece(p, &column.prefix)
            p = convert(p, column, cell.data, cell.size, copied and column.binary)
            if p == NULL:
                out.size = start - out.data
                by_reference(out, column, cell, copied and column.binary)
                reserve(out, room)
                p = out.data + out.size
        elif cell.kind == CELL_NULL:
            p = copy_piece(p, &column.null)
        else:
            p = copy_piece(p, &column.unavailable)
    p = copy_piece(p, &plan.close)
    out.size = p - out.data
    return 0

cdef int by_reference(Buffer* out, const Column* column, const Cell* cell, bint binary) except -1:
    """Let Python write the field, or say what is wrong with it."""
    encoded = reference(<object>column.plan, PyBytes_FromStringAndSize(<char*>cell.data, cell.size), binary)
    if encoded is None:
        return put(out, column.null.data, column.null.size)
    put(out, column.prefix.data, column.prefix.size)
    return put(out, <const uint8_t*>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))

cdef object reference(object plan, bytes raw, bint binary):
    if binary:
        return from_binary(plan, plan.encode)(raw)
    return plan.encode(raw)

cdef inline uint8_t* convert(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept:
    cdef int op = column.op
    if op == OP_STRING:
        return convert_text(p, column, data, size)
    elif op == OP_INT16 or op == OP_INT32 or op == OP_INT64 or op == OP_OID:
        return convert_integer(p, column, data, size, binary)
    elif op == OP_BOOLEAN:
        return convert_boolean(p, column, data, size, binary)
    elif op == OP_FLOAT or op == OP_DOUBLE:
        return convert_float(p, column, data, size, binary)
    elif op == OP_JSONB:
        if not binary:
            return convert_text(p, column, data, size)
        return convert_text(p, column, data + 1, size - 1) if size and data[0] == 1 else NULL
    elif op == OP_UUID:
        return convert_uuid(p, column, data, size, binary)
    elif op == OP_TIMESTAMPTZ:
        return convert_timestamptz(p, column, data, size, binary)
    elif op == OP_DECIMAL or op == OP_VARIABLE_DECIMAL:
        return convert_decimal(p, column, data, size, binary)
    elif op == OP_NUMERIC_DOUBLE or op == OP_NUMERIC_STRING:
        return convert_numeric_text(p, column, data, size, binary)
    elif op == OP_DATE or op == OP_DATE_ISO:
        return convert_date(p, column, data, size, binary)
    elif op == OP_TIME_MS or op == OP_TIME_US or op == OP_TIME_NS or op == OP_TIME_ISO:
        return convert_time(p, column, data, size, binary)
    elif op == OP_TIMESTAMP_MS or op == OP_TIMESTAMP_US or op == OP_TIMESTAMP_NS or op == OP_TIMESTAMP_ISO:
        return convert_timestamp(p, column, data, size, binary)
    elif op == OP_BYTES or op == OP_BYTES_BASE64 or op == OP_BYTES_BASE64_URL or op == OP_BYTES_HEX:
        return convert_bytea(p, column, data, size, binary)
    return NULL

cdef inline uint8_t* write_text(
    uint8_t* p, const Column* column, const uint8_t* text, Py_ssize_t size
) noexcept nogil:
    """ASCII without anything that JSON escapes."""
    if column.json:
        p[0] = c'"'
        p = copy_text(p + 1, text, size)
        p[0] = c'"'
        return p + 1
    return copy_text(put_varint(p, size), text, size)

cdef inline uint8_t* convert_text(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size
) noexcept nogil:
    if column.json:
        return put_json(p, data, size)
    if not is_ascii(data, size) and not is_utf8(data, size):
        return NULL
    return copy_text(put_varint(p, size), data, size)

cdef inline uint8_t* convert_boolean(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef bint value
    if size != 1 or (not binary and data[0] != c"t" and data[0] != c"f"):
        return NULL
    value = data[0] != 0 if binary else data[0] == c"t"
    if column.json:
        memcpy(p, b"true " if value else b"false", 5)
        return p + 5 - value
    p[0] = value
    return p + 1

cdef inline uint8_t* convert_integer(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef int64_t value = 0
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
            return NULL
    else:
        if not get_integer(data, size, &value):
            return NULL
        if op == OP_INT32:
            if value != <int32_t>value:
                return NULL
        elif op == OP_INT16:
            if not -32768 <= value <= 32767:
                return NULL
        elif op == OP_OID:
            if value != <int64_t><uint32_t>value:
                return NULL
    return put_number(p, value, column.json)

cdef uint8_t* write_double(uint8_t* p, const Column* column, double value, bint single) noexcept:
    cdef float narrow = <float>value
    if column.json:
        return put_java_float(p, narrow) if single else put_java_double(p, value)
    if single:
        memcpy(p, &narrow, 4)
        return p + 4
    memcpy(p, &value, 8)
    return p + 8

cdef uint8_t* convert_float(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept:
    cdef bint single = column.op == OP_FLOAT
    cdef uint64_t wide
    cdef uint32_t narrow
    cdef float small
    cdef double value = 0
    if binary:
        if single and size == 4:
            narrow = get_u32(data)
            memcpy(&small, &narrow, 4)
            value = small
        elif not single and size == 8:
            wide = get_u64(data)
            memcpy(&value, &wide, 8)
        else:
            return NULL
        if value != value:
            return NULL
    elif not get_double(data, size, &value):
        return NULL
    return write_double(p, column, value, single)

cdef inline uint8_t* convert_uuid(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef uint8_t text[36]
    cdef uint8_t* q = text
    cdef int i
    if not binary:
        return convert_text(p, column, data, size)
    if size != 16:
        return NULL
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            q[0] = c"-"
            q += 1
        q = put_hex(q, data + i, 1)
    return write_text(p, column, text, 36)

cdef inline uint8_t* convert_date(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef int64_t days = 0
    cdef uint8_t text[24]
    cdef uint8_t* q
    if binary:
        if size != 4:
            return NULL
        days = <int32_t>get_u32(data)
        if days == 2147483647:
            days = -2147472692
        elif days == -2147483648:
            days = -2147472691
        else:
            days += POSTGRES_DAYS
    elif size != 10 or not get_date(data, &days):
        return NULL
    if column.op == OP_DATE:
        return put_number(p, days, column.json)
    q = put_day(text, days)
    q[0] = c"Z"
    return write_text(p, column, text, q + 1 - text)

cdef uint8_t* convert_time(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef int64_t us = 0
    cdef uint8_t text[24]
    if binary:
        if size != 8:
            return NULL
        us = <int64_t>get_u64(data)
        if not 0 <= us <= DAY_US:
            return NULL
    elif not get_clock(data, size, &us):
        return NULL
    if column.op == OP_TIME_US:
        return put_number(p, us, column.json)
    elif column.op == OP_TIME_MS:
        return put_number(p, us // 1000, column.json)
    elif column.op == OP_TIME_NS:
        return put_number(p, us * 1000, column.json)
    return write_text(p, column, text, put_iso_time(text, us) - text)

cdef uint8_t* convert_timestamp(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef Moment moment
    cdef int64_t value
    cdef int endless = 0
    cdef uint8_t text[48]
    cdef uint8_t* q
    if binary:
        if size != 8:
            return NULL
        value = <int64_t>get_u64(data)
        endless = 1 if value == INFINITE else -1 if value == MINUS_INFINITE else 0
        moment = postgres_moment(value)
    elif not get_timestamp(data, size, &moment):
        endless = infinite(data, size)
        if endless == 0:
            return NULL
    if endless:
        value = INFINITE_MS if endless > 0 else MINUS_INFINITE_MS
        moment.days = floor_div(value, 86400000)
        moment.us = (value - moment.days * 86400000) * 1000
        if column.op == OP_TIMESTAMP_NS:
            return put_number(p, INFINITE if endless > 0 else MINUS_INFINITE, column.json)
    if column.op == OP_TIMESTAMP_US:
        return put_number(p, moment_us(moment), column.json)
    elif column.op == OP_TIMESTAMP_MS:
        return put_number(p, moment.days * 86400000 + moment.us // 1000, column.json)
    elif column.op == OP_TIMESTAMP_NS:
        return put_number(p, moment_ns(moment), column.json)
    q = put_day(text, moment.days)
    q[0] = c"T"
    q = put_iso_time(q + 1, moment.us)
    return write_text(p, column, text, q - text)

cdef inline uint8_t* convert_timestamptz(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef uint8_t text[64]
    cdef uint8_t* q
    cdef int64_t value
    if binary:
        if size != 8:
            return NULL
        value = <int64_t>get_u64(data)
        if value == INFINITE:
            return write_text(p, column, <const uint8_t*>b"infinity", 8)
        if value == MINUS_INFINITE:
            return write_text(p, column, <const uint8_t*>b"-infinity", 9)
        q = put_zoned(text, postgres_moment(value), column.parameter)
    else:
        q = put_utc_text(text, data, size, column.parameter)
        if q == NULL:
            return write_text(p, column, data, size) if infinite(data, size) else NULL
    return write_text(p, column, text, q - text)

cdef uint8_t* convert_bytea(
    uint8_t* p, const Column* column, const uint8_t* data, Py_ssize_t size, bint binary
) noexcept nogil:
    cdef int op = column.op
    cdef Py_ssize_t raw_size = size if binary else (size - 2) // 2
    cdef Py_ssize_t text_size
    cdef const uint8_t* raw = data
    cdef uint8_t* decoded = p + 3 * raw_size + 32
    if not binary:
        # The decoded bytes go behind the longest form they can take.
        if size < 2 or size & 1 or data[0] != c"\\" or data[1] != c"x" or not get_hex(decoded, data + 2, size - 2):
            return NULL
        raw = decoded
    if op == OP_BYTES and not column.json:
        p = put_varint(p, raw_size)
        memcpy(p, raw, raw_size)
        return p + raw_size
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
    return p
