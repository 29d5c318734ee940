# A relation: its plan as C structures, and the parts of the source block that outlive one event.

cdef struct Pieces:
    Piece start
    # start, before_null and after_open in one: an insert is the commonest.
    Piece insert_open
    Piece before_null
    Piece before_open
    Piece after_null
    Piece after_open
    Piece row_close
    Piece source_head
    Piece streaming
    Piece sequence_quote
    Piece ts_us
    Piece ts_ns
    Piece names
    Piece tx_id
    Piece tx_id_null
    Piece lsn
    Piece lsn_null
    Piece origin_null
    Piece origin
    Piece origin_lsn
    Piece event_ts_us
    Piece event_ts_ns
    Piece end
    Piece operation[5]

cdef class Constants:
    """Owns the memory of pieces."""

    cdef list blocks

    def __init__(self):
        self.blocks = []

    cdef Piece piece(self, bytes data):
        cdef Piece result
        block = data + bytes(SLACK)
        self.blocks.append(block)
        result.data = <uint8_t*>PyBytes_AS_STRING(block)
        result.size = PyBytes_GET_SIZE(data)
        return result

cdef class Counted(Partition):
    """A partition with its events by operation (OPERATIONS' order)."""

    cdef int64_t events[5]

cdef int load(Struct* target, object plan, object binary, Constants constants) except -1:
    """Copy a StructPlan; `binary` holds the columns that COPY brings in send format."""
    cdef Py_ssize_t i
    cdef Column* column
    target.open = constants.piece(plan.open)
    target.close = constants.piece(plan.close)
    target.count = 0
    target.times = 6 if plan.json else 3
    target.room = target.open.size + target.close.size + 2 * SLACK
    target.columns = <Column*>malloc(sizeof(Column) * (len(plan.fields) + 1))
    if target.columns == NULL:
        raise MemoryError()
    for i, field in enumerate(plan.fields):
        column = &target.columns[i]
        column.source = field.column
        column.op = field.op
        column.parameter = field.parameter
        column.json = plan.json
        column.numeric = plan.numeric
        column.binary = field.column in binary
        column.prefix = constants.piece(field.prefix)
        column.null = constants.piece(field.null)
        column.unavailable = constants.piece(field.unavailable)
        column.plan = <PyObject*>field
        target.room += column.prefix.size + column.null.size + column.unavailable.size + ROOM
        target.count = i + 1
    return 0

