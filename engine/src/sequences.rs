//! nextval, currval, lastval and setval.
//!
//! Values come from whoever runs the statement ([`SequenceSource`]), which reserves them in the log before they are given
//! out: so none comes twice, whatever becomes of the transaction that took it. A sequence that only the open transaction
//! knows is counted here, and how far it went goes along with the transaction.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array as _, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use candor_storage::{Catalog, SchemaChange, SequenceDef, SequenceId, SequencePlace};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use sqlparser::ast;

use crate::error::EngineError;
use crate::parse::parse_expr;
use crate::prepare::folded;

/// SQLSTATE of a sequence behind its last value.
const SEQUENCE_LIMIT_EXCEEDED: &str = "2200H";

/// SQLSTATE of currval without a nextval before.
const NOT_IN_PREREQUISITE_STATE: &str = "55000";

/// Who gives out the values of sequences that others see too.
pub trait SequenceSource: Send + Sync {
    /// `count` values, each reserved for ever; `None` for a sequence that is not there but for an open transaction.
    /// It may take a write to the log; without `may_wait` that is [`NotDrawn::WouldWait`].
    ///
    /// # Errors
    /// The sequence is at its end, or the log cannot be written.
    fn draw(&self, id: SequenceId, count: usize, may_wait: bool) -> Result<Option<Vec<i64>>, NotDrawn>;

    /// Sets a sequence to `value`, which comes next, or has come already; `None` as above.
    ///
    /// # Errors
    /// The log cannot be written.
    fn set(&self, id: SequenceId, value: i64, is_called: bool, may_wait: bool) -> Result<Option<()>, NotDrawn>;
}

/// Why no value came out of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDrawn {
    /// The caller must not wait.
    WouldWait,
    /// There are no more values.
    AtEnd,
    /// The log cannot be written, or the leader is another node by now.
    Failed(String),
}

/// What a session has drawn.
#[derive(Debug, Default)]
pub struct SessionSequences(Mutex<Drawn>);

/// A sequence, and the namespace that it stands in.
type Place = (String, SequenceId);

#[derive(Debug, Default)]
struct Drawn {
    last: Option<Place>,
    current: HashMap<Place, i64>,
}

/// Sequences as one statement uses them.
#[derive(Default)]
pub struct Sequences {
    session: Arc<SessionSequences>,
    source: Option<Arc<dyn SequenceSource>>,
    /// Whether the statement is a write.
    draws: AtomicBool,
    may_wait: AtomicBool,
    has_to_wait: AtomicBool,
    /// How far the sequences went that only the open transaction knows.
    own: Mutex<BTreeMap<SequenceId, (SequencePlace, SequencePlace)>>,
}

impl Sequences {
    /// Of a session, with values from `source`; without one they are those of the transaction alone.
    pub fn new(session: Arc<SessionSequences>, source: Option<Arc<dyn SequenceSource>>) -> Self {
        Self {
            session,
            source,
            ..Self::default()
        }
    }

    /// The statement is a write, and values may be drawn.
    pub(crate) fn allow(&self, may_wait: bool) {
        self.draws.store(true, Ordering::Relaxed);
        self.may_wait.store(may_wait, Ordering::Relaxed);
    }

    /// Whether a value was wanted that could not be had without waiting.
    pub(crate) fn has_to_wait(&self) -> bool {
        self.has_to_wait.load(Ordering::Relaxed)
    }

    /// What the statement changes of sequences.
    pub(crate) fn moves(&self) -> Vec<SchemaChange> {
        let own = std::mem::take(&mut *locked(&self.own));
        let moved = |(id, (from, to))| SchemaChange::MoveSequence { id, from, to };
        own.into_iter().map(moved).collect()
    }

    fn check(&self, function: &str) -> Result<(), EngineError> {
        if self.draws.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(EngineError::unsupported_try(
            format!("{function} in a query that only reads"),
            "call it in the statement itself, not in a view",
        ))
    }

    fn failed(&self, def: &SequenceDef, why: NotDrawn) -> EngineError {
        match why {
            NotDrawn::WouldWait => {
                self.has_to_wait.store(true, Ordering::Relaxed);
                EngineError::internal("a sequence has to wait for the log")
            }
            NotDrawn::AtEnd => EngineError::Definition {
                message: format!("the sequence `{}` has given out its last value", def.name),
                sqlstate: SEQUENCE_LIMIT_EXCEEDED,
                help: Some("setval sets it back; CYCLE lets it begin anew".to_owned()),
            },
            NotDrawn::Failed(why) => {
                EngineError::internal(format!("no value of `{}` could be reserved: {why}", def.name))
            }
        }
    }

