# Measures DuckDB for candor-bench: one JSON job on standard input, one JSON document on standard output.
import json
import os
import sys
import time

import duckdb

job = json.load(sys.stdin)
connection = duckdb.connect(job["database"], config={"threads": job["threads"]})

# Only the document goes to standard output.
connection.execute("SET enable_progress_bar = false")


def timed(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def load(table, path, options):
    connection.execute(f"COPY {table} FROM '{path}' ({options})")
    # What was copied is durable in the database's own file only after a checkpoint.
    connection.execute("CHECKPOINT")


def query(statements):
    for statement in statements:
        connection.execute(statement).fetchall()


answer = {"version": duckdb.__version__, "loads": [], "queries": []}
for statement in job.get("setup", []):
    connection.execute(statement)
for table, path, options in job.get("loads", []):
    answer["loads"].append(timed(lambda: load(table, path, options)))
for statement in job.get("after", []):
    connection.execute(statement)
for statements in job.get("queries", []):
    answer["queries"].append(min(timed(lambda: query(statements)) for _ in range(job["rounds"])))
json.dump(answer, sys.stdout)
