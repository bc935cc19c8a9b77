//! `LIKE` with a pattern of pieces of text that stand anywhere, in their order: `%special%requests%`.
//!
//! Arrow searches for one piece, and takes a regular expression for several. Searching for one piece behind the other
//! finds the same and is several times faster.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch, StringViewArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use memchr::memmem::Finder;

/// A condition in which such patterns are searched for piece by piece.
pub(super) fn in_pieces(condition: &PhysicalExprRef, schema: &Schema) -> Result<PhysicalExprRef> {
    let taken = Arc::clone(condition).transform(|node| {
        let pieces = node.downcast_ref::<LikeExpr>();
        Ok(match pieces.and_then(|like| Pieces::of(like, schema)) {
            Some(pieces) => Transformed::yes(Arc::new(pieces) as PhysicalExprRef),
            None => Transformed::no(node),
        })
    });
    taken.data()
}

/// Whether a text has pieces in their order.
#[derive(Debug)]
struct Pieces {
    text: PhysicalExprRef,
    negated: bool,
    /// What the text must begin and end with. To compare with an empty text is slow: processors take their time to load
    /// nothing from nowhere.
    first: Option<String>,
    last: Option<String>,
    /// What must stand between them.
    between: Vec<Finder<'static>>,
    /// As it was written.
    pattern: String,
}

impl Pieces {
    fn of(like: &LikeExpr, schema: &Schema) -> Option<Self> {
        let pattern = like.pattern().downcast_ref::<Literal>()?;
        let ScalarValue::Utf8View(Some(pattern)) = pattern.value() else {
            return None;
        };
        let is_text = like.expr().data_type(schema).is_ok_and(|ty| ty == DataType::Utf8View);
        if like.case_insensitive() || !is_text {
            return None;
        }
        Self::parsed(Arc::clone(like.expr()), like.negated(), pattern)
    }

    fn parsed(text: PhysicalExprRef, negated: bool, pattern: &str) -> Option<Self> {
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let (first, rest) = pattern.split_once('%')?;
        let (between, last) = rest.rsplit_once('%').unwrap_or(("", rest));
        let between = between.split('%').filter(|piece| !piece.is_empty());
        let between: Vec<_> = between.map(|piece| Finder::new(piece).into_owned()).collect();
        let end = |piece: &str| (!piece.is_empty()).then(|| piece.to_owned());
        let (first, last) = (end(first), end(last));
        let pieces = between.len() + usize::from(first.is_some()) + usize::from(last.is_some());
        (pieces > 1).then(|| Self {
            text,
            negated,
            first,
            last,
            between,
            pattern: pattern.to_owned(),
        })
    }

    fn has(&self, text: &str) -> bool {
        let mut rest = text.as_bytes();
        if let Some(first) = &self.first {
            match rest.strip_prefix(first.as_bytes()) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        if let Some(last) = &self.last {
            match rest.strip_suffix(last.as_bytes()) {
                Some(before) => rest = before,
                None => return false,
            }
        }
        self.between.iter().all(|piece| match piece.find(rest) {
            Some(at) => {
                rest = &rest[at + piece.needle().len()..];
                true
            }
            None => false,
        })
    }

    fn ask(&self, texts: &StringViewArray) -> BooleanArray {
        let has = BooleanBuffer::collect_bool(texts.len(), |row| self.has(texts.value(row)) != self.negated);
        BooleanArray::new(has, texts.nulls().cloned())
    }
}

impl PartialEq for Pieces {
    fn eq(&self, other: &Self) -> bool {
        self.text.eq(&other.text) && self.negated == other.negated && self.pattern == other.pattern
    }
}

impl Eq for Pieces {}

impl Hash for Pieces {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.negated.hash(state);
        self.pattern.hash(state);
    }
}

impl fmt::Display for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.negated { "NOT " } else { "" };
        write!(f, "{} {not}LIKE {}", self.text, self.pattern)
    }
}

impl PhysicalExpr for Pieces {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.text.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = self.text.evaluate(batch)?.into_array(batch.num_rows())?;
        let texts = texts
            .as_string_view_opt()
            .ok_or_else(|| internal_datafusion_err!("a text is {}", texts.data_type()))?;
        Ok(ColumnarValue::Array(Arc::new(self.ask(texts))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.text]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let text = children.pop();
        let text = text.ok_or_else(|| internal_datafusion_err!("a pattern has lost its text"))?;
        let same = Self::parsed(text, self.negated, &self.pattern);
        let same = same.ok_or_else(|| internal_datafusion_err!("a pattern has changed"))?;
        Ok(Arc::new(same))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::kernels::comparison::like;
    use datafusion::physical_expr::expressions::lit;

    use super::*;

    /// All texts of up to six letters out of `a` and `b`, and a few others.
    fn texts() -> StringViewArray {
        let mut texts: Vec<String> = vec![String::new()];
        let mut from = 0;
        for _ in 0..6 {
            let upto = texts.len();
            for at in from..upto {
                for letter in ['a', 'b'] {
                    texts.push(format!("{}{letter}", texts[at]));
                }
            }
            from = upto;
        }
        texts.extend(["äbä", "a\nb", "a%b"].map(str::to_owned));
        let texts = texts.into_iter().map(Some);
        texts.chain([None]).collect()
    }

    #[test]
    fn pieces_are_found_where_like_finds_them() {
        let texts = texts();
        let mut taken = 0;
        for pattern in [
            "%a%b%",
            "a%b",
            "%ab%ba%",
            "a%a",
            "%a%a%a%",
            "ab%ab%",
            "%ab%b",
            "a%%b",
            "ä%ä",
            "%\n%b",
            "%aa%%bb%a%",
            "b%ab%b",
        ] {
            let wanted = like(&texts, &StringViewArray::new_scalar(pattern)).expect("a pattern");
            let pieces = Pieces::parsed(lit("text"), false, pattern).expect("pieces");
            taken += wanted.true_count();
            assert_eq!(pieces.ask(&texts), wanted, "{pattern}");
        }
        assert!(taken > 100, "patterns fit");
    }

    #[test]
    fn other_patterns_are_left_to_arrow() {
        for pattern in ["", "a", "%", "%%", "%a%", "a%", "%a", "a_%b", "%\\%%b%"] {
            assert!(Pieces::parsed(lit("text"), false, pattern).is_none(), "{pattern}");
        }
    }
}