    fn draw(&self, def: &SequenceDef, count: usize) -> Result<Vec<i64>, EngineError> {
        if let Some(source) = &self.source {
            let drawn = source.draw(def.id, count, self.may_wait.load(Ordering::Relaxed));
            if let Some(values) = drawn.map_err(|why| self.failed(def, why))? {
                return Ok(values);
            }
        }
        let mut own = locked(&self.own);
        let (from, place) = own.get(&def.id).copied().unwrap_or((def.place, def.place));
        let here = SequenceDef { place, ..def.clone() };
        let reserved = here.reserve(count as u64);
        let (values, to) = reserved
            .filter(|(values, _)| values.left() == count as u64)
            .ok_or_else(|| self.failed(def, NotDrawn::AtEnd))?;
        own.insert(def.id, (from, to));
        Ok(values.collect())
    }

    fn set(&self, def: &SequenceDef, value: i64, is_called: bool) -> Result<(), EngineError> {
        if let Some(source) = &self.source {
            let set = source.set(def.id, value, is_called, self.may_wait.load(Ordering::Relaxed));
            if set.map_err(|why| self.failed(def, why))?.is_some() {
                return Ok(());
            }
        }
        let mut own = locked(&self.own);
        let from = own.get(&def.id).map_or(def.place, |(from, _)| *from);
        own.insert(def.id, (from, def.set_to(value, is_called)));
        Ok(())
    }
}

/// What a thread that panicked has left is still whole: entries are put in and taken out at once.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

/// One of the functions, for one statement.
struct SequenceFunction {
    kind: Kind,
    signature: Signature,
    sequences: Arc<Sequences>,
    catalog: Arc<Catalog>,
    namespace: String,
    database: Option<String>,
}

impl fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceFunction")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.sequences, &other.sequences)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

/// `nextval('s'::regclass)`, as PostgreSQL writes it, names the sequence by its text.
pub(crate) fn names_as_text(expr: &mut ast::Expr) {
    let ast::Expr::Function(function) = expr else {
        return;
    };
    let is_one = |name: &ast::Ident| matches!(folded(name).as_str(), "nextval" | "currval" | "setval");
    let named = function.name.0.last().and_then(ast::ObjectNamePart::as_ident);
    let (true, ast::FunctionArguments::List(list)) = (named.is_some_and(is_one), &mut function.args) else {
        return;
    };
    if let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))) = list.args.first_mut()
        && let ast::Expr::Cast {
            expr: text,
            data_type: ast::DataType::Regclass,
            ..
        } = arg
    {
        *arg = ast::Expr::clone(text);
    }
}

/// The functions of a statement that sees these definitions.
pub(crate) fn functions(
    sequences: &Arc<Sequences>,
    catalog: &Arc<Catalog>,
    namespace: &str,
    database: Option<&str>,
) -> impl Iterator<Item = Arc<ScalarUDF>> {
    let two_or_three = vec![TypeSignature::Any(2), TypeSignature::Any(3)];
    let kinds = [
        (Kind::Next, Signature::any(1, Volatility::Volatile)),
        (Kind::Current, Signature::any(1, Volatility::Volatile)),
        (Kind::Last, Signature::nullary(Volatility::Volatile)),
        (Kind::Set, Signature::one_of(two_or_three, Volatility::Volatile)),
    ];
    kinds.into_iter().map(move |(kind, signature)| {
        Arc::new(ScalarUDF::from(SequenceFunction {
            kind,
            signature,
            sequences: Arc::clone(sequences),
            catalog: Arc::clone(catalog),
            namespace: namespace.to_owned(),
            database: database.map(str::to_owned),
        }))
    })
}

impl SequenceFunction {
    /// The sequence that a text names, which is read as a name in SQL is.
    fn named(&self, text: &str) -> Result<&Arc<SequenceDef>, EngineError> {
        let unknown = || EngineError::UnknownName {
            what: "sequence",
            name: text.to_owned(),
            help: None,
            span: None,
        };
        let parts: Vec<String> = match parse_expr(text) {
            Ok(ast::Expr::Identifier(name)) => vec![folded(&name)],
            Ok(ast::Expr::CompoundIdentifier(parts)) => parts.iter().map(folded).collect(),
            _ => return Err(unknown()),
        };
        let found = match parts.as_slice() {
            [name] => self
                .database
                .as_ref()
                .and_then(|database| self.catalog.sequence_named(database, name)),
            [.., database, name] => self.catalog.sequence_named(database, name),
            [] => None,
        };
        found.ok_or_else(unknown)
    }

