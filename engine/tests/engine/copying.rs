//! COPY: what is written is read back, and what does not fit is named.

use std::fs;

use crate::db::Db;
use crate::rows;

const COLUMNS: &str =
    "id BIGINT PRIMARY KEY, b BOOLEAN, s SMALLINT, r REAL, f DOUBLE PRECISION, n NUMERIC(38,10), t TEXT, v VARCHAR(5),
                       y BYTEA, d DATE, c TIME, ts TIMESTAMP, tz TIMESTAMPTZ";

fn filled(db: &mut Db) {
    db.run(&format!("CREATE TABLE a ({COLUMNS}); CREATE TABLE z ({COLUMNS})"));
    db.run(
        "INSERT INTO a VALUES
         (1, true, -1, 1.5, 0.1, 1234567890123456789012345678.0123456789, 'x, \"y\"\nz', 'é|', '\\x00ff', '1992-01-02', '01:02:03.000004',
          '2024-02-29 23:59:59.999999', '2024-02-29 12:00:00+02'),
         (2, false, 32767, -0.0, 1e300, -0.0000000001, '', '', '\\x', '0001-01-01', '00:00:00', '1969-12-31 23:59:59', '1970-01-01 00:00:00+00'),
         (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
         (9223372036854775807, NULL, 0, 0, 0, 0, 'NULL', 'null', '\\x22', '9999-12-31', '23:59:59', NULL, NULL)",
    );
}

#[test]
fn every_format_gives_back_what_it_was_given() {
    for (file, options) in [
        ("a.csv", ""),
        ("a2.csv", "(FORMAT csv, HEADER true, NULL 'nil')"),
        ("a.tbl", "(FORMAT csv, DELIMITER '|')"),
        ("a.ndjson", ""),
        ("a.parquet", ""),
    ] {
        let mut db = Db::new();
        filled(&mut db);
        let path = db.path(file);
        assert_eq!(
            db.run_with(&format!("COPY a TO '{path}' {options}"), &[])
                .expect("writes")
                .rows_affected,
            4,
            "{file}"
        );
        let read = db.run_with(&format!("COPY z FROM '{path}' {options}"), &[]);
        assert_eq!(
            read.unwrap_or_else(|error| panic!("{file}: {error}")).rows_affected,
            4,
            "{file}"
        );
        let rows = db.run("SELECT * FROM a ORDER BY id");
        assert_eq!(db.run("SELECT * FROM z ORDER BY id"), rows, "{file}");
    }
}

#[test]
fn tpch_files_are_read_as_they_are() {
    let mut db = Db::new();
    db.run("CREATE TABLE region (r_regionkey INT PRIMARY KEY, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152), r_since DATE, r_sum NUMERIC(15,2))");
    let path = db.path("region.tbl");
    fs::write(
        &path,
        "0|AFRICA|lar \"deposits|1992-01-01|0.07|\n1|AMERICA||1998-12-31|-99999999.99|\n",
    )
    .expect("writes");
    let error = db.fail(&format!("COPY region FROM '{path}' WITH (DELIMITER '|')"));
    assert!(
        error.to_string().contains("quote"),
        "an odd quote is no TPC-H file: {error}"
    );
    fs::write(
        &path,
        "0|AFRICA|lar deposits|1992-01-01|0.07|\n1|AMERICA||1998-12-31|-99999999.99|\n",
    )
    .expect("writes");
    db.run(&format!("COPY region FROM '{path}' WITH (DELIMITER '|')"));
    assert_eq!(
        db.run("SELECT * FROM region ORDER BY 1"),
        rows![
            [0, "AFRICA", "lar deposits", "1992-01-01", "0.07"],
            [1, "AMERICA", "NULL", "1998-12-31", "-99999999.99"]
        ]
    );
}

#[test]
fn what_does_not_fit_is_named_by_row_and_column() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (a INT NOT NULL, b NUMERIC(4,2), c VARCHAR(3))");
    for (file, text, message) in [
        (
            "t.csv",
            "1,1.00,x\n2,1.005,x\n",
            "row 2, column `b`: 1.005 does not fit NUMERIC(4,2) without loss",
        ),
        (
            "t.csv",
            "1,1.00,x\n,1.00,x\n",
            "row 2: column `a` of `t` must have a value, and NULL is none",
        ),
        (
            "t.csv",
            "1,1.00,x\n2,1.00,abcd\n",
            "row 2, column `c`: a text of 4 characters is too long for VARCHAR(3)",
        ),
        ("t.csv", "1,1.00\n", "row 1: 2 fields for 3 columns"),
        ("t.csv", "1,1.00,x,y\n", "row 1: 4 fields for 3 columns"),
        (
            "t.csv",
            "99999999999,1.00,x\n",
            "row 1, column `a`: 99999999999 is out of range for INTEGER",
        ),
        (
            "t.ndjson",
            "{\"a\": 1}\n{\"a\": 1.5}\n",
            "row 2, column `a`: 1.5 does not fit INTEGER without loss",
        ),
        (
            "t.ndjson",
            "{\"a\": 1, \"q\": 2}\n",
            "row 1, column `q`: `t` has no such column",
        ),
        (
            "t.ndjson",
            "{\"a\": 1, \"a\": 2}\n",
            "row 1, column `a`: the field stands twice",
        ),
        ("t.ndjson", "{\"a\": 1}\n[1]\n", "row 2: the line is not a JSON object"),
        (
            "t.ndjson",
            "{\"c\": \"x\"}\n",
            "row 1: column `a` of `t` must have a value, and NULL is none",
        ),
    ] {
        let path = db.path(file);
        fs::write(&path, text).expect("writes");
        assert_eq!(db.fail(&format!("COPY t FROM '{path}'")).to_string(), message, "{text}");
    }
    assert_eq!(db.run("SELECT count(*) FROM t"), rows![[0]]);
    let path = db.path("nothing.csv");
    assert!(
        db.fail(&format!("COPY t FROM '{path}'"))
            .to_string()
            .starts_with("cannot read"),
        "a file that is not there"
    );
    fs::write(db.path("t.parquet"), "not parquet").expect("writes");
    let path = db.path("t.parquet");
    assert_eq!(db.fail(&format!("COPY t FROM '{path}'")).code().as_str(), "bad-value");
}

