-- psql variables: kafka (HOST:PORT) and registry (http://HOST:PORT).
CREATE CONNECTION tidegate TO KAFKA (BROKER :'kafka', SECURITY PROTOCOL = 'PLAINTEXT');
CREATE CONNECTION tidegate_registry TO CONFLUENT SCHEMA REGISTRY (URL :'registry');

CREATE SOURCE orders
    FROM KAFKA CONNECTION tidegate (TOPIC 'shop.public.orders')
    FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION tidegate_registry
    ENVELOPE DEBEZIUM;

CREATE MATERIALIZED VIEW orders_by_state AS
    SELECT state, count(*) AS orders FROM orders GROUP BY state;

SELECT * FROM orders_by_state;