    fn place(&self, id: SequenceId) -> Place {
        (self.namespace.clone(), id)
    }

    fn drawn(&self, def: &SequenceDef, value: i64) {
        let mut drawn = locked(&self.sequences.session.0);
        drawn.last = Some(self.place(def.id));
        drawn.current.insert(self.place(def.id), value);
    }

    fn next(&self, names: &ArrayRef) -> Result<Int64Array, EngineError> {
        self.sequences.check("nextval")?;
        let names = cast(names, &DataType::Utf8)?;
        let names = names.as_string::<i32>();
        // Rows in a row that name the same sequence draw together.
        let mut values: Vec<Option<i64>> = Vec::with_capacity(names.len());
        while values.len() < names.len() {
            let at = values.len();
            if names.is_null(at) {
                values.push(None);
                continue;
            }
            let same = (at..names.len()).take_while(|row| names.is_valid(*row) && names.value(*row) == names.value(at));
            let count = same.count();
            let def = self.named(names.value(at))?;
            let drawn = self.sequences.draw(def, count)?;
            if let Some(last) = drawn.last() {
                self.drawn(def, *last);
            }
            values.extend(drawn.into_iter().map(Some));
        }
        Ok(Int64Array::from(values))
    }

    fn current(&self, names: &ArrayRef) -> Result<Int64Array, EngineError> {
        let names = cast(names, &DataType::Utf8)?;
        let value = |name: Option<&str>| -> Result<Option<i64>, EngineError> {
            let Some(name) = name else { return Ok(None) };
            let def = self.named(name)?;
            let drawn = locked(&self.sequences.session.0);
            let value = drawn.current.get(&self.place(def.id)).copied();
            value.map(Some).ok_or_else(|| not_drawn(&format!("of `{}`", def.name)))
        };
        names.as_string::<i32>().iter().map(value).collect()
    }

    fn last(&self) -> Result<i64, EngineError> {
        let drawn = locked(&self.sequences.session.0);
        let value = drawn.last.as_ref().and_then(|last| drawn.current.get(last)).copied();
        value.ok_or_else(|| not_drawn("of any sequence"))
    }

    fn set(&self, args: &[ArrayRef]) -> Result<Int64Array, EngineError> {
        self.sequences.check("setval")?;
        let names = cast(&args[0], &DataType::Utf8)?;
        let values = cast(&args[1], &DataType::Int64)?;
        let called = args.get(2).map(|called| cast(called, &DataType::Boolean)).transpose()?;
        let (names, values) = (names.as_string::<i32>(), values.as_primitive::<Int64Type>());
        let mut set = Vec::with_capacity(names.len());
        for row in 0..names.len() {
            let called = called.as_ref().map(AsArray::as_boolean);
            if names.is_null(row) || values.is_null(row) || called.is_some_and(|called| called.is_null(row)) {
                set.push(None);
                continue;
            }
            let (def, value) = (self.named(names.value(row))?, values.value(row));
            if !(def.min..=def.max).contains(&value) {
                return Err(EngineError::Definition {
                    message: format!(
                        "{value} is no value of `{}`, which has {} to {}",
                        def.name, def.min, def.max
                    ),
                    sqlstate: "22003",
                    help: None,
                });
            }
            let is_called = called.is_none_or(|called| called.value(row));
            self.sequences.set(def, value, is_called)?;
            if is_called {
                self.drawn(def, value);
            }
            set.push(Some(value));
        }
        Ok(Int64Array::from(set))
    }
}

fn not_drawn(of: &str) -> EngineError {
    EngineError::Definition {
        message: format!("this session has not drawn a value {of} yet"),
        sqlstate: NOT_IN_PREREQUISITE_STATE,
        help: Some("nextval draws one".to_owned()),
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Next => "nextval",
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let values = match self.kind {
            Kind::Next => self.next(&arrays[0]),
            Kind::Current => self.current(&arrays[0]),
            Kind::Last => self.last().map(|value| Int64Array::from(vec![value; rows])),
            Kind::Set => self.set(&arrays),
        };
        Ok(ColumnarValue::Array(Arc::new(values?)))
    }
}
