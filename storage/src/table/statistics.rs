//! What is known of a table's values without reading its rows: a matter of planning, so about right is right enough.
//!
//! Only segments are looked at. What stands in memory is little beside them, or there is no segment yet and nothing is
//! known.

use std::sync::Arc;

use super::TableSnapshot;
use super::layers::Layers;
use crate::layout::{Layout, LayoutColumn};
use crate::segments::{ColumnBounds, Sketch};

/// What is known of one column.
#[derive(Clone, Debug)]
pub struct ColumnSummary {
    /// Distinct values, about; `None` for types whose values are not counted.
    pub distinct: Option<u64>,
    /// The smallest and the largest value that a segment holds, ended rows included, and how many are NULL.
    pub bounds: Option<ColumnBounds>,
}

/// What is known of the columns of a table, by ordinal.
pub type TableSummary = Vec<ColumnSummary>;

/// The last summary, and what it is of. Addresses name the segments: should one be used again, an estimate is off.
#[derive(Default)]
pub(super) struct KeptSummary {
    of: Vec<usize>,
    summary: Option<Arc<TableSummary>>,
}

impl TableSnapshot {
    /// What is known of the columns; `None` while no row stands in a segment, or if a segment cannot be read, which
    /// whoever reads its rows is told. May read footers of segments; the answer is kept until other segments take over.
    pub fn summary(&self) -> Option<Arc<TableSummary>> {
        let layers = self.table.layers();
        let segments = layers.main.iter().map(|main| Arc::as_ptr(main).addr());
        let of: Vec<usize> = segments.chain([Arc::as_ptr(&self.layout).addr()]).collect();
        let mut kept = self.table.summary.lock();
        if kept.of != of {
            *kept = KeptSummary {
                summary: summary(&layers, &self.layout).map(Arc::new),
                of,
            };
        }
        kept.summary.clone()
    }
}

fn summary(layers: &Layers, layout: &Layout) -> Option<TableSummary> {
    if layers.main.is_empty() {
        return None;
    }
    layout.columns.iter().map(|column| of_column(layers, column)).collect()
}

fn of_column(layers: &Layers, column: &LayoutColumn) -> Option<ColumnSummary> {
    let mut sketch: Option<Sketch> = None;
    let mut statistics = None;
    let (mut counted, mut known) = (true, true);
    for main in &layers.main {
        match main.segment.info().column(column.id) {
            None => known = false,
            Some(more) => match &mut statistics {
                None => statistics = Some(more.clone()),
                Some(all) => all.merge(more),
            },
        }
        match (main.segment.sketch(column.id).ok()?, &mut sketch) {
            (None, _) => counted = false,
            (Some(more), None) => sketch = Some(more),
            (Some(more), Some(all)) => all.merge(&more),
        }
    }
    Some(ColumnSummary {
        distinct: sketch.filter(|_| counted).map(|sketch| sketch.estimate()),
        bounds: statistics.filter(|_| known).and_then(|all| all.bounds(&column.ty)),
    })
}
