//! PostgreSQL's dialect with a bound on the work.
//!
//! sqlparser tries one reading and, when it fails, another. Where both readings start with the same expression, the tries
//! double with every level of nesting: thirty calls inside each other would keep it busy for hours. So every expression
//! takes a step, and a statement has a number of steps that is a multiple of its words. When they are used up, the
//! one error that sqlparser never tries to get around is raised.

use std::cell::Cell;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// What PostgreSQL's dialect answers.
const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// PostgreSQL's dialect for one statement.
#[derive(Debug)]
pub(crate) struct BoundedDialect {
    steps_left: Cell<usize>,
}

impl BoundedDialect {
    /// A dialect that reads at most `steps` expressions, failed tries included.
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            steps_left: Cell::new(steps),
        }
    }

    /// Whether reading was cut short; what it returned then means nothing.
    pub(crate) fn is_used_up(&self) -> bool {
        self.steps_left.get() == 0
    }

    fn take_step(&self) -> Result<(), ParserError> {
        let left = self.steps_left.get().saturating_sub(1);
        self.steps_left.set(left);
        if left == 0 {
            Err(ParserError::RecursionLimitExceeded)
        } else {
            Ok(())
        }
    }
}

/// Answers as PostgreSQL's dialect does. A newer sqlparser may have more to answer: its version is pinned, and this list
/// is compared with `postgresql.rs` when it changes.
macro_rules! as_postgres {
    ($($method:ident),* $(,)?) => {
        $(fn $method(&self) -> bool {
            POSTGRES.$method()
        })*
    };
}

impl Dialect for BoundedDialect {
    /// sqlparser also asks which dialect it is.
    fn dialect(&self) -> std::any::TypeId {
        std::any::TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_prefix(&self, _parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        self.take_step().err().map(Err)
    }

    /// `f(name VALUE x)` with any expression for the name is what doubles, and DataFusion has no such function.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRES.is_custom_operator_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        POSTGRES.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRES.prec_value(precedence)
    }

    /// `INSERT … SELECT 1 ON CONFLICT …`: that ON names no column.
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser) -> bool {
        POSTGRES.is_column_alias(keyword, parser)
            && !(*keyword == Keyword::ON && parser.peek_keyword(Keyword::CONFLICT))
    }

    as_postgres! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}
