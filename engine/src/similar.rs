//! SIMILAR TO: SQL's own patterns, turned into regular expressions. DataFusion takes them for regular expressions as
//! they stand.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray as _, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use sqlparser::ast::{self, Expr};

use crate::error::EngineError;

/// The function's name in prepared statements.
const NAME: &str = "similar_to_regex";

/// The function that turns a pattern into a regular expression: of the pattern and its escape character.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(SimilarToRegex {
            signature: Signature::string(2, Volatility::Immutable),
        }))
    });
    Arc::clone(&FUNCTION)
}

/// `x SIMILAR TO p` as `x ~ similar_to_regex(p, escape)`.
pub(crate) fn as_regex(expr: &mut Expr) {
    let Expr::SimilarTo {
        negated,
        expr: value,
        pattern,
        escape_char,
    } = expr
    else {
        return;
    };
    let escape = match escape_char {
        Some(escape) => escape.value.clone(),
        None => ast::Value::SingleQuotedString("\\".to_owned()),
    };
    let op = if *negated {
        ast::BinaryOperator::PGRegexNotMatch
    } else {
        ast::BinaryOperator::PGRegexMatch
    };
    let args = vec![pattern.as_ref().clone(), Expr::value(escape)];
    *expr = Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(Expr::Nested(value.clone())),
        op,
        right: Box::new(crate::tree::call(NAME, args.into_iter().map(unnamed).collect())),
    }));
}

fn unnamed(expr: Expr) -> ast::FunctionArg {
    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SimilarToRegex {
    signature: Signature,
}

impl ScalarUDFImpl for SimilarToRegex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let mut texts = Vec::with_capacity(args.args.len());
        for arg in &args.args {
            texts.push(cast(&arg.to_array(rows)?, &DataType::Utf8View)?);
        }
        let [patterns, escapes] = texts.as_slice() else {
            return Err(EngineError::internal("SIMILAR TO takes a pattern and an escape character").into());
        };
        let pairs = patterns.as_string_view().iter().zip(escapes.as_string_view().iter());
        let regexes = pairs.map(|pair| match pair {
            (Some(pattern), Some(escape)) => regex(pattern, escape).map(Some),
            _ => Ok(None),
        });
        let regexes: StringViewArray = regexes.collect::<Result<Vec<_>, EngineError>>()?.into_iter().collect();
        let regexes: ArrayRef = Arc::new(regexes);
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&regexes, 0)?));
        }
        Ok(ColumnarValue::Array(regexes))
    }
}

/// `%` and `_` stand for any characters, the rest of a regular expression's signs that SQL knows stay.
fn regex(pattern: &str, escape: &str) -> Result<String, EngineError> {
    let mut escapes = escape.chars();
    let (escape, None) = (escapes.next(), escapes.next()) else {
        return Err(EngineError::bad_value("an escape character is one character"));
    };
    let mut regex = String::from("(?s)^(?:");
    let mut in_brackets = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let Some(escaped) = characters.next() else {
                return Err(EngineError::bad_value("a pattern ends with its escape character"));
            };
            // `#"` with the escape character # marks a part for SUBSTRING, and matches nothing.
            if escaped != '"' {
                push_literal(&mut regex, escaped);
            }
            continue;
        }
        match character {
            ']' if in_brackets => {
                in_brackets = false;
                regex.push(']');
            }
            '\\' => regex.push_str("\\\\"),
            _ if in_brackets => regex.push(character),
            '[' => {
                in_brackets = true;
                regex.push('[');
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '.' | '^' | '$' => push_literal(&mut regex, character),
            _ => regex.push(character),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

fn push_literal(regex: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_regular_expressions() {
        let regex = |pattern| regex(pattern, "\\").expect("a pattern");
        assert_eq!(regex("a%_b"), "(?s)^(?:a.*.b)$");
        assert_eq!(regex("(a|b)+"), "(?s)^(?:(?:a|b)+)$");
        assert_eq!(regex("a.c"), "(?s)^(?:a\\.c)$");
        assert_eq!(regex("a\\\"b%\\\"c"), "(?s)^(?:ab.*c)$");
        assert_eq!(regex("[%_]\\%"), "(?s)^(?:[%_]\\%)$");
    }
}
