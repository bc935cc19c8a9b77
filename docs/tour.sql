\set on_error continue
\set rows 4

-- 1. Reads that say how fresh they must be. This shell is on n2, a follower.
SELECT * FROM orders STALENESS 30s;
SELECT * FROM events WHERE at > 0 STALENESS 5m;

-- 2. Reads that say where the answer must come from.
SELECT * FROM accounts WHERE id = 1 ANSWERED BY LEADER;
SELECT * FROM prices ANSWERED BY ANY;
SELECT * FROM accounts WHERE id = 1 STALENESS 30s ANSWERED BY LEADER;

-- 3. A write is decided by the leader, wherever it is typed.
UPDATE accounts SET balance = balance + 10 WHERE id = 1;

-- 4. What no node can promise is refused before anything runs.
SELECT * FROM orders STALENESS 1s;
SELECT * FROM orders STALENESS 0s;
SELECT * FROM orders STALENESS 30s VERSION 5;
SELECT * FROM accounts WHERE id = 1 ANSWERED BY MASTER;

-- 5. Who may answer, and why the others may not. Nothing runs.
EXPLAIN (ROUTE) SELECT * FROM orders STALENESS 30s;
EXPLAIN (ROUTE) SELECT * FROM accounts WHERE id = 1 ANSWERED BY LEADER;

-- 6. The new words reserve nothing.
CREATE TABLE readings (id BIGINT PRIMARY KEY, staleness TEXT, answered BOOLEAN);
INSERT INTO readings VALUES (1, 'fresh', true);
SELECT staleness, answered FROM readings ANSWERED BY LEADER;

-- 7. The leader stops; n2's copy grows older.
\demo pause n1
\sleep 6s
SELECT count(*) AS orders FROM orders STALENESS 30s;
SELECT count(*) AS orders FROM orders STALENESS 5s;

-- 8. The leader is back, and so is the promise.
\demo resume n1
\sleep 4s
SELECT count(*) AS orders FROM orders STALENESS 5s;