#[test]
fn headers_and_column_lists_say_where_fields_go() {
    let mut db = Db::new();
    db.run("CREATE TABLE t (a INT, b TEXT DEFAULT 'dflt', c INT)");
    let path = db.path("t.csv");
    fs::write(&path, "\u{feff}C,a\r\n1,2\r\n\"3\",\r\n").expect("writes");
    db.run(&format!("COPY t FROM '{path}' (HEADER)"));
    fs::write(&path, "5,six\n").expect("writes");
    db.run(&format!("COPY t (c, b) FROM '{path}'"));
    assert_eq!(
        db.run("SELECT * FROM t ORDER BY c"),
        rows![[2, "dflt", 1], ["NULL", "dflt", 3], ["NULL", "six", 5]]
    );
    fs::write(&path, "a,zz\n1,2\n").expect("writes");
    assert_eq!(
        db.fail(&format!("COPY t FROM '{path}' (HEADER)")).to_string(),
        "there is no column `t.zz`"
    );
    db.run(&format!(
        "COPY (SELECT a + 1 AS x, b FROM t WHERE a = 2) TO '{path}' (HEADER)"
    ));
    assert_eq!(fs::read_to_string(&path).expect("reads"), "x,b\n3,dflt\n");
}

#[test]
fn open_collections_take_objects_as_they_come() {
    let mut db = Db::new();
    db.run("DEFINE COLLECTION o");
    let path = db.path("o.ndjson");
    fs::write(
        &path,
        "{\"id\": 1, \"name\": \"x\"}\n\n{\"id\": 2, \"tags\": [1, 2], \"price\": 1.25, \"gone\": null}\n{\"ok\": true, \"id\": 3}\n",
    )
    .expect("writes");
    db.run(&format!("COPY o FROM '{path}'"));
    let answer = db.run_with("SELECT * FROM o ORDER BY id", &[]).expect("reads");
    assert_eq!(answer.columns(), ["id", "name", "tags", "price", "ok"]);
    assert_eq!(
        answer.rows,
        rows![
            [1, "x", "NULL", "NULL", "NULL"],
            [2, "NULL", "[1, 2]", 1.25, "NULL"],
            [3, "NULL", "NULL", "NULL", true]
        ]
    );
    fs::write(&path, "{\"id\": 4, \"price\": 1}\n{\"id\": 5, \"price\": \"dear\"}\n").expect("writes");
    let error = db.fail(&format!("COPY o FROM '{path}'"));
    assert_eq!(
        error.to_string(),
        "row 2, column `price`: `dear` is not a value of type DOUBLE PRECISION"
    );
}
