"""The demo's database: a shop of five tables, filled once, then written to at a steady rate."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[tuple[Any, ...]]

DATABASE: Final = "shop"
TABLES: Final = ("customers", "products", "orders", "order_lines", "payments")

SCHEMA: Final = """
CREATE TYPE order_state AS ENUM ('placed', 'paid', 'shipped', 'cancelled');
CREATE TABLE customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email text NOT NULL UNIQUE,
    name text NOT NULL,
    tags text[] NOT NULL,
    preferences jsonb,
    joined_at timestamptz NOT NULL);
CREATE TABLE products (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    price numeric(10,2) NOT NULL,
    stock integer NOT NULL,
    attributes jsonb NOT NULL,
    labels text[]);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customers,
    state order_state NOT NULL,
    placed_at timestamptz NOT NULL,
    note text);
CREATE INDEX ON orders (customer_id);
CREATE TABLE order_lines (
    order_id bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
    line_no smallint NOT NULL,
    product_id uuid NOT NULL REFERENCES products,
    quantity integer NOT NULL,
    price numeric(10,2) NOT NULL,
    PRIMARY KEY (order_id, line_no));
CREATE TABLE payments (
    id uuid PRIMARY KEY,
    order_id bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
    amount numeric(12,2) NOT NULL,
    method text NOT NULL,
    paid_at timestamptz NOT NULL,
    details jsonb);
CREATE INDEX ON payments (order_id);
"""

_FILL: Final = """
SELECT setseed(0.42);
INSERT INTO customers (email, name, tags, preferences, joined_at)
    SELECT 'customer' || i || '@example.com', 'Customer ' || i,
           CASE WHEN i % 3 = 0 THEN ARRAY['loyal', 'north'] ELSE '{}' END,
           CASE WHEN i % 5 > 0 THEN jsonb_build_object('newsletter', i % 2 = 0, 'language', 'en') END,
           now() - random() * interval '900 days'
    FROM generate_series(1, 2000) AS i;
INSERT INTO products
    SELECT gen_random_uuid(), 'Product ' || i, round((random() * 200 + 1)::numeric, 2), 500,
           jsonb_build_object('colour', (ARRAY['red', 'green', 'blue'])[i % 3 + 1], 'weight', i),
           CASE WHEN i % 4 = 0 THEN ARRAY['new'] END
    FROM generate_series(1, 300) AS i;
INSERT INTO orders (customer_id, state, placed_at, note)
    SELECT 1 + floor(random() * 2000),
           (ARRAY['placed', 'paid', 'shipped'])[1 + floor(random() * 3)]::order_state,
           now() - random() * interval '300 days', CASE WHEN random() < 0.1 THEN 'leave it at the door' END
    FROM generate_series(1, 5000) AS i;
INSERT INTO order_lines
    SELECT o.id, line, p.id, 1 + floor(random() * 5), p.price
    FROM orders AS o CROSS JOIN generate_series(1, 3) AS line
    JOIN LATERAL (SELECT id, price FROM products OFFSET (o.id * 7 + line * 31) % 300 LIMIT 1) AS p ON true;
INSERT INTO payments
    SELECT gen_random_uuid(), o.id, sum(l.quantity * l.price), (ARRAY['card', 'transfer'])[1 + o.id % 2],
           o.placed_at + interval '1 hour', jsonb_build_object('attempts', 1)
    FROM orders AS o JOIN order_lines AS l ON l.order_id = o.id WHERE o.state <> 'placed' GROUP BY o.id;
"""


def create(url: str) -> None:
    """Make the tables and fill them."""
    with psycopg.connect(url) as connection:
        connection.execute(SCHEMA)
        connection.execute(_FILL)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


class Load:
    """Random transactions of a shop's day on one connection, in a thread of its own.

    `changes` counts the committed row changes as (table, op), op being Debezium's c, u or d.
    """

    def __init__(self, url: str, *, per_second: float, seed: int = 1) -> None:
        self.changes: Counter[tuple[str, str]] = Counter()
        self.failure: BaseException | None = None
        self._url = url
        self._interval_s = 1.0 / per_second
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let the transaction under way commit, and start no other."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                next_s = time.monotonic()
                while not self._stop.is_set():
                    self._transaction(connection)
                    next_s = max(next_s + self._interval_s, time.monotonic() - 1.0)
                    self._stop.wait(max(0.0, next_s - time.monotonic()))
        except psycopg.Error as error:
            self.failure = error

    def _transaction(self, connection: Connection) -> None:
        action = self._random.choices(_ACTIONS, _WEIGHTS)[0]
        with _Transaction(connection) as transaction:
            action(transaction, self._random)
        self.changes.update(transaction.changes)


class _Transaction:
    """A transaction that counts the rows it changes; a rollback leaves the count empty."""

    def __init__(self, connection: Connection) -> None:
        self.changes: Counter[tuple[str, str]] = Counter()
        self._connection = connection
        self._transaction = connection.transaction()

    def __enter__(self) -> Self:
        self._transaction.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transaction.__exit__(kind, error, trace)

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query."""
        return self._connection.execute(query, values).fetchone()

    def change(self, table: str, op: str, statement: str, *values: object) -> tuple[Any, ...] | None:
        """Run a statement that changes rows of one table; returns its first row where it returns any."""
        cursor = self._connection.execute(statement, values)
        self.changes[table, op] += cursor.rowcount
        return cursor.fetchone() if cursor.description else None

    def order(self, condition: str, chance: random.Random) -> int | None:
        """The id of some order that fulfils a condition, at a place that `chance` picks."""
        query = f"SELECT id FROM orders WHERE id >= %s AND {condition} ORDER BY id LIMIT 1"
        last = self.one("SELECT max(id) FROM orders")
        row = self.one(query, chance.randint(1, last[0])) if last and last[0] else None
        return row[0] if row else None


