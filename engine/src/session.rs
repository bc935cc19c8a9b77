//! DataFusion, set up once: options, functions, rules and memory that every statement shares.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::Dialect;
use datafusion::execution::FunctionRegistry as _;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, TrackConsumersPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::AggregateUDF;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::prelude::SessionConfig;

use crate::arithmetic::CheckedIntegers;
use crate::engine::EngineConfig;
use crate::memo::Memo;
use crate::pg::operators::Operators;
use crate::rules::JoinOrder;
use crate::set_operations::CountedSets;
use crate::sum::CheckedSum;
use crate::types::ColumnTypePlanner;
use crate::unnest::Unnest;
use crate::{math, ordered, similar};

/// How many of the largest users of memory an error names.
const CONSUMERS_SHOWN: usize = 3;

/// A join whose smaller side has fewer rows than this, for two threads, gathers that side once for all threads. With a
/// partition for each thread, both sides would be hashed and copied first, and what the smaller side knows of the keys
/// would come to the scan of the larger one as a choice between partitions. Gathering is the work of one thread, so the
/// more threads there are the fewer rows are worth it.
const GATHERED_ROWS: usize = 2 * 1024 * 1024;

/// The same where the size of the rows is known and their number is not.
const GATHERED_BYTES: usize = GATHERED_ROWS * 64;

/// The session from which each statement's own is copied. It knows no tables.
pub(crate) fn template(config: &EngineConfig) -> Result<SessionState> {
    let mut state = SessionStateBuilder::new()
        .with_config(session_config(config))
        .with_runtime_env(runtime(config)?)
        // Before DataFusion's own: the first that knows an operator has it.
        .with_expr_planners(vec![Arc::new(Operators)])
        .with_default_features()
        .with_type_planner(Arc::new(ColumnTypePlanner))
        .with_analyzer_rule(Arc::new(CountedSets))
        .with_analyzer_rule(Arc::new(Unnest))
        .with_analyzer_rule(Arc::new(CheckedIntegers))
        .with_optimizer_rules(optimizer_rules())
        .with_statistics_registry(crate::rules::registry())
        .build();
    for function in crate::pg::overload::functions(&state)? {
        state.register_udf(function)?;
    }
    for function in crate::pg::functions() {
        state.register_udf(function)?;
    }
    state.register_udaf(Arc::new(AggregateUDF::from(CheckedSum::default())))?;
    for function in ordered::functions() {
        state.register_udaf(function)?;
    }
    for function in math::functions().chain([similar::function()]) {
        state.register_udf(function)?;
    }
    for (function, alias) in [
        ("bool_and", "every"),
        ("var", "variance"),
        ("first_value", "first"),
        ("last_value", "last"),
    ] {
        let aliased = state.udaf(function)?.as_ref().clone().with_aliases([alias]);
        state.register_udaf(Arc::new(aliased))?;
    }
    Ok(state)
}

/// `DataFusion`'s rules for logical plans, and ours.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    // Behind the rules that bring conditions to the tables, before those that leave columns out.
    let behind = rules.iter().position(|rule| rule.name() == "push_down_filter");
    rules.insert(behind.map_or(rules.len(), |at| at + 1), Arc::new(JoinOrder));
    rules
}

fn session_config(config: &EngineConfig) -> SessionConfig {
    let mut session = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_target_partitions(config.threads.max(1))
        .with_extension(Arc::new(Memo::default()));
    let options = session.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.collect_spans = true;
    options.sql_parser.map_string_types_to_utf8view = true;
    // `1.5` is a NUMERIC.
    options.sql_parser.parse_float_as_decimal = true;
    // `now()` is a TIMESTAMPTZ.
    options.execution.time_zone = Some("+00:00".to_owned());
    options.optimizer.use_statistics_registry = true;
    let others = config.threads.saturating_sub(1).max(1);
    options.optimizer.hash_join_single_partition_threshold_rows = GATHERED_ROWS / others;
    options.optimizer.hash_join_single_partition_threshold = GATHERED_BYTES / others;
    session
}

fn runtime(config: &EngineConfig) -> Result<Arc<RuntimeEnv>> {
    let pool: Arc<dyn MemoryPool> = match config.memory_bytes {
        // First come, first served: a fair share per statement would starve all of them when there are many.
        Some(bytes) => Arc::new(TrackConsumersPool::new(
            GreedyMemoryPool::new(bytes),
            std::num::NonZeroUsize::new(CONSUMERS_SHOWN).unwrap_or(std::num::NonZeroUsize::MIN),
        )),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    let disk = match &config.spill_dir {
        Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(disk))
        .build_arc()
}
