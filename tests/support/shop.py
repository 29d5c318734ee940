"""A small shop with every shape of table, and a random workload on it that a test can fold and compare.

The ledger is the measure of "each change once": a worker's n counts its committed transactions without
gaps, so whoever reads the topic must see 1, 2, 3, … per worker, whatever was killed meanwhile.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = """
CREATE TYPE order_state AS ENUM ('new', 'paid', 'shipped', 'returned');
CREATE TABLE customers (
    id serial PRIMARY KEY, email text NOT NULL, name varchar(80), active boolean NOT NULL DEFAULT true,
    balance numeric(12,2) NOT NULL DEFAULT 0, score double precision, born date,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(), tags text[]);
CREATE TABLE products (
    sku varchar(20) PRIMARY KEY, title text NOT NULL, price numeric(10,2) NOT NULL, stock integer NOT NULL,
    weight real, attributes jsonb, picture bytea, updated_at timestamp(3));
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id integer NOT NULL,
    state order_state NOT NULL DEFAULT 'new', placed_at timestamp NOT NULL DEFAULT clock_timestamp(),
    ship_by time, total numeric);
CREATE TABLE order_lines (
    order_id bigint NOT NULL, line smallint NOT NULL, sku varchar(20) NOT NULL, quantity integer NOT NULL,
    PRIMARY KEY (order_id, line));
CREATE TABLE payments (
    id uuid PRIMARY KEY, order_id bigint NOT NULL, amount numeric(14,4) NOT NULL, method char(4),
    paid_at timestamptz);
ALTER TABLE payments REPLICA IDENTITY FULL;
CREATE TABLE documents (id integer PRIMARY KEY, title text, body text, revision integer NOT NULL DEFAULT 1);
CREATE TABLE visits (at timestamptz NOT NULL, page text, milliseconds integer);
ALTER TABLE visits REPLICA IDENTITY FULL;
CREATE TABLE ledger (worker integer, n bigint, note text, PRIMARY KEY (worker, n));
"""
TABLES = ("customers", "products", "orders", "order_lines", "payments", "documents", "visits", "ledger")
KEYED = tuple(table for table in TABLES if table != "visits")


class RolledBack(Exception):
    """Raised inside a transaction to undo it."""


def create(dsn: str) -> None:
    """Create the shop's tables, empty."""
    with psycopg.connect(dsn) as connection:
        connection.execute(SCHEMA)