def _place_order(transaction: _Transaction, chance: random.Random) -> None:
    customer = transaction.one(
        "SELECT id FROM customers WHERE id >= %s ORDER BY id LIMIT 1", chance.randint(1, 2000)
    )
    if customer is None:
        return
    note = chance.choice([None, None, None, "gift wrap, please", "ring twice – “Müller”"])
    order = transaction.change(
        "orders",
        "c",
        "INSERT INTO orders (customer_id, state, placed_at, note) VALUES (%s, 'placed', now(), %s)"
        " RETURNING id",
        customer[0],
        note,
    )
    assert order is not None
    for line_no in range(1, chance.randint(2, 5)):
        product = transaction.one("SELECT id, price FROM products OFFSET %s LIMIT 1", chance.randrange(250))
        assert product is not None
        quantity = chance.randint(1, 4)
        transaction.change(
            "order_lines",
            "c",
            "INSERT INTO order_lines VALUES (%s, %s, %s, %s, %s)",
            order[0],
            line_no,
            product[0],
            quantity,
            product[1],
        )
        transaction.change(
            "products", "u", "UPDATE products SET stock = stock - %s WHERE id = %s", quantity, product[0]
        )


def _pay(transaction: _Transaction, chance: random.Random) -> None:
    order = transaction.order("state = 'placed'", chance)
    if order is None:
        return
    transaction.change("orders", "u", "UPDATE orders SET state = 'paid' WHERE id = %s", order)
    transaction.change(
        "payments",
        "c",
        "INSERT INTO payments SELECT gen_random_uuid(), %s, coalesce(sum(quantity * price), 0), %s, now(), %s"
        " FROM order_lines WHERE order_id = %s",
        order,
        chance.choice(["card", "transfer", "voucher"]),
        Jsonb({"attempts": chance.randint(1, 3)}),
        order,
    )


def _ship(transaction: _Transaction, chance: random.Random) -> None:
    order = transaction.order("state = 'paid'", chance)
    transaction.change("orders", "u", "UPDATE orders SET state = 'shipped' WHERE id = %s", order)


def _cancel(transaction: _Transaction, chance: random.Random) -> None:
    """Deletes from three tables in one transaction."""
    order = transaction.order("state <> 'shipped'", chance)
    transaction.change("payments", "d", "DELETE FROM payments WHERE order_id = %s", order)
    transaction.change("order_lines", "d", "DELETE FROM order_lines WHERE order_id = %s", order)
    transaction.change("orders", "d", "DELETE FROM orders WHERE id = %s", order)


def _join(transaction: _Transaction, chance: random.Random) -> None:
    number = chance.getrandbits(48)
    transaction.change(
        "customers",
        "c",
        "INSERT INTO customers (email, name, tags, preferences, joined_at) VALUES (%s, %s, %s, %s, now())",
        f"customer-{number:x}@example.com",
        f"Customer {number:x}",
        chance.sample(["loyal", "north", "south", "a, b", 'say "hi"'], chance.randrange(4)),
        chance.choice([None, Jsonb({"newsletter": True, "topics": ["garden", "books"]})]),
    )


def _change_preferences(transaction: _Transaction, chance: random.Random) -> None:
    transaction.change(
        "customers",
        "u",
        "UPDATE customers SET preferences = %s WHERE id = %s",
        Jsonb({"newsletter": chance.random() < 0.5, "language": chance.choice(["en", "de", "ja"])}),
        chance.randint(1, 2000),
    )


def _leave(transaction: _Transaction, chance: random.Random) -> None:
    transaction.change(
        "customers",
        "d",
        "DELETE FROM customers AS c WHERE id = (SELECT id FROM customers AS x WHERE id > %s AND NOT EXISTS"
        " (SELECT FROM orders WHERE customer_id = x.id) ORDER BY id LIMIT 1)",
        chance.randint(1, 2000),
    )


def _reprice(transaction: _Transaction, chance: random.Random) -> None:
    """One statement, several rows."""
    transaction.change(
        "products",
        "u",
        "UPDATE products SET price = round(price * %s::numeric, 2), labels = %s WHERE id IN"
        " (SELECT id FROM products OFFSET %s LIMIT 3)",
        chance.choice(["0.9", "1.1"]),
        chance.choice([None, ["sale"], ["sale", "last chance"]]),
        chance.randrange(250),
    )


_Action = Callable[[_Transaction, random.Random], None]


def _weighted() -> Iterator[tuple[_Action, int]]:
    yield _place_order, 30
    yield _pay, 20
    yield _ship, 15
    yield _cancel, 8
    yield _join, 8
    yield _change_preferences, 10
    yield _leave, 3
    yield _reprice, 6


_ACTIONS: Final = [action for action, _ in _weighted()]
_WEIGHTS: Final = [weight for _, weight in _weighted()]
