//! The eight tables, their rows from `tpchgen`, and the way into the cluster: COPY at the leader.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use crate::harness::Cluster;

/// Name and columns of each table, smaller ones first.
const TABLES: [(&str, &str); 8] = [
    (
        "region",
        "r_regionkey BIGINT PRIMARY KEY, r_name TEXT NOT NULL, r_comment TEXT NOT NULL",
    ),
    (
        "nation",
        "n_nationkey BIGINT PRIMARY KEY, n_name TEXT NOT NULL, n_regionkey BIGINT NOT NULL, n_comment TEXT NOT NULL",
    ),
    (
        "supplier",
        "s_suppkey BIGINT PRIMARY KEY, s_name TEXT NOT NULL, s_address TEXT NOT NULL, s_nationkey BIGINT NOT NULL, \
         s_phone TEXT NOT NULL, s_acctbal DECIMAL(15, 2) NOT NULL, s_comment TEXT NOT NULL",
    ),
    (
        "part",
        "p_partkey BIGINT PRIMARY KEY, p_name TEXT NOT NULL, p_mfgr TEXT NOT NULL, p_brand TEXT NOT NULL, \
         p_type TEXT NOT NULL, p_size INTEGER NOT NULL, p_container TEXT NOT NULL, \
         p_retailprice DECIMAL(15, 2) NOT NULL, p_comment TEXT NOT NULL",
    ),
    (
        "partsupp",
        "ps_partkey BIGINT NOT NULL, ps_suppkey BIGINT NOT NULL, ps_availqty INTEGER NOT NULL, \
         ps_supplycost DECIMAL(15, 2) NOT NULL, ps_comment TEXT NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey)",
    ),
    (
        "customer",
        "c_custkey BIGINT PRIMARY KEY, c_name TEXT NOT NULL, c_address TEXT NOT NULL, c_nationkey BIGINT NOT NULL, \
         c_phone TEXT NOT NULL, c_acctbal DECIMAL(15, 2) NOT NULL, c_mktsegment TEXT NOT NULL, c_comment TEXT NOT NULL",
    ),
    (
        "orders",
        "o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT NOT NULL, o_orderstatus TEXT NOT NULL, \
         o_totalprice DECIMAL(15, 2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority TEXT NOT NULL, \
         o_clerk TEXT NOT NULL, o_shippriority INTEGER NOT NULL, o_comment TEXT NOT NULL",
    ),
    (
        "lineitem",
        "l_orderkey BIGINT NOT NULL, l_partkey BIGINT NOT NULL, l_suppkey BIGINT NOT NULL, l_linenumber INTEGER NOT NULL, \
         l_quantity DECIMAL(15, 2) NOT NULL, l_extendedprice DECIMAL(15, 2) NOT NULL, l_discount DECIMAL(15, 2) NOT NULL, \
         l_tax DECIMAL(15, 2) NOT NULL, l_returnflag TEXT NOT NULL, l_linestatus TEXT NOT NULL, l_shipdate DATE NOT NULL, \
         l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, l_shipinstruct TEXT NOT NULL, l_shipmode TEXT NOT NULL, \
         l_comment TEXT NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
    ),
];

/// Makes the tables and fills them; gives the number of rows.
pub(super) async fn load(cluster: &Cluster, scale: f64) -> usize {
    let door = cluster.door(0);
    let mut all = 0;
    for (table, columns) in TABLES {
        door.run(&format!("CREATE TABLE {table} ({columns})")).await;
        let path = cluster.folder().join(format!("{table}.csv"));
        let rows = write(table, scale, &path);
        let answer = door
            .ask(&format!(
                "COPY {table} FROM '{}' (FORMAT csv, HEADER true)",
                path.display()
            ))
            .await;
        assert_eq!(answer.status, 200, "{table}: {answer:?}");
        assert_eq!(answer.body["results"][0]["rows_affected"], rows, "{table}: {answer:?}");
        all += rows;
    }
    all
}

fn write(table: &str, scale: f64, path: &Path) -> usize {
    match table {
        "region" => lines(
            path,
            RegionCsv::header(),
            RegionGenerator::new(scale, 1, 1).iter().map(RegionCsv::new),
        ),
        "nation" => lines(
            path,
            NationCsv::header(),
            NationGenerator::new(scale, 1, 1).iter().map(NationCsv::new),
        ),
        "supplier" => lines(
            path,
            SupplierCsv::header(),
            SupplierGenerator::new(scale, 1, 1).iter().map(SupplierCsv::new),
        ),
        "part" => lines(
            path,
            PartCsv::header(),
            PartGenerator::new(scale, 1, 1).iter().map(PartCsv::new),
        ),
        "partsupp" => lines(
            path,
            PartSuppCsv::header(),
            PartSuppGenerator::new(scale, 1, 1).iter().map(PartSuppCsv::new),
        ),
        "customer" => lines(
            path,
            CustomerCsv::header(),
            CustomerGenerator::new(scale, 1, 1).iter().map(CustomerCsv::new),
        ),
        "orders" => lines(
            path,
            OrderCsv::header(),
            OrderGenerator::new(scale, 1, 1).iter().map(OrderCsv::new),
        ),
        "lineitem" => lines(
            path,
            LineItemCsv::header(),
            LineItemGenerator::new(scale, 1, 1).iter().map(LineItemCsv::new),
        ),
        other => panic!("no rows for {other}"),
    }
}

fn lines<T: Display>(path: &Path, header: &str, rows: impl Iterator<Item = T>) -> usize {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    writeln!(file, "{header}").expect("written");
    let count = rows.map(|row| writeln!(file, "{row}").expect("written")).count();
    file.flush().expect("written");
    count
}