class Workload:
    """Random transactions on one connection; `worker` tells the ledger's lines of several apart."""

    def __init__(self, dsn: str, *, seed: int, worker: int = 0) -> None:
        self.dsn = dsn
        self.worker = worker
        self.committed = 0
        self._random = random.Random(seed * 1000 + worker)
        self._connection: Connection | None = None
        self._columns_added = 0
        self._actions: list[tuple[int, Callable[[Connection], None]]] = [
            (6, self._new_customer),
            (6, self._change_customer),
            (2, self._rename_customer),
            (3, self._drop_customer),
            (5, self._new_product),
            (6, self._change_product),
            (2, self._new_sku),
            (2, self._drop_product),
            (10, self._new_order),
            (6, self._change_order),
            (4, self._drop_order),
            (4, self._pay),
            (2, self._refund),
            (3, self._write_document),
            (4, self._revise_document),
            (4, self._visit),
            (2, self._forget_visits),
        ]

    def __enter__(self) -> Workload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next transaction opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def run(self, transactions: int) -> None:
        """Commit so many transactions; the ones rolled back on the way do not count."""
        until = self.committed + transactions
        while self.committed < until:
            self.transaction()

    def transaction(self) -> None:
        """One transaction of one to six actions on several tables; every tenth is rolled back."""
        connection = self._connected()
        try:
            with connection.transaction():
                for _ in range(self._random.choice((1, 1, 2, 3, 6))):
                    self._act(connection)
                self._enter(connection, None)
                if self._random.random() < 0.1:
                    raise RolledBack
            self.committed += 1
        except RolledBack:
            pass
        except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
            pass  # another worker was there first: all of it is undone

    def add_column(self, table: str) -> str:
        """Add a nullable column and use it at once; returns its name."""
        self._columns_added += 1
        name = f"extra_{self.worker}_{self._columns_added}"
        connection = self._connected()
        names = sql.Identifier(table), sql.Identifier(name)
        connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN {} integer").format(*names))
        with connection.transaction():
            statement = sql.SQL("UPDATE {} SET {} = 7 WHERE random() < 0.3").format(*names)
            connection.execute(statement)
            self._enter(connection, f"added {name}")
        self.committed += 1
        return name

    def mark(self) -> str:
        """Commit a ledger line with a note like no other; who has read it has read all that came before."""
        note = f"mark {uuid.uuid4()}"
        connection = self._connected()
        with connection.transaction():
            self._enter(connection, note)
        self.committed += 1
        return note

    def resume(self) -> None:
        """After an interrupted commit: learn from the database whether it counted."""
        self.close()
        row = (
            self._connected()
            .execute("SELECT coalesce(max(n), 0) FROM ledger WHERE worker = %s", [self.worker])
            .fetchone()
        )
        assert row is not None
        self.committed = row[0]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = psycopg.connect(self.dsn, autocommit=True)
        return self._connection

    def _enter(self, connection: Connection, note: str | None) -> None:
        values = [self.worker, self.committed + 1, note]
        connection.execute("INSERT INTO ledger (worker, n, note) VALUES (%s, %s, %s)", values)

    def _act(self, connection: Connection) -> None:
        weights = [weight for weight, _ in self._actions]
        _, action = self._random.choices(self._actions, weights)[0]
        if self._random.random() < 0.05:
            with contextlib.suppress(RolledBack), connection.transaction():
                action(connection)
                raise RolledBack  # a savepoint: the transaction goes on without this part
        else:
            action(connection)

    def _text(self, longest: int) -> str:
        alphabet = "abcdefghij ÄÖÜßéλ漢字🙂'\"\\,{}"
        return "".join(self._random.choices(alphabet, k=self._random.randint(0, longest)))

    def _or_null(self, value: object, share: float = 0.2) -> object:
        return None if self._random.random() < share else value

    def _some(self, connection: Connection, table: str, key: str) -> Any:
        statement = sql.SQL("SELECT {0} FROM {1} ORDER BY random() LIMIT 1")
        row = connection.execute(statement.format(sql.SQL(key), sql.Identifier(table))).fetchone()
        return row[0] if row else None

    def _new_customer(self, connection: Connection) -> None:
        chance = self._random
        connection.execute(
            "INSERT INTO customers (email, name, active, balance, score, born, tags)"
            " VALUES (%s, %s, %s, %s, %s, date '1900-01-01' + %s, %s)",
            [
                f"{chance.getrandbits(40):x}@example.org",
                self._or_null(self._text(40)),
                chance.random() < 0.5,
                round(chance.uniform(-1e6, 1e6), 2),
                self._or_null(chance.uniform(-1, 1) * 10 ** chance.randint(-5, 5)),
                chance.randint(-40000, 60000),
                self._or_null([self._text(5), None, "plain"][: chance.randint(0, 3)]),
            ],
        )

    def _change_customer(self, connection: Connection) -> None:
        balance, name = round(self._random.uniform(-100, 100), 2), self._or_null(self._text(20))
        chosen = self._some(connection, "customers", "id")
        connection.execute(
            "UPDATE customers SET balance = balance + %s, name = %s WHERE id = %s", [balance, name, chosen]
        )

    def _rename_customer(self, connection: Connection) -> None:
        chosen = self._some(connection, "customers", "id")
        connection.execute("UPDATE customers SET id = nextval('customers_id_seq') WHERE id = %s", [chosen])

    def _drop_customer(self, connection: Connection) -> None:
        chosen = self._some(connection, "customers", "id")
        connection.execute("DELETE FROM customers WHERE id = %s", [chosen])

    def _new_product(self, connection: Connection) -> None:
        chance = self._random
        connection.execute(
            "INSERT INTO products VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp())",
            [
                f"SKU-{chance.getrandbits(48):012x}",
                self._text(30),
                round(chance.uniform(0, 9999), 2),
                chance.randint(0, 1000),
                self._or_null(float(chance.randint(1, 4000)) / 8),
                self._or_null('{"colour": "red", "sizes": [1, 2.5, null], "nested": {"ä": "\\u00fc"}}'),
                self._or_null(chance.randbytes(chance.randint(0, 40))),
            ],
        )

    def _change_product(self, connection: Connection) -> None:
        chosen = self._some(connection, "products", "sku")
        connection.execute(
            "UPDATE products SET stock = stock + 1, updated_at = clock_timestamp() WHERE sku = %s", [chosen]
        )

    def _new_sku(self, connection: Connection) -> None:
        chosen, sku = self._some(connection, "products", "sku"), f"NEW-{self._random.getrandbits(48):012x}"
        connection.execute("UPDATE products SET sku = %s, stock = 0 WHERE sku = %s", [sku, chosen])

    def _drop_product(self, connection: Connection) -> None:
        chosen = self._some(connection, "products", "sku")
        connection.execute("DELETE FROM products WHERE sku = %s", [chosen])

    def _new_order(self, connection: Connection) -> None:
        chance = self._random
        customer = self._some(connection, "customers", "id") or 0
        total = self._or_null(f"{chance.randint(0, 10**9)}.{chance.randint(0, 10**6)}")
        ship_by = self._or_null(
            f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:07.000{chance.randint(100, 999)}"
        )
        row = connection.execute(
            "INSERT INTO orders (customer_id, ship_by, total) VALUES (%s, %s, %s) RETURNING id",
            [customer, ship_by, total],
        ).fetchone()
        assert row is not None
        for line in range(chance.randint(1, 4)):
            values = [row[0], line, f"SKU-{line}", chance.randint(1, 9)]
            connection.execute("INSERT INTO order_lines VALUES (%s, %s, %s, %s)", values)

    def _change_order(self, connection: Connection) -> None:
        chosen = self._some(connection, "orders", "id")
        state = self._random.choice(("new", "paid", "shipped", "returned"))
        connection.execute("UPDATE orders SET state = %s WHERE id = %s", [state, chosen])
        connection.execute("UPDATE order_lines SET quantity = quantity + 1 WHERE order_id = %s", [chosen])

    def _drop_order(self, connection: Connection) -> None:
        chosen = self._some(connection, "orders", "id")
        connection.execute("DELETE FROM order_lines WHERE order_id = %s", [chosen])
        connection.execute("DELETE FROM orders WHERE id = %s", [chosen])

    def _pay(self, connection: Connection) -> None:
        chance = self._random
        order = self._some(connection, "orders", "id") or 0
        connection.execute(
            "INSERT INTO payments VALUES (%s, %s, %s, %s, clock_timestamp())",
            [
                uuid.UUID(int=chance.getrandbits(128)),
                order,
                round(chance.uniform(0, 500), 4),
                chance.choice(("card", "iban", "x")),
            ],
        )

    def _refund(self, connection: Connection) -> None:
        chosen = self._some(connection, "payments", "id")
        if self._random.random() < 0.5:
            connection.execute("UPDATE payments SET amount = -amount, paid_at = NULL WHERE id = %s", [chosen])
        else:
            connection.execute("DELETE FROM payments WHERE id = %s", [chosen])

    def _write_document(self, connection: Connection) -> None:
        body = self._random.randbytes(4000).hex()  # stays out of line: random digits do not compress enough
        connection.execute(
            "INSERT INTO documents (id, title, body) VALUES (%s, %s, %s)",
            [self._random.getrandbits(31), self._text(20), body],
        )

    def _revise_document(self, connection: Connection) -> None:
        chosen = self._some(connection, "documents", "id")
        title = "title = title || '.'" if self._random.random() < 0.7 else "body = body || 'x'"
        statement = sql.SQL("UPDATE documents SET revision = revision + 1, {} WHERE id = %s")
        connection.execute(statement.format(sql.SQL(title)), [chosen])

    def _visit(self, connection: Connection) -> None:
        count = self._random.randint(1, 3)
        connection.execute(
            "INSERT INTO visits SELECT clock_timestamp(), %s, g FROM generate_series(1, %s) g",
            [self._or_null(self._text(10)), count],
        )

    def _forget_visits(self, connection: Connection) -> None:
        if self._random.random() < 0.5:
            connection.execute("UPDATE visits SET page = 'seen' WHERE milliseconds = 2 AND page IS NULL")
        else:
            connection.execute("DELETE FROM visits WHERE milliseconds = 3 AND random() < 0.5")


class Load:
    """Workers that run transactions in threads until they are told to stop, through restarts of Postgres.

    `rest_s` is the pause between two transactions of a worker.
    """

    def __init__(self, dsn: str, *, seed: int, workers: int = 2, rest_s: float = 0.0) -> None:
        self.workers = [Workload(dsn, seed=seed, worker=worker + 1) for worker in range(workers)]
        self.errors: list[BaseException] = []
        self._rest_s = rest_s
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=[worker], daemon=True) for worker in self.workers
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def committed(self) -> int:
        """Transactions committed so far by all workers."""
        return sum(worker.committed for worker in self.workers)

    def stop(self) -> None:
        """Let the running transactions end; raises what stopped a worker early."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        for worker in self.workers:
            worker.close()
        if self.errors:
            raise self.errors[0]

    def _work(self, worker: Workload) -> None:
        interrupted = False
        while not self._stop.is_set():
            try:
                if interrupted:
                    worker.resume()
                    interrupted = False
                worker.transaction()
            except psycopg.OperationalError:
                interrupted = True  # Postgres is being restarted
                time.sleep(0.05)
            except BaseException as error:
                self.errors.append(error)
                return
            self._stop.wait(self._rest_s)
