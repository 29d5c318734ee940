# Records waiting to become record batches; cut at the same places as in batches.py. A chunk writes its records
# straight into the bytearray that becomes the batch, behind room for the header.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ

from cpython.list cimport PyList_GET_ITEM

cdef extern from "Python.h":
    ctypedef struct PyByteArrayObject:
        Py_ssize_t ob_alloc
    Py_ssize_t Py_REFCNT(PyObject* thing)

cdef enum:
    SPARE_BATCHES = 16
    SMALLEST_SPARE = 65536
    LARGEST_SPARE = 4194304
    BATCH_HEADER = 61
    CRC_START = 21
    CRC_AT = 17

# Batches are handed out as bytearrays and used again once nobody else holds them: fresh memory costs more page
# faults than the encoding of its rows.
cdef class Pool:
    cdef list spare

    def __init__(self):
        self.spare = []

    cdef object take(self, Py_ssize_t capacity):
        """A bytearray of at least that capacity."""
        cdef Py_ssize_t i
        cdef PyObject* found
        for i in range(len(self.spare)):
            found = PyList_GET_ITEM(self.spare, i)
            if Py_REFCNT(found) == 1 and (<PyByteArrayObject*>found).ob_alloc > capacity:
                data = self.spare.pop(i)
                PyByteArray_Resize(data, (<PyByteArrayObject*>found).ob_alloc - 1)
                return data
        return PyByteArray_FromStringAndSize(NULL, capacity)

    cdef int give(self, object data) except -1:
        """A batch is handed out: keep an eye on it, unless it is of a few records or of a giant one."""
        if not SMALLEST_SPARE < (<PyByteArrayObject*><PyObject*>data).ob_alloc < LARGEST_SPARE:
            return 0
        self.spare.append(data)
        if len(self.spare) > SPARE_BATCHES:
            del self.spare[0]
        return 0

cdef class Chunk:
    cdef object data
    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int64_t base_timestamp
    cdef int64_t newest
    cdef int64_t count
    # What the complete transactions reach: bytes, records, newest timestamp.
    cdef Py_ssize_t committed_size
    cdef int64_t committed_count
    cdef int64_t committed_newest
    # Bytes of the last record.
    cdef Py_ssize_t added

    def __cinit__(self):
        self.size = BATCH_HEADER
        self.committed_size = BATCH_HEADER

    cdef int open(self, Pool pool, Py_ssize_t capacity, int64_t timestamp) except -1:
        self.data = pool.take(capacity)
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.data)
        self.capacity = PyByteArray_GET_SIZE(self.data)
        self.base_timestamp = timestamp
        self.newest = timestamp
        return 0

    cdef uint8_t* begin(self, int64_t timestamp, Py_ssize_t tail) except NULL:
        """Write a record's head for a tail of that size; returns where the tail belongs."""
        cdef int64_t delta = timestamp - self.base_timestamp
        cdef Py_ssize_t body = 1 + varint_size(delta) + varint_size(self.count) + tail
        cdef Py_ssize_t capacity
        cdef uint8_t* p
        if self.capacity - self.size < body + 10:
            capacity = self.capacity * 2 if self.capacity * 2 > self.size + body + 10 else self.size + body + 10
            PyByteArray_Resize(self.data, capacity)
            self.start = <uint8_t*>PyByteArray_AS_STRING(self.data)
            self.capacity = capacity
        p = put_varint(self.start + self.size, body)
        p[0] = 0
        p = put_varint(put_varint(p + 1, delta), self.count)
        self.added = p + tail - self.start - self.size
        self.size += self.added
        self.count += 1
        if timestamp > self.newest:
            self.newest = timestamp
        return p

    cdef inline void commit(self) noexcept:
        self.committed_size = self.size
        self.committed_count = self.count
        self.committed_newest = self.newest

    cdef inline Py_ssize_t payload(self) noexcept:
        return self.size - BATCH_HEADER

    cdef Chunk rest(self, Pool pool, Py_ssize_t capacity):
        """The records behind the committed ones as a chunk of their own, with offsets and times from its start."""
        cdef Chunk chunk = Chunk()
        cdef const uint8_t* p = self.start + self.committed_size
        cdef const uint8_t* end = self.start + self.size
        cdef const uint8_t* after
        cdef int64_t length = 0, delta = 0, offset = 0
        cdef Py_ssize_t tail
        while p < end:
            p = get_varint(p, &length)
            after = p + length
            p = get_varint(get_varint(p + 1, &delta), &offset)
            if chunk.data is None:
                chunk.open(pool, capacity, self.base_timestamp + delta)
            tail = after - p
            memcpy(chunk.begin(self.base_timestamp + delta, tail), p, tail)
            p = after
        return chunk

    cdef int cut(self) except -1:
        """Keep the committed records only."""
        self.size = self.committed_size
        self.count = self.committed_count
        self.newest = self.committed_newest
        return 0

    cdef object finish(self, Pool pool, object codec, object level):
        """The finished batch; the chunk is spent."""
        cdef uint8_t* p = self.start
        data = self.data
        self.data = None
        if codec:
            payload = PyMemoryView_FromMemory(<char*>p + BATCH_HEADER, self.payload(), PyBUF_READ)
            batch = finish_batch(
                payload,
                record_count=self.count,
                base_timestamp=self.base_timestamp,
                max_timestamp=self.newest,
                codec=codec,
                level=level,
            )
            payload.release()
            pool.give(data)
            return batch
        p = put_u64(p, 0)
        p = put_u32(p, <uint32_t>(self.size - 12))
        p = put_u32(p, 0)
        p[0] = 2
        p = self.start + CRC_START
        p[0] = 0
        p[1] = 0
        p = put_u32(p + 2, <uint32_t>(self.count - 1))
        p = put_u64(put_u64(p, self.base_timestamp), self.newest)
        p = put_u64(p, <uint64_t>-1)
        p[0] = 0xFF
        p[1] = 0xFF
        put_u32(put_u32(p + 2, 0xFFFFFFFF), <uint32_t>self.count)
        covered = PyMemoryView_FromMemory(<char*>self.start + CRC_START, self.size - CRC_START, PyBUF_READ)
        put_u32(self.start + CRC_AT, <uint32_t>crc32c(covered))
        PyByteArray_Resize(data, self.size)
        pool.give(data)
        return data

