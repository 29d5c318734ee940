# What both stream and snapshot write: events into the partitions' chunks, and finished batches out of them.

cdef enum:
    # The places of OPERATIONS.
    CREATE = 0
    READ = 1
    UPDATE = 2
    DELETE = 3
    TRUNCATE = 4
    LARGEST_SCRATCH = 4194304

cdef struct Clock:
    int64_t now_ns
    Py_ssize_t size
    uint8_t data[128]

# Of a message: its size, its position, and the connector's clock when it came.
cdef struct Message:
    Py_ssize_t size
    uint64_t lsn
    int64_t now_ns

cdef class RecordWriter:
    cdef public object options
    cdef readonly Py_ssize_t pending_bytes
    cdef object codec
    cdef dict partitions
    cdef list open_partitions
    cdef Pool pool
    cdef dict message_counts
    # `source` of the transaction.
    cdef bint has_last
    cdef uint64_t last
    cdef uint32_t xid
    cdef int64_t commit_us
    cdef object origin
    # What the relations' parts of the source block were made for; counts up with all that they hold.
    cdef uint64_t generation
    cdef Clock clocks[2]
    cdef Buffer keys[2]
    cdef Buffer values[2]

    def __init__(self, options):
        self.options = options
        self.codec = Codec.parse(options.compression)
        self.partitions = {}
        self.open_partitions = []
        self.pool = Pool()
        self.message_counts = {}
        self.generation = 1

    def __dealloc__(self):
        cdef int i
        for i in range(2):
            free(self.keys[i].data)
            free(self.values[i].data)

    @property
    def last_commit_lsn(self):
        return self.last if self.has_last else None

    @last_commit_lsn.setter
    def last_commit_lsn(self, value):
        self.has_last = value is not None
        self.last = value or 0
        self.generation += 1

    @property
    def counters(self):
        cdef Relation relation
        totals = dict(self.message_counts)
        for partition in self.partitions.values():
            for index, op in enumerate(OPERATIONS):
                if (<Counted>partition).events[index]:
                    totals[partition.topic, op] = (<Counted>partition).events[index]
        return totals

    cdef Counted partition(self, str topic, int number):
        key = topic, number
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = Counted(topic, number, self.options.batch_bytes, self.pool)
        return partition

    # --- records ---

    cdef int event(
        self, Relation relation, int op, const Cell* old, const Cell* new, Message message, int slot
    ) except -1:
        """Write an event's key and value into `keys[slot]` and `values[slot]`."""
        cdef Buffer* value = &self.values[slot]
        cdef Pieces* layout = &relation.layout
        cdef uint8_t* p
        if relation.skipped >> op & 1:
            return 0
        reserve(value, relation.open_room)
        if old == NULL and new != NULL:
            value.size = copy_piece(value.data, &layout.insert_open) - value.data
            encode_struct(value, &relation.row, new, message.size, False)
        else:
            value.size = copy_piece(value.data, &layout.start) - value.data
            self.put_row(value, relation, old, &layout.before_null, &layout.before_open, message.size)
            self.put_row(value, relation, new, &layout.after_null, &layout.after_open, message.size)
        if relation.generation != self.generation:
            relation.put_head(None, self.commit_us, self.has_last, self.last)
            relation.put_middle(self.commit_us, True, self.xid, True)
            relation.put_origin(self.origin)
            relation.generation = self.generation
            relation.copied = 0
        reserve(value, relation.source_room())
        p = value.data + value.size
        if old == NULL and new != NULL:
            p = copy_piece(p, &layout.row_close)
        p = relation.put_sequence(p, message.lsn)
        p = put_number(copy_buffer(p, &relation.middle), <int64_t>message.lsn, relation.json)
        p = copy_buffer(p, &relation.tail)
        value.size = self.put_clock(p, relation, op, message.now_ns) - value.data
        self.keys[slot].size = 0
        if relation.has_key and op != TRUNCATE:
            encode_struct(&self.keys[slot], &relation.key, new if new != NULL else old, message.size, False)
        return 0

    cdef inline int put_row(
        self,
        Buffer* value,
        Relation relation,
        const Cell* cells,
        const Piece* null,
        const Piece* open,
        Py_ssize_t size,
    ) except -1:
        """`before` or `after`."""
        if cells == NULL:
            return put(value, null.data, null.size)
        put(value, open.data, open.size)
        encode_struct(value, &relation.row, cells, size, False)
        return put(value, relation.layout.row_close.data, relation.layout.row_close.size)

    cdef inline uint8_t* put_clock(self, uint8_t* p, Relation relation, int op, int64_t now_ns) noexcept:
        """From `transaction` to the end; the numbers are kept, since many events share one reading."""
        cdef Pieces* layout = &relation.layout
        cdef Clock* clock = &self.clocks[relation.json]
        cdef uint8_t* q
        if clock.now_ns != now_ns or clock.size == 0:
            q = put_number(clock.data, floor_div(now_ns, 1000000), relation.json)
            q = copy_piece(q, &layout.event_ts_us)
            q = put_number(q, floor_div(now_ns, 1000), relation.json)
            q = copy_piece(q, &layout.event_ts_ns)
            clock.size = put_number(q, now_ns, relation.json) - clock.data
            clock.now_ns = now_ns
        p = copy_piece(p, &layout.operation[op])
        return copy_piece(copy_padded(p, clock.data, clock.size), &layout.end)

    cdef int append(self, Relation relation, int op, int slot, object header, int64_t now_ns) except -1:
        """Append what `event` wrote, and the tombstone behind a delete."""
        cdef Counted partition = relation.partition
        cdef bint keyed = relation.has_key and op != TRUNCATE
        if relation.skipped >> op & 1:
            return 0
        self.record(partition, keyed, &self.keys[slot], &self.values[slot], relation, header, now_ns)
        if op == DELETE and relation.tombstones:
            self.record(partition, keyed, &self.keys[slot], NULL, relation, header, now_ns)
        partition.events[op] += 1
        if not partition.open:
            partition.open = True
            self.open_partitions.append(partition)
        return 0

    cdef int record(
        self, Partition partition, bint keyed, Buffer* key, Buffer* value, Relation relation, object header, int64_t now_ns
    ) except -1:
        """Append one record: key, value (NULL: a tombstone) and headers."""
        cdef Py_ssize_t extra = 0 if header is None else PyBytes_GET_SIZE(header)
        cdef int64_t count = relation.header_count + (1 if extra else 0)
        cdef Py_ssize_t tail = varint_size(count) + extra + relation.headers.size
        cdef uint8_t* p
        tail += varint_size(key.size) + key.size if keyed else 1
        tail += varint_size(value.size) + value.size if value != NULL else 1
        p = partition.append(floor_div(now_ns, 1000000), tail)
        self.pending_bytes += partition.last.added
        if keyed:
            p = put_varint(p, key.size)
            memcpy(p, key.data, key.size)
            p += key.size
        else:
            p[0] = 1
            p += 1
        if value != NULL:
            p = put_varint(p, value.size)
            memcpy(p, value.data, value.size)
            p += value.size
        else:
            p[0] = 1
            p += 1
        p = put_varint(p, count)
        if extra:
            memcpy(p, PyBytes_AS_STRING(header), extra)
            p += extra
        memcpy(p, relation.headers.data, relation.headers.size)
        return 0

    # --- output ---

    def take(self, *, bint include_open=False):
        cdef Partition partition
        cdef Chunk chunk
        cdef int64_t count, newest
        outputs = []
        level = self.options.compression_level
        for partition in self.partitions.values():
            if not partition.chunks:
                continue
            for chunk, committed in partition.take(include_open):
                count = chunk.count
                newest = chunk.newest
                batch = chunk.finish(self.pool, self.codec, level)
                outputs.append(Output(partition.topic, partition.partition, batch, count, committed, newest))
        self.count_pending()
        self.shrink()
        return outputs

    cdef void shrink(self) noexcept:
        """Give back what only a giant row needed."""
        cdef int i
        for i in range(2):
            if self.values[i].capacity > LARGEST_SCRATCH:
                free(self.values[i].data)
                self.values[i] = Buffer(NULL, 0, 0)
            if self.keys[i].capacity > LARGEST_SCRATCH:
                free(self.keys[i].data)
                self.keys[i] = Buffer(NULL, 0, 0)

    cdef int count_pending(self) except -1:
        cdef Partition partition
        self.pending_bytes = 0
        for partition in self.partitions.values():
            self.pending_bytes += partition.pending()
        return 0
