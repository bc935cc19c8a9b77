//! Queries derived from TPC-H and the load of their tables, beside DuckDB and PostgreSQL on the same machine in the same
//! run.
//!
//! Both databases hold the same rows in their own files. Queries run hot: each several times, the best counts. Loads count
//! until the rows are durable. PostgreSQL only loads: its times for these queries say little on two cores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use candor_client::{Client, Config};
use candor_sqllogictest::conformance_folder;
use candor_sqllogictest::nodes::Node;
use candor_sqllogictest::tpch::{TABLES, write_csv};

use crate::duckdb::{self, Job};
use crate::machine::{peak_bytes, resident_bytes};
use crate::postgres::Postgres;
use crate::samples::Short;
use crate::{Bench, namespace};

/// How often each query runs.
const ROUNDS: usize = 3;

/// The table that is loaded from a Parquet file, a second time and for the figure alone.
const PARQUET: &str = "lineitem_parquet";

/// How long one statement may take at most.
const STATEMENT_MAX: Duration = Duration::from_mins(30);

/// What is measured.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// The scale factor: 1 is about one gigabyte of text
    #[arg(long, default_value = "1")]
    scale: Scale,
    /// Only these queries [default: all 22]
    #[arg(long, value_delimiter = ',')]
    queries: Vec<usize>,
    /// `--memory` of the node
    #[arg(long)]
    memory: Option<String>,
    /// Leave the peers out
    #[arg(long)]
    alone: bool,
    /// Print where the time of each query goes
    #[arg(long)]
    explain: bool,
    /// Keep tables in this folder, and use those that a run before left there
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// A scale factor.
#[derive(Clone, Copy, Debug)]
struct Scale(f64);

impl Default for Scale {
    fn default() -> Self {
        Self(1.0)
    }
}

