# Growing C buffers and the plainest things written to them. A `put_…` writes where it is told and returns the
# position behind it: whoever calls it has reserved the room.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    typedef unsigned __int128 tidegate_u128;
    typedef __int128 tidegate_i128;
    """
    ctypedef unsigned long long u128 "tidegate_u128"
    ctypedef long long i128 "tidegate_i128"

cdef enum:
    # What a quick copy may read and write behind its end.
    SLACK = 16

# There are SLACK bytes more than `capacity`.
cdef struct Buffer:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t capacity

# Constant bytes, of which sixteen can be read whatever their size: short ones are copied without a branch.
cdef struct Piece:
    uint8_t* data
    Py_ssize_t size

cdef int grow(Buffer* buffer, Py_ssize_t more) except -1:
    cdef Py_ssize_t capacity = buffer.capacity * 2
    if capacity < buffer.size + more:
        capacity = buffer.size + more
    if capacity < 1024:
        capacity = 1024
    cdef void* data = realloc(buffer.data, capacity + SLACK)
    if data == NULL:
        raise MemoryError()
    buffer.data = <uint8_t*>data
    buffer.capacity = capacity
    return 0

cdef inline int reserve(Buffer* buffer, Py_ssize_t more) except -1:
    if buffer.capacity - buffer.size < more:
        return grow(buffer, more)
    return 0

cdef inline int put(Buffer* buffer, const uint8_t* data, Py_ssize_t size) except -1:
    reserve(buffer, size)
    memcpy(buffer.data + buffer.size, data, size)
    buffer.size += size
    return 0

cdef inline uint8_t* copy_piece(uint8_t* p, const Piece* piece) noexcept nogil:
    """Needs SLACK bytes more than the piece has."""
    memcpy(p, piece.data, 16)
    if piece.size > 16:
        memcpy(p + 16, piece.data + 16, piece.size - 16)
    return p + piece.size

cdef inline uint8_t* copy_text(uint8_t* p, const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """memcpy that is quick for short texts."""
    cdef uint64_t head, tail
    cdef uint32_t small_head, small_tail
    if size > 16:
        memcpy(p, text, size)
    elif size >= 8:
        memcpy(&head, text, 8)
        memcpy(&tail, text + size - 8, 8)
        memcpy(p, &head, 8)
        memcpy(p + size - 8, &tail, 8)
    elif size >= 4:
        memcpy(&small_head, text, 4)
        memcpy(&small_tail, text + size - 4, 4)
        memcpy(p, &small_head, 4)
        memcpy(p + size - 4, &small_tail, 4)
    elif size:
        p[0] = text[0]
        p[size - 1] = text[size - 1]
        p[size >> 1] = text[size >> 1]
    return p + size

cdef inline uint8_t* copy_padded(uint8_t* p, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """memcpy in blocks of sixteen, quick for a hundred bytes or so; both sides have SLACK behind them."""
    cdef Py_ssize_t i = 0
    if size > 128:
        memcpy(p, data, size)
    else:
        while i < size:
            memcpy(p + i, data + i, 16)
            i += 16
    return p + size

cdef inline uint8_t* copy_buffer(uint8_t* p, const Buffer* buffer) noexcept nogil:
    return copy_padded(p, buffer.data, buffer.size)

cdef inline uint8_t* put_varint(uint8_t* p, int64_t value) noexcept nogil:
    """Zig-zag variable length: Avro's int and long, Kafka's varint. At most 10 bytes."""
    cdef uint64_t n = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while n > 0x7F:
        p[0] = <uint8_t>(n | 0x80)
        p += 1
        n >>= 7
    p[0] = <uint8_t>n
    return p + 1

cdef inline int varint_size(int64_t value) noexcept nogil:
    cdef uint64_t n = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while n > 0x7F:
        n >>= 7
        size += 1
    return size

cdef inline const uint8_t* get_varint(const uint8_t* p, int64_t* value) noexcept nogil:
    """Read back what put_varint wrote."""
    cdef uint64_t n = 0
    cdef int shift = 0
    while p[0] & 0x80:
        n |= <uint64_t>(p[0] & 0x7F) << shift
        shift += 7
        p += 1
    n |= <uint64_t>p[0] << shift
    value[0] = <int64_t>((n >> 1) ^ (~(n & 1) + 1))
    return p + 1

cdef uint8_t TWO_DIGITS[200]
cdef int _number
for _number in range(100):
    TWO_DIGITS[2 * _number] = 48 + _number // 10
    TWO_DIGITS[2 * _number + 1] = 48 + _number % 10

cdef inline uint8_t* put_unsigned(uint8_t* p, uint64_t value) noexcept nogil:
    """Decimal digits, at most 20."""
    cdef uint8_t digits[24]
    cdef int at = 24
    cdef uint64_t rest
    while value >= 100:
        rest = value // 100
        at -= 2
        memcpy(digits + at, TWO_DIGITS + 2 * (value - rest * 100), 2)
        value = rest
    if value >= 10:
        at -= 2
        memcpy(digits + at, TWO_DIGITS + 2 * value, 2)
    else:
        at -= 1
        digits[at] = <uint8_t>(48 + value)
    memcpy(p, digits + at, 24 - at)
    return p + (24 - at)

cdef inline uint8_t* put_signed(uint8_t* p, int64_t value) noexcept nogil:
    if value < 0:
        p[0] = c"-"
        return put_unsigned(p + 1, <uint64_t>0 - <uint64_t>value)
    return put_unsigned(p, <uint64_t>value)

cdef inline uint8_t* put_number(uint8_t* p, int64_t value, bint json) noexcept nogil:
    """A long as the format has it, at most 20 bytes."""
    return put_signed(p, value) if json else put_varint(p, value)

cdef inline uint8_t* put_padded(uint8_t* p, uint64_t value, int width) noexcept nogil:
    """Decimal digits with leading zeros."""
    cdef int i
    for i in range(width - 1, -1, -1):
        p[i] = <uint8_t>(48 + value % 10)
        value //= 10
    return p + width

cdef inline uint16_t get_u16(const uint8_t* p) noexcept nogil:
    return <uint16_t>((p[0] << 8) | p[1])

cdef inline uint32_t get_u32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]

cdef inline uint64_t get_u64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>get_u32(p) << 32) | get_u32(p + 4)

cdef inline uint8_t* put_u32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 24)
    p[1] = <uint8_t>(value >> 16)
    p[2] = <uint8_t>(value >> 8)
    p[3] = <uint8_t>value
    return p + 4

cdef inline uint8_t* put_u64(uint8_t* p, uint64_t value) noexcept nogil:
    return put_u32(put_u32(p, <uint32_t>(value >> 32)), <uint32_t>value)
