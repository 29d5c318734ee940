# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled encoder: one plan per relation, run straight from the bytes of the stream to those of a batch.

Its output is that of generated.py, byte for byte, and whatever is not common it leaves to the functions used there.
The parts are in the native_*.pxi files: buffers, text, times, numbers, columns, chunks, relations, records.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

cdef extern from "Python.h":
    int PyList_SetSlice(object items, Py_ssize_t low, Py_ssize_t high, PyObject* values) except -1
    const Py_ssize_t PY_SSIZE_T_MAX

from capture.envelope.batches import Output
from capture.envelope.errors import MalformedMessage
from capture.envelope.java_text import java_float, json_string
from capture.envelope.layout import OPERATIONS, SnapshotMarker
from capture.envelope.mapping import Op
from capture.envelope.message_value import SourcePosition
from capture.envelope.plan import NEW_KEY, OLD_KEY, Plan, encode_header
from capture.envelope.row_code import from_binary
from capture.envelope.value_writer import avro_bytes
from crc32c import crc32c
from protocol.records import Codec
from protocol.records import finish as finish_batch

include "native_buffer.pxi"
include "native_text.pxi"
include "native_temporal.pxi"
include "native_numeric.pxi"
include "native_columns.pxi"
include "native_numeric_columns.pxi"
include "native_chunks.pxi"
include "native_relation.pxi"
include "native_records.pxi"

assert [Op(number).name for number in range(30)] == [
    "PYTHON", "BOOLEAN", "INT16", "INT32", "INT64", "OID", "FLOAT", "DOUBLE", "STRING", "JSONB", "UUID", "BYTES",
    "BYTES_BASE64", "BYTES_BASE64_URL", "BYTES_HEX", "DECIMAL", "VARIABLE_DECIMAL", "NUMERIC_DOUBLE",
    "NUMERIC_STRING", "DATE", "DATE_ISO", "TIME_MS", "TIME_US", "TIME_NS", "TIME_ISO", "TIMESTAMP_MS",
    "TIMESTAMP_US", "TIMESTAMP_NS", "TIMESTAMP_ISO", "TIMESTAMPTZ",
], "the operations of mapping.py and native_columns.pxi differ"

cdef enum:
    FED = 0
    COMMITTED = 1
    NEEDS_PYTHON = 2
    XLOG_HEADER = 25
    CACHED_RELATIONS = 64

cdef object INCREMENTAL = SnapshotMarker.INCREMENTAL

