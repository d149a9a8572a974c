-- A tour of amend: a table that is amended while it is compacted.
-- Run it:  cargo run --release -- sql/tour.sql
-- It starts anew each time, in the lake ./lake.

-- 1. A table of real TPC-H data. The scale factor is the second argument: 0.01 is 60,175 rows, 1 is 6,001,215.
DROP TABLE IF EXISTS lineitem;
CREATE TABLE lineitem AS SELECT * FROM tpch('lineitem', 0.01);

SELECT count(*) AS rows, sum(l_quantity) AS quantity, min(l_shipdate) AS first, max(l_shipdate) AS last FROM lineitem;

-- 2. A query: TPC-H's first.
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, round(avg(l_extendedprice), 2) AS avg_price, count(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- 3. An UPDATE and a DELETE: each writes the rows it changes, and no copy of the file they lie in.
UPDATE lineitem SET l_discount = l_discount + 0.01, l_comment = 'on sale' WHERE l_orderkey % 100 = 7;
DELETE FROM lineitem WHERE l_shipdate < (SELECT min(l_shipdate) + INTERVAL '30' DAY FROM lineitem VERSION AS OF 1);
SELECT count(*) AS rows, count(*) FILTER (WHERE l_comment = 'on sale') AS on_sale FROM lineitem;

-- 4. A plan is only a plan: EXPLAIN changes nothing.
EXPLAIN DELETE FROM lineitem WHERE l_orderkey = 1;

-- 5. OPTIMIZE rewrites small and worn fragments. FULL rewrites all of them.
OPTIMIZE lineitem FULL;

-- 6. A transaction: several statements, one version, all or nothing.
BEGIN;
UPDATE lineitem SET l_tax = 0 WHERE l_shipmode = 'AIR';
DELETE FROM lineitem WHERE l_quantity = 50;
INSERT INTO lineitem SELECT * FROM lineitem VERSION AS OF 1 WHERE l_orderkey = 7;
COMMIT;

-- 7. History: who did what, and what it met on the way.
SELECT version, operation, rows_inserted AS ins, rows_updated AS upd, rows_deleted AS del, rows_moved AS moved, left(statement, 60) AS statement
FROM table_history('lineitem') ORDER BY version;

-- 8. Time travel: every version can be read, by number, in any query.
SELECT now.rows AS rows_now, then.rows AS rows_in_version_1
FROM (SELECT count(*) AS rows FROM lineitem) AS now, (SELECT count(*) AS rows FROM lineitem VERSION AS OF 1) AS then;

-- What happens when two sessions do this at once: examples/two_writers.rs, and slt/concurrency/.
