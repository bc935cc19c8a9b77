//! The way of the eight tables into the cluster: COPY at the leader.

use candor_sqllogictest::tpch::{TABLES, write_csv};

use crate::harness::Cluster;

/// Makes the tables and fills them; gives the number of rows.
pub(super) async fn load(cluster: &Cluster, scale: f64) -> usize {
    let door = cluster.door(0);
    let mut all = 0;
    for (table, columns) in TABLES {
        door.run(&format!("CREATE TABLE {table} ({columns})")).await;
        let path = cluster.folder().join(format!("{table}.csv"));
        let rows = write_csv(table, scale, &path).expect("written");
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