cdef class CompiledEncoder(RecordWriter):
    """See `capture.envelope.Encoder`."""

    cdef public uint64_t resume_lsn
    cdef readonly bint in_transaction
    cdef readonly uint64_t commit_end_lsn
    cdef dict relations
    cdef dict hidden
    cdef set hidden_now
    cdef bint skipping
    cdef uint64_t snapshot_lsn
    cdef int64_t snapshot_txid
    cdef int64_t snapshot_us
    cdef object message_plan
    cdef uint32_t cached_oid[CACHED_RELATIONS]
    cdef PyObject* cached[CACHED_RELATIONS]

    compiled = True

    def __init__(self, options):
        super().__init__(options)
        self.relations = {}
        self.hidden = {}
        self.hidden_now = set()

    # --- relations ---

    cdef void forget_cached(self) noexcept:
        cdef int i
        for i in range(CACHED_RELATIONS):
            self.cached[i] = NULL

    def set_relation(self, relation_oid, plan, column_map):
        relation = Relation(plan, tuple(column_map), self.partition(plan.topic, plan.partition))
        self.relations[relation_oid] = relation
        self.forget_cached()

    def ignore_relation(self, relation_oid):
        self.relations[relation_oid] = None
        self.forget_cached()

    def drop_relation(self, relation_oid):
        self.relations.pop(relation_oid, None)
        self.forget_cached()

    def hide(self, relation_oid, visible):
        self.hidden[relation_oid] = visible

    def unhide(self, relation_oid):
        self.hidden.pop(relation_oid, None)

    def set_message_plan(self, plan):
        self.message_plan = plan

    # --- stream ---

    def feed(self, data, int64_t now_ns):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self.message(<const uint8_t*>view.buf, view.len, now_ns)
        finally:
            PyBuffer_Release(&view)

    cdef int message(self, const uint8_t* p, Py_ssize_t size, int64_t now_ns) except -1:
        cdef uint64_t lsn
        cdef uint8_t tag
        if size <= XLOG_HEADER or p[0] != c"w":
            raise MalformedMessage("an XLogData message is shorter than its header")
        tag = p[XLOG_HEADER]
        lsn = get_u64(p + 1)
        if tag == c"I" or tag == c"U" or tag == c"D":
            return self.change(tag, p, size, lsn, now_ns)
        elif tag == c"B":
            return self.begin(p, size)
        elif tag == c"C":
            return self.commit(p, size)
        elif tag == c"T":
            return self.truncate(p, size, lsn, now_ns)
        elif tag == c"O":
            return self.set_origin(p, size)
        return NEEDS_PYTHON

    cdef int begin(self, const uint8_t* p, Py_ssize_t size) except -1:
        if size != XLOG_HEADER + 21:
            raise MalformedMessage(f"a Begin message has {size - XLOG_HEADER} bytes instead of 21")
        if self.in_transaction:
            raise MalformedMessage("a transaction begins inside another")
        p += XLOG_HEADER + 1
        self.xid = get_u32(p + 16)
        self.commit_us = <int64_t>(get_u64(p + 8) + <uint64_t>POSTGRES_US)
        self.origin = None
        if self.hidden_now:
            self.hidden_now.clear()
        if self.hidden:
            for oid, visible in self.hidden.items():
                if visible(self.xid):
                    self.hidden_now.add(oid)
        self.skipping = get_u64(p) < self.resume_lsn
        self.in_transaction = True
        self.generation += 1
        return FED

    cdef int commit(self, const uint8_t* p, Py_ssize_t size) except -1:
        cdef Partition partition
        if size != XLOG_HEADER + 26:
            raise MalformedMessage(f"a Commit message has {size - XLOG_HEADER} bytes instead of 26")
        if not self.in_transaction:
            raise MalformedMessage("a Commit came outside a transaction")
        self.in_transaction = False
        if self.skipping:
            self.skipping = False
            return FED
        self.last = get_u64(p + XLOG_HEADER + 10)
        self.has_last = True
        self.commit_end_lsn = self.last
        self.generation += 1
        if self.open_partitions:
            for partition in self.open_partitions:
                partition.commit()
            PyList_SetSlice(self.open_partitions, 0, PY_SSIZE_T_MAX, NULL)
        return COMMITTED

    cdef int set_origin(self, const uint8_t* p, Py_ssize_t size) except -1:
        cdef Py_ssize_t i
        if not self.in_transaction:
            raise MalformedMessage("an Origin message came outside a transaction")
        for i in range(XLOG_HEADER + 9, size):
            if p[i] == 0:
                break
        else:
            i = size
        if size < XLOG_HEADER + 10 or i != size - 1:
            raise MalformedMessage("an Origin message is not a position and a name")
        name = PyBytes_FromStringAndSize(<char*>p + XLOG_HEADER + 9, i - XLOG_HEADER - 9)
        self.origin = name.decode("utf-8", "replace"), <int64_t>get_u64(p + XLOG_HEADER + 1)
        self.generation += 1
        return FED

    cdef inline PyObject* find(self, uint32_t oid) except? NULL:
        """The relation or None, borrowed; NULL if it is unknown."""
        cdef int slot = oid % CACHED_RELATIONS
        cdef PyObject* found
        if self.cached[slot] != NULL and self.cached_oid[slot] == oid:
            return self.cached[slot]
        key = oid
        found = PyDict_GetItem(self.relations, key)
        self.cached[slot] = found
        self.cached_oid[slot] = oid
        return found

    cdef int change(self, uint8_t tag, const uint8_t* p, Py_ssize_t size, uint64_t lsn, int64_t now_ns) except -1:
        cdef const uint8_t* end = p + size
        cdef PyObject* found
        cdef Relation relation
        cdef uint32_t oid
        cdef Cell* old = NULL
        cdef Message message = Message(size, lsn, now_ns)
        if not self.in_transaction:
            raise MalformedMessage("a change came outside a transaction")
        if size < XLOG_HEADER + 6:
            raise MalformedMessage("a change is shorter than its header")
        oid = get_u32(p + XLOG_HEADER + 1)
        if self.skipping or (self.hidden_now and oid in self.hidden_now):
            return FED
        found = self.find(oid)
        if found == NULL:
            return NEEDS_PYTHON
        if <object>found is None:
            return FED
        relation = <Relation>found
        p += XLOG_HEADER + 5
        if tag == c"I":
            p = relation.split(p, end, False, relation.new)
        elif tag == c"D":
            old = relation.old
            p = relation.split(p, end, True, old)
        else:
            if p[0] != c"N":
                old = relation.old
                p = relation.split(p, end, True, old)
            p = relation.split(p, end, False, relation.new)
        if p != end:
            raise MalformedMessage("bytes follow the last tuple of a change")
        if tag == c"I":
            self.event(relation, CREATE, NULL, relation.new, message, 0)
            self.append(relation, CREATE, 0, None, now_ns)
        elif tag == c"D":
            self.event(relation, DELETE, old, NULL, message, 0)
            self.append(relation, DELETE, 0, None, now_ns)
        else:
            self.update(relation, old, message)
        return FED

    cdef int update(self, Relation relation, Cell* old, Message message) except -1:
        cdef int i
        cdef int64_t now_ns = message.now_ns
        if old != NULL:
            for i in range(relation.width):
                if relation.new[i].kind == CELL_UNCHANGED and old[i].kind == CELL_VALUE:
                    relation.new[i] = old[i]
            if relation.has_key and self.key_changed(relation, old, message.size):
                self.event(relation, DELETE, old, NULL, message, 0)
                self.event(relation, CREATE, NULL, relation.new, message, 1)
                new_text = encode_header(NEW_KEY, relation.key_text(relation.new))
                old_text = encode_header(OLD_KEY, relation.key_text(old))
                self.append(relation, DELETE, 0, new_text, now_ns)
                return self.append(relation, CREATE, 1, old_text, now_ns)
        self.event(relation, UPDATE, old, relation.new, message, 0)
        return self.append(relation, UPDATE, 0, None, now_ns)

    cdef bint key_changed(self, Relation relation, const Cell* old, Py_ssize_t size) except -1:
        self.keys[0].size = 0
        self.keys[1].size = 0
        encode_struct(&self.keys[0], &relation.key, old, size, False)
        encode_struct(&self.keys[1], &relation.key, relation.new, size, False)
        return (
            self.keys[0].size != self.keys[1].size
            or memcmp(self.keys[0].data, self.keys[1].data, self.keys[0].size) != 0
        )

    cdef int truncate(self, const uint8_t* p, Py_ssize_t size, uint64_t lsn, int64_t now_ns) except -1:
        cdef PyObject* found
        cdef Relation relation
        cdef Py_ssize_t start = XLOG_HEADER + 6, i
        if not self.in_transaction:
            raise MalformedMessage("a Truncate came outside a transaction")
        if size < start or size != start + 4 * <Py_ssize_t>get_u32(p + XLOG_HEADER + 1):
            raise MalformedMessage("a Truncate message contradicts its count of relations")
        for i in range(start, size, 4):
            if self.find(get_u32(p + i)) == NULL:
                return NEEDS_PYTHON
        for i in range(start, size, 4):
            found = self.find(get_u32(p + i))
            if self.skipping or <object>found is None or get_u32(p + i) in self.hidden_now:
                continue
            relation = <Relation>found
            self.event(relation, TRUNCATE, NULL, NULL, Message(size, lsn, now_ns), 0)
            self.append(relation, TRUNCATE, 0, None, now_ns)
        return FED

    # --- messages and snapshot ---

    def emit_message(self, str prefix, bytes content, uint64_t lsn, bint transactional, int64_t now_ns):
        cdef Counted partition
        cdef Py_ssize_t tail
        cdef uint8_t* p
        plan = self.message_plan
        if plan is None:
            raise ValueError("emit_message needs set_message_plan first")
        if transactional:
            if not self.in_transaction:
                raise MalformedMessage("a transactional message came outside a transaction")
            if self.skipping:
                return False
        elif lsn <= self.resume_lsn:
            return False
        else:
            self.last_commit_lsn = lsn
        first = f'"{self.last}"' if self.has_last else "null"
        named = self.origin if transactional else None
        position = SourcePosition(
            ts_us=self.commit_us if transactional else floor_div(now_ns, 1000),
            sequence=f'[{first},"{lsn}"]',
            tx_id=self.xid if transactional else None,
            lsn=lsn,
            origin=None if named is None else named[0],
            origin_lsn=None if named is None else named[1],
        )
        key, value = plan.record(prefix, content, position, floor_div(now_ns, 1000000))
        record = avro_bytes(key) + avro_bytes(value) + b"\x00"
        partition = self.partition(plan.topic, 0)
        tail = PyBytes_GET_SIZE(record)
        p = partition.append(floor_div(now_ns, 1000000), tail)
        memcpy(p, PyBytes_AS_STRING(record), tail)
        self.count_pending()
        topic_op = plan.topic, "m"
        self.message_counts[topic_op] = self.message_counts.get(topic_op, 0) + 1
        if transactional or self.in_transaction:
            if not partition.open:
                partition.open = True
                self.open_partitions.append(partition)
            return False
        partition.commit()
        self.commit_end_lsn = lsn
        return True

    def set_snapshot(self, uint64_t lsn, int64_t txid, int64_t ts_us):
        self.snapshot_lsn = lsn
        self.snapshot_txid = txid
        self.snapshot_us = ts_us
        self.generation += 1

    def feed_copy(self, relation, row, marker, int64_t now_ns):
        cdef Py_buffer view
        cdef Relation target
        if isinstance(relation, Plan):
            oid = -id(relation)
            if oid not in self.relations:
                self.set_relation(oid, relation, ())
        else:
            oid = relation
        found = self.relations.get(oid)
        if found is None:
            raise ValueError(f"relation {relation} has no plan")
        target = found
        PyObject_GetBuffer(row, &view, PyBUF_SIMPLE)
        try:
            target.split_copy(<const uint8_t*>view.buf, view.len)
            self.snapshot_row(target, marker, view.len, now_ns)
        finally:
            PyBuffer_Release(&view)

    cdef int snapshot_row(self, Relation relation, object marker, Py_ssize_t size, int64_t now_ns) except -1:
        cdef Buffer* value = &self.values[0]
        cdef Pieces* layout = &relation.layout
        cdef Counted partition = relation.partition
        cdef bint incremental = marker is INCREMENTAL
        cdef uint8_t* p
        reserve(value, relation.open_room)
        value.size = copy_piece(value.data, &layout.insert_open) - value.data
        encode_struct(value, &relation.row, relation.new, size, True)
        if relation.copied != self.generation or relation.marker is not marker:
            # The stream's own parts are overwritten; its next change rebuilds them.
            relation.generation = 0
            relation.copied = self.generation
            relation.marker = marker
            relation.put_head(marker, self.snapshot_us, self.has_last, self.last)
            relation.put_middle(self.snapshot_us, not incremental, self.snapshot_txid, not incremental)
        reserve(value, relation.source_room())
        p = copy_piece(value.data + value.size, &layout.row_close)
        p = relation.put_sequence(p, self.snapshot_lsn)
        p = copy_buffer(p, &relation.middle)
        if not incremental:
            p = put_number(p, <int64_t>self.snapshot_lsn, relation.json)
        p = copy_piece(p, &layout.origin_null)
        value.size = self.put_clock(p, relation, READ, now_ns) - value.data
        self.keys[0].size = 0
        if relation.has_key:
            encode_struct(&self.keys[0], &relation.key, relation.new, size, True)
        self.record(partition, relation.has_key, &self.keys[0], value, relation, None, now_ns)
        if not partition.open:
            partition.last.commit()
        partition.events[READ] += 1
        return 0

    def discard_open(self):
        cdef Partition partition
        for partition in self.open_partitions:
            partition.discard_open()
        self.open_partitions.clear()
        self.count_pending()
        self.in_transaction = False
        self.skipping = False
        self.origin = None
        self.generation += 1
