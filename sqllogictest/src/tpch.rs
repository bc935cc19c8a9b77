//! The eight tables of TPC-H and their rows, from `tpchgen`: what tests, suites and benchmarks load.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

/// Name and columns of each table, smaller ones first.
pub const TABLES: [(&str, &str); 8] = [
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

/// Writes the rows of one table at a scale factor to a CSV file with a header; gives their number.
///
/// # Errors
/// A table that TPC-H does not have, or a file that cannot be written.
pub fn write_csv(table: &str, scale: f64, path: &Path) -> io::Result<usize> {
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
        other => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("TPC-H has no table {other}"),
        )),
    }
}

fn lines<T: Display>(path: &Path, header: &str, rows: impl Iterator<Item = T>) -> io::Result<usize> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "{header}")?;
    let mut count = 0;
    for row in rows {
        writeln!(file, "{row}")?;
        count += 1;
    }
    file.flush()?;
    Ok(count)
}