impl std::str::FromStr for Scale {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A folder with the tables as files, and with the databases.
struct Place {
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

/// Loads and queries.
pub(crate) async fn measure(bench: &Bench, options: &Options) -> Result<()> {
    let place = Place::new(options)?;
    let queries = queries(options)?;
    println!("\ntpch: scale factor {}", options.scale.0);
    let files = place.files(options.scale.0)?;
    let parquet = place.parquet(bench, options, &files)?;
    let ours = candor(bench, options, &place, (&files, parquet.as_deref()), &queries).await?;
    if options.alone {
        return Ok(());
    }
    let theirs = duckdb(bench, &place, (&files, parquet.as_deref()), &queries)?;
    println!(
        "  beside DuckDB {} with {} threads, its native format",
        theirs.version, bench.threads
    );
    for (at, (table, _)) in TABLES.iter().enumerate() {
        if let Some(loaded) = ours.loads.get(*table) {
            ratio(&format!("COPY {table}, CSV"), *loaded, theirs.loads[at]);
        }
    }
    if let (Some(ours), Some(theirs)) = (ours.loads.get(PARQUET), theirs.loads.get(TABLES.len())) {
        ratio("COPY lineitem, Parquet", *ours, *theirs);
    }
    if !ours.loads.is_empty() {
        postgres(&files, ours.loads["lineitem"])?;
    }
    for ((number, _), (ours, theirs)) in queries.iter().zip(ours.queries.iter().zip(&theirs.queries)) {
        ratio(&format!("Q{number}"), *ours, *theirs);
    }
    ratio("all queries", ours.queries.iter().sum(), theirs.queries.iter().sum());
    Ok(())
}

fn ratio(what: &str, ours: Duration, theirs: Duration) {
    println!(
        "  {what:<20} Candor {:>8}  peer {:>8}  ratio {:.2}",
        Short(ours).to_string(),
        Short(theirs).to_string(),
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}

impl Place {
    fn new(options: &Options) -> Result<Self> {
        if let Some(folder) = &options.keep {
            std::fs::create_dir_all(folder)?;
            return Ok(Self {
                folder: std::path::absolute(folder)?,
                _temporary: None,
            });
        }
        let temporary = tempfile::tempdir()?;
        Ok(Self {
            folder: temporary.path().to_owned(),
            _temporary: Some(temporary),
        })
    }

    /// The tables as CSV files, made where they are missing.
    fn files(&self, scale: f64) -> Result<BTreeMap<&'static str, PathBuf>> {
        let mut files = BTreeMap::new();
        for (table, _) in TABLES {
            let path = self.folder.join(format!("{table}.csv"));
            if !path.exists() {
                let passing = path.with_extension("tmp");
                write_csv(table, scale, &passing)?;
                std::fs::rename(&passing, &path)?;
            }
            files.insert(table, path);
        }
        Ok(files)
    }

    /// The largest table as a Parquet file, which DuckDB makes if it is missing; `None` if nobody could make it.
    fn parquet(
        &self,
        bench: &Bench,
        options: &Options,
        files: &BTreeMap<&'static str, PathBuf>,
    ) -> Result<Option<PathBuf>> {
        let path = self.folder.join("lineitem.parquet");
        if path.exists() || options.alone {
            return Ok(path.exists().then_some(path));
        }
        let (table, columns) = TABLES[TABLES.len() - 1];
        let database = self.folder.join("parquet.db");
        let job = Job {
            setup: vec![without_keys(&format!("CREATE TABLE {table} ({columns})"))],
            loads: vec![csv_load(files, table)],
            after: vec![format!("COPY {table} TO '{}' (FORMAT parquet)", path.display())],
            ..Job::default()
        };
        duckdb::run(&database, bench.threads, &job)?;
        std::fs::remove_file(&database)?;
        Ok(Some(path))
    }
}

/// Table, file and options of a COPY of CSV.
fn csv_load(files: &BTreeMap<&'static str, PathBuf>, table: &str) -> (String, String, String) {
    let path = files[table].display().to_string();
    (table.to_owned(), path, "FORMAT csv, HEADER true".to_owned())
}

/// The texts of the queries, each as its statements.
fn queries(options: &Options) -> Result<Vec<(usize, Vec<String>)>> {
    let folder = conformance_folder()
        .context("the queries stand in the folder of the suites: name it in CANDOR_CONFORMANCE")?
        .join("tpch/queries");
    let wanted: Vec<usize> = match options.queries.as_slice() {
        [] => (1..=22).collect(),
        some => some.to_vec(),
    };
    let read = |number: usize| -> Result<(usize, Vec<String>)> {
        let path = folder.join(format!("q{number}.sql"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        // The fraction of Q11 holds for scale factor 1.
        let text = text.replace("0.0001000000", &format!("{:.10}", 0.0001 / options.scale.0));
        let statements = text.split(';').map(str::trim).filter(|text| !text.is_empty());
        Ok((number, statements.map(str::to_owned).collect()))
    };
    wanted.into_iter().map(read).collect()
}

/// What was measured of one database.
struct Measured {
    loads: BTreeMap<&'static str, Duration>,
    queries: Vec<Duration>,
}

async fn candor(
    bench: &Bench,
    options: &Options,
    place: &Place,
    (files, parquet): (&BTreeMap<&'static str, PathBuf>, Option<&Path>),
    queries: &[(usize, Vec<String>)],
) -> Result<Measured> {
    let data = place.folder.join("candor");
    let loaded = data.exists();
    let mut nodes = bench.nodes.clone();
    nodes.arguments = vec!["--statement-deadline".into(), "30m".into()];
    if let Some(memory) = &options.memory {
        nodes.arguments.extend(["--memory".into(), memory.clone()]);
    }
    let started = Instant::now();
    let mut node = Node::start(&nodes, "n1", &data, None)?;
    let mut loads = BTreeMap::new();
    if loaded {
        println!("  ready again after {}", Short(started.elapsed()));
    } else {
        loads = load(&node, files, parquet).await?;
        println!(
            "  {} on disk, resident {}, at most {} while loading",
            size(folder_bytes(&data)),
            memory(resident_bytes(node.process_id())),
            memory(peak_bytes(node.process_id()))
        );
        drop(node);
        let started = Instant::now();
        node = Node::start(&nodes, "n1", &data, None)?;
        println!("  ready again after {}", Short(started.elapsed()));
    }
    let client = client(&node)?;
    let mut best = Vec::new();
    for (number, statements) in queries {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for statement in statements {
                client
                    .execute(statement, &[])
                    .await
                    .with_context(|| format!("Q{number}"))?;
            }
            times.push(started.elapsed());
        }
        best.push(*times.iter().min().context("no rounds")?);
        println!(
            "  Q{number:<3} first {:>8}  best {:>8}",
            Short(times[0]).to_string(),
            Short(best[best.len() - 1]).to_string()
        );
        if options.explain {
            explain(&client, statements).await?;
        }
    }
    println!(
        "  all queries {}, resident {}, at most {}",
        Short(best.iter().sum()),
        memory(resident_bytes(node.process_id())),
        memory(peak_bytes(node.process_id()))
    );
    Ok(Measured { loads, queries: best })
}

async fn load(
    node: &Node,
    files: &BTreeMap<&'static str, PathBuf>,
    parquet: Option<&Path>,
) -> Result<BTreeMap<&'static str, Duration>> {
    let maker = namespace::make(node.url(), Config::default()).await?;
    for (table, columns) in TABLES {
        maker.execute(&format!("CREATE TABLE {table} ({columns})"), &[]).await?;
    }
    let client = client(node)?;
    let mut loads = BTreeMap::new();
    for (table, path) in files {
        let sql = format!("COPY {table} FROM '{}' (FORMAT csv, HEADER true)", path.display());
        loads.insert(*table, copy(&client, table, &sql).await?);
    }
    if let Some(path) = parquet {
        let (_, columns) = TABLES[TABLES.len() - 1];
        maker
            .execute(&format!("CREATE TABLE {PARQUET} ({columns})"), &[])
            .await?;
        let sql = format!("COPY {PARQUET} FROM '{}' (FORMAT parquet)", path.display());
        loads.insert(PARQUET, copy(&client, PARQUET, &sql).await?);
        maker.execute(&format!("DROP TABLE {PARQUET}"), &[]).await?;
    }
    Ok(loads)
}

async fn copy(client: &Client, table: &str, sql: &str) -> Result<Duration> {
    let started = Instant::now();
    client
        .execute(sql, &[])
        .await
        .with_context(|| format!("COPY {table}"))?;
    let took = started.elapsed();
    println!("  COPY {table:<16} {:>8}", Short(took).to_string());
    Ok(took)
}

fn client(node: &Node) -> Result<Client> {
    let selected = || Some("bench".to_owned());
    let config = Config {
        namespace: selected(),
        database: selected(),
        deadline: STATEMENT_MAX,
        ..Config::default()
    };
    Ok(Client::connect(node.url(), config)?)
}

/// Prints the operators of a plan with what they took.
async fn explain(client: &Client, statements: &[String]) -> Result<()> {
    let Some(query) = statements
        .iter()
        .find(|statement| !statement.to_lowercase().contains(" view "))
    else {
        return Ok(());
    };
    let mut set_up = Vec::new();
    for statement in statements.iter().take_while(|statement| *statement != query) {
        client.execute(statement, &[]).await?;
        set_up.push(statement);
    }
    let answer = client.execute(&format!("EXPLAIN ANALYZE {query}"), &[]).await?;
    for result in &answer.results {
        for row in &result.rows {
            for line in row.iter().filter_map(|value| value.as_str()).flat_map(str::lines) {
                println!("      {line}");
            }
        }
    }
    for statement in statements.iter().skip(set_up.len() + 1) {
        client.execute(statement, &[]).await?;
    }
    Ok(())
}

fn duckdb(
    bench: &Bench,
    place: &Place,
    (files, parquet): (&BTreeMap<&'static str, PathBuf>, Option<&Path>),
    queries: &[(usize, Vec<String>)],
) -> Result<duckdb::Answer> {
    let database = place.folder.join("duck.db");
    if database.exists() {
        std::fs::remove_file(&database)?;
    }
    let create = |(table, columns): &(&str, &str)| format!("CREATE TABLE {table} ({columns})");
    let mut setup: Vec<String> = TABLES.iter().map(create).map(|sql| without_keys(&sql)).collect();
    let mut loads: Vec<_> = TABLES.iter().map(|(table, _)| csv_load(files, table)).collect();
    if let Some(path) = parquet {
        let (_, columns) = TABLES[TABLES.len() - 1];
        setup.push(without_keys(&create(&(PARQUET, columns))));
        loads.push((PARQUET.into(), path.display().to_string(), "FORMAT parquet".into()));
    }
    let job = Job {
        // Keys would only slow its loads down; its queries do not use them.
        setup,
        loads,
        queries: queries.iter().map(|(_, statements)| statements.clone()).collect(),
        rounds: ROUNDS,
        ..Job::default()
    };
    duckdb::run(&database, bench.threads, &job)
}

fn without_keys(sql: &str) -> String {
    match sql.rfind(", PRIMARY KEY (") {
        Some(at) => format!("{})", &sql[..at]),
        None => sql.replace(" PRIMARY KEY", " NOT NULL"),
    }
}

fn postgres(files: &BTreeMap<&'static str, PathBuf>, ours: Duration) -> Result<()> {
    let postgres = Postgres::start()?;
    let (table, columns) = TABLES[TABLES.len() - 1];
    postgres.sql(&format!("CREATE TABLE {table} ({columns})"))?;
    let path = &files[table];
    readable(path)?;
    let started = Instant::now();
    postgres.sql(&format!(
        "COPY {table} FROM '{}' (FORMAT csv, HEADER true)",
        path.display()
    ))?;
    println!("  beside {}", postgres.version()?);
    ratio(&format!("COPY {table}, CSV"), ours, started.elapsed());
    Ok(())
}

/// PostgreSQL's server reads the file as a user of its own.
fn readable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for folder in path.ancestors().skip(1) {
        let mode = std::fs::metadata(folder)?.permissions().mode();
        if mode & 0o001 == 0 {
            let owned = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode | 0o011));
            if owned.is_err() {
                bail!("PostgreSQL cannot enter {}", folder.display());
            }
        }
    }
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))?)
}

fn memory(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), size)
}

fn size(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

fn folder_bytes(folder: &Path) -> u64 {
    crate::catchup::folder_bytes(folder)
}