cdef class Relation:
    cdef object plan
    cdef Constants constants
    cdef Counted partition
    cdef str name
    cdef int width
    cdef int message_columns
    cdef int* column_map
    cdef int copied_columns
    cdef int* copied_map
    cdef Cell* old
    cdef Cell* new
    cdef bint json
    cdef bint has_key
    cdef bint tombstones
    cdef int skipped
    cdef Struct key
    cdef Struct row
    cdef Pieces layout
    cdef Piece headers
    cdef int header_count
    cdef Py_ssize_t open_room
    # What `head` to `tail` were made for: the encoder's generation, for the stream or for snapshot rows of `marker`.
    cdef uint64_t generation
    cdef uint64_t copied
    cdef object marker
    cdef Buffer head
    cdef Buffer sequence
    cdef Buffer middle
    cdef Buffer tail

    def __init__(self, plan, tuple column_map, Counted partition):
        cdef int i
        self.plan = plan
        self.constants = Constants()
        self.partition = partition
        self.name = plan.table.qualified_name
        self.width = len(plan.table.columns)
        if any(index >= self.width for index in column_map):
            raise ValueError("the column map points behind the plan's columns")
        self.message_columns = len(column_map)
        self.copied_columns = len(plan.copied)
        self.column_map = <int*>malloc(sizeof(int) * (self.message_columns + 1))
        self.copied_map = <int*>malloc(sizeof(int) * (self.copied_columns + 1))
        self.old = <Cell*>malloc(sizeof(Cell) * (self.width + 1))
        self.new = <Cell*>malloc(sizeof(Cell) * (self.width + 1))
        if self.column_map == NULL or self.copied_map == NULL or self.old == NULL or self.new == NULL:
            raise MemoryError()
        for i in range(self.message_columns):
            self.column_map[i] = column_map[i]
        for i in range(self.copied_columns):
            self.copied_map[i] = plan.copied[i]
        binary = {index for index, flag in zip(plan.copied, plan.copied_binary, strict=True) if flag}
        load(&self.row, plan.row, binary, self.constants)
        self.has_key = plan.key is not None
        if self.has_key:
            load(&self.key, plan.key, binary, self.constants)
        self.json = plan.layout.json
        self.tombstones = plan.tombstones
        for i, op in enumerate(OPERATIONS):
            self.skipped |= (op in plan.skipped) << i
            self.layout.operation[i] = self.constants.piece(plan.layout.operation[op])
        self.headers = self.constants.piece(plan.headers)
        self.header_count = plan.header_count
        self.load_layout(plan.layout)

    cdef int load_layout(self, object layout) except -1:
        self.layout.start = self.constants.piece(layout.start)
        opened = layout.start + layout.before_null + layout.after_open
        self.layout.insert_open = self.constants.piece(opened)
        self.open_room = len(opened) + len(layout.before_open) + len(layout.after_null) + 2 * SLACK
        self.layout.before_null = self.constants.piece(layout.before_null)
        self.layout.before_open = self.constants.piece(layout.before_open)
        self.layout.after_null = self.constants.piece(layout.after_null)
        self.layout.after_open = self.constants.piece(layout.after_open)
        self.layout.row_close = self.constants.piece(layout.row_close)
        self.layout.source_head = self.constants.piece(layout.source_head)
        self.layout.streaming = self.constants.piece(layout.snapshot[SnapshotMarker.NONE])
        self.layout.sequence_quote = self.constants.piece(layout.sequence_quote)
        self.layout.ts_us = self.constants.piece(layout.ts_us)
        self.layout.ts_ns = self.constants.piece(layout.ts_ns)
        self.layout.names = self.constants.piece(layout.names)
        self.layout.tx_id = self.constants.piece(layout.tx_id)
        self.layout.tx_id_null = self.constants.piece(layout.tx_id_null)
        self.layout.lsn = self.constants.piece(layout.lsn)
        self.layout.lsn_null = self.constants.piece(layout.lsn_null)
        self.layout.origin_null = self.constants.piece(layout.origin_null)
        self.layout.origin = self.constants.piece(layout.origin)
        self.layout.origin_lsn = self.constants.piece(layout.origin_lsn)
        self.layout.event_ts_us = self.constants.piece(layout.event_ts_us)
        self.layout.event_ts_ns = self.constants.piece(layout.event_ts_ns)
        self.layout.end = self.constants.piece(layout.end)
        return 0

    def __dealloc__(self):
        free(self.column_map)
        free(self.copied_map)
        free(self.old)
        free(self.new)
        free(self.key.columns)
        free(self.row.columns)
        free(self.head.data)
        free(self.sequence.data)
        free(self.middle.data)
        free(self.tail.data)

    cdef const uint8_t* split(self, const uint8_t* p, const uint8_t* end, bint old, Cell* cells) except NULL:
        """Find the columns of a tuple; `old` says that it must be a K or O tuple. Returns what is behind it."""
        cdef int i, index, count
        cdef int64_t length
        cdef uint8_t kind
        cdef Cell* cell
        cdef Cell unused
        if end - p < 3 or (p[0] != c"K" and p[0] != c"O" if old else p[0] != c"N"):
            kinds = "K or O" if old else "N"
            raise MalformedMessage(f"a change has no {kinds} tuple where one belongs")
        count = get_u16(p + 1)
        if count != self.message_columns:
            raise MalformedMessage(
                f"a tuple of {self.name} has {count} columns, its Relation message had {self.message_columns}"
            )
        p += 3
        for i in range(self.width):
            cells[i].kind = CELL_NULL
        for i in range(count):
            if p >= end:
                raise MalformedMessage("a tuple ends before its last column")
            index = self.column_map[i]
            cell = &cells[index] if index >= 0 else &unused
            kind = p[0]
            p += 1
            if kind == c"t":
                if end - p < 4:
                    raise MalformedMessage("a tuple ends inside a column's length")
                length = <int32_t>get_u32(p)
                p += 4
                if length < 0 or length > end - p:
                    raise MalformedMessage("a tuple ends before the end of a column")
                cell.kind = CELL_VALUE
                cell.size = length
                cell.data = p
                p += length
            elif kind == c"n":
                cell.kind = CELL_NULL
            elif kind == c"u":
                cell.kind = CELL_UNCHANGED
            else:
                what = "binary" if kind == c"b" else f"of unknown kind {kind}"
                raise MalformedMessage(f"a tuple has a column {what}; the stream is asked for text")
        return p

    cdef int split_copy(self, const uint8_t* p, Py_ssize_t size) except -1:
        """Find the fields of a row of COPY BINARY."""
        cdef const uint8_t* end = p + size
        cdef int i
        cdef int64_t length
        cdef Cell* cell
        if size < 2 or get_u16(p) != self.copied_columns:
            raise MalformedMessage(f"a row of COPY has not the {self.copied_columns} fields it was asked for")
        p += 2
        for i in range(self.width):
            self.new[i].kind = CELL_NULL
        for i in range(self.copied_columns):
            if end - p < 4:
                raise MalformedMessage("a row of COPY ends before its last field")
            length = <int32_t>get_u32(p)
            p += 4
            if length == -1:
                continue
            if length < 0 or length > end - p:
                raise MalformedMessage("a field of COPY runs past the end of its row")
            cell = &self.new[self.copied_map[i]]
            cell.kind = CELL_VALUE
            cell.size = length
            cell.data = p
            p += length
        if p != end:
            raise MalformedMessage("bytes follow the last field of a row of COPY")
        return 0

    cdef bytes key_text(self, const Cell* cells):
        """The text of the key for a header."""
        cdef const Cell* cell
        texts = []
        for field in self.plan.key.fields:
            cell = &cells[<int>field.column]
            texts.append(
                PyBytes_FromStringAndSize(<char*>cell.data, cell.size) if cell.kind == CELL_VALUE else None
            )
        return self.plan.key_header(texts)

    cdef int put_head(self, object marker, int64_t us, bint has_last, uint64_t last) except -1:
        """`source` up to `sequence`, and the start of the sequence itself; `marker` None is the stream."""
        cdef Buffer* head = &self.head
        cdef Buffer* sequence = &self.sequence
        cdef const Piece* quote = &self.layout.sequence_quote
        cdef uint8_t* p
        head.size = 0
        reserve(head, self.layout.source_head.size + self.layout.streaming.size + 96)
        p = put_number(copy_piece(head.data, &self.layout.source_head), floor_div(us, 1000), self.json)
        if marker is None:
            p = copy_piece(p, &self.layout.streaming)
        else:
            snapshot = self.plan.layout.snapshot[marker]
            memcpy(p, PyBytes_AS_STRING(snapshot), PyBytes_GET_SIZE(snapshot))
            p += PyBytes_GET_SIZE(snapshot)
        head.size = p - head.data
        sequence.size = 0
        reserve(sequence, 96)
        p = sequence.data
        p[0] = c"["
        p += 1
        if has_last:
            p = copy_piece(put_unsigned(copy_piece(p, quote), last), quote)
        else:
            memcpy(p, b"null", 4)
            p += 4
        p[0] = c","
        p = copy_piece(p + 1, quote)
        sequence.size = p - sequence.data
        return 0

    cdef inline Py_ssize_t source_room(self) noexcept:
        """What the value takes behind its rows."""
        return self.head.size + self.sequence.size + self.middle.size + self.tail.size + self.layout.end.size + 512

    cdef inline uint8_t* put_sequence(self, uint8_t* p, uint64_t lsn) noexcept:
        """The head and the whole sequence with this LSN; needs both sizes and 64 bytes."""
        cdef uint8_t digits[24]
        cdef Py_ssize_t count = put_unsigned(digits, lsn) - digits
        cdef const Piece* quote = &self.layout.sequence_quote
        p = copy_buffer(p, &self.head)
        if self.json:
            p[0] = c'"'
            p += 1
        else:
            p = put_varint(p, self.sequence.size + count + quote.size + 1)
        p = copy_buffer(p, &self.sequence)
        p = copy_piece(copy_text(p, digits, count), quote)
        p[0] = c"]"
        p[1] = c'"'
        return p + 1 + self.json

    cdef int put_middle(self, int64_t us, bint has_tx, int64_t tx_id, bint has_lsn) except -1:
        """`source` from `ts_us` to the label of `lsn`."""
        cdef Buffer* middle = &self.middle
        cdef Pieces* layout = &self.layout
        cdef uint8_t* p
        middle.size = 0
        reserve(middle, layout.names.size + 256)
        p = put_number(copy_piece(middle.data, &layout.ts_us), us, self.json)
        p = put_number(copy_piece(p, &layout.ts_ns), <int64_t>(<uint64_t>us * 1000), self.json)
        p = copy_piece(p, &layout.names)
        p = put_number(copy_piece(p, &layout.tx_id), tx_id, self.json) if has_tx else copy_piece(p, &layout.tx_id_null)
        p = copy_piece(p, &layout.lsn if has_lsn else &layout.lsn_null)
        middle.size = p - middle.data
        return 0

    cdef int put_origin(self, object origin) except -1:
        """The rest of `source` behind `lsn`."""
        cdef Buffer* tail = &self.tail
        cdef int64_t origin_lsn
        cdef uint8_t* p
        tail.size = 0
        if origin is None:
            return put(tail, self.layout.origin_null.data, self.layout.origin_null.size)
        name, origin_lsn = origin
        text = json_string(name).encode() if self.json else avro_bytes(name.encode())
        put(tail, self.layout.origin.data, self.layout.origin.size)
        put(tail, <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        put(tail, self.layout.origin_lsn.data, self.layout.origin_lsn.size)
        reserve(tail, 24)
        p = put_number(tail.data + tail.size, origin_lsn, self.json)
        p[0] = c"}"
        tail.size = p + self.json - tail.data
        return 0