cdef class Partition:
    """The chunks of one partition, oldest first."""

    cdef readonly str topic
    cdef readonly int partition
    cdef Py_ssize_t batch_bytes
    cdef Pool pool
    cdef list chunks
    cdef Chunk last
    cdef bint open

    def __init__(self, str topic, int partition, Py_ssize_t batch_bytes, Pool pool):
        self.pool = pool
        self.topic = topic
        self.partition = partition
        self.batch_bytes = batch_bytes
        self.chunks = []

    cdef Py_ssize_t room(self) noexcept:
        """Of a new chunk: it starts small, so that a change in each of a thousand topics stays small."""
        return 65536 if self.batch_bytes > 65536 else self.batch_bytes + 1024

    cdef uint8_t* append(self, int64_t timestamp, Py_ssize_t tail) except NULL:
        if self.last is None or self.last.payload() >= self.batch_bytes:
            self.last = Chunk()
            self.last.open(self.pool, self.room(), timestamp)
            self.chunks.append(self.last)
        return self.last.begin(timestamp, tail)

    cdef int commit(self) except -1:
        cdef Py_ssize_t i = len(self.chunks)
        cdef Chunk chunk
        while i:
            i -= 1
            chunk = <Chunk>PyList_GET_ITEM(self.chunks, i)
            if chunk.committed_count == chunk.count:
                break
            chunk.commit()
        self.open = False
        return 0

    cdef Py_ssize_t pending(self):
        cdef Py_ssize_t total = 0
        cdef Chunk chunk
        for chunk in self.chunks:
            total += chunk.payload()
        return total

    cdef int discard_open(self) except -1:
        cdef Chunk chunk
        kept = []
        for chunk in self.chunks:
            if chunk.committed_count:
                chunk.cut()
                kept.append(chunk)
        self.chunks = kept
        self.last = kept[len(kept) - 1] if kept else None
        self.open = False
        return 0

    cdef list take(self, bint include_open):
        """Remove the chunks that may be written: (chunk, committed)."""
        cdef Chunk chunk, rest
        taken = []
        kept = []
        for chunk in self.chunks:
            if chunk.committed_count == chunk.count:
                taken.append((chunk, True))
                continue
            rest = chunk
            if chunk.committed_count:
                rest = chunk.rest(self.pool, self.room())
                chunk.cut()
                taken.append((chunk, True))
            if include_open:
                taken.append((rest, False))
            else:
                kept.append(rest)
        self.chunks = kept
        self.last = kept[len(kept) - 1] if kept else None
        return taken
