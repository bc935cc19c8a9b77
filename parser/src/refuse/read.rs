//! Clauses of queries.

use std::ops::ControlFlow;

use candor_proto::SourceSpan;
use sqlparser::ast::{self, VisitorMut};

use super::clauses;
use crate::error::ParseError;
use crate::lex::Words;
use crate::sql::bytes_of;

/// Visits every query, select, table and expression of a statement.
pub(super) struct Reads<'a> {
    pub(super) words: &'a Words<'a>,
}

type Flow = ControlFlow<ParseError>;

fn refuse(what: &str, help: &str, at: SourceSpan) -> Flow {
    ControlFlow::Break(ParseError::unsupported(what, help, at))
}

/// Refuses when `$present`.
macro_rules! refuse_if {
    ($present:expr, $what:expr, $help:expr, $at:expr) => {
        if $present {
            return refuse($what, $help, $at);
        }
    };
}

impl VisitorMut for Reads<'_> {
    type Break = ParseError;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> Flow {
        self.query_clauses(query)?;
        self.set_expression(&query.body)?;
        self.fetch(query)
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> Flow {
        self.select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> Flow {
        self.table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> Flow {
        self.expression(expr)
    }
}

impl Reads<'_> {
    fn query_clauses(&self, query: &ast::Query) -> Flow {
        let words = self.words;
        let ast::Query {
            with,
            body: _,
            order_by,
            limit_clause,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if let Some(with) = with {
            self.with(with)?;
            clauses::recursion(with, words)?;
        }
        clauses::constant_keys(query, words)?;
        if let Some(order_by) = order_by {
            self.order_by(order_by)?;
        }
        if let Some(lock) = locks.first() {
            let kind = match lock.lock_type {
                ast::LockType::Share => "SHARE",
                ast::LockType::Update => "UPDATE",
            };
            return refuse(
                &format!("FOR {kind}"),
                "reads lock nothing: of two transactions that write the same row the first wins and the other is told so (conflict), so write in the same transaction and try again",
                words.locate(&["FOR", kind]),
            );
        }
        refuse_if!(
            for_clause.is_some(),
            "FOR XML / FOR JSON",
            "the format of an answer is chosen by the request (Accept) or by COPY … TO",
            words.locate(&["FOR"])
        );
        refuse_if!(
            settings.is_some(),
            "SETTINGS",
            "settings are given before the query: SET name = value",
            words.locate(&["SETTINGS"])
        );
        refuse_if!(
            format_clause.is_some(),
            "FORMAT",
            "the format of an answer is chosen by the request (Accept) or by COPY … TO",
            words.locate(&["FORMAT"])
        );
        refuse_if!(
            !pipe_operators.is_empty(),
            "the pipe operator |>",
            "write the steps as WITH queries",
            words.whole()
        );
        match limit_clause {
            Some(ast::LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty() => refuse(
                "LIMIT … BY",
                "use row_number() OVER (PARTITION BY …)",
                words.locate(&["LIMIT"]),
            ),
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => refuse(
                "LIMIT offset, count",
                "write LIMIT count OFFSET offset",
                words.locate(&["LIMIT"]),
            ),
            _ => ControlFlow::Continue(()),
        }
    }

    pub(super) fn with(&self, with: &ast::With) -> Flow {
        for cte in &with.cte_tables {
            let ast::Cte {
                alias,
                query: _,
                from,
                // Whether a WITH query is computed once is the planner's choice, and never changes the answer.
                materialized: _,
                closing_paren_token: _,
            } = cte;
            self.alias(Some(alias))?;
            refuse_if!(
                from.is_some(),
                "FROM after a WITH query",
                "leave it away",
                self.words.whole()
            );
        }
        ControlFlow::Continue(())
    }

    fn order_by(&self, order_by: &ast::OrderBy) -> Flow {
        let ast::OrderBy { kind, interpolate } = order_by;
        let fills =
            matches!(kind, ast::OrderByKind::Expressions(items) if items.iter().any(|item| item.with_fill.is_some()));
        refuse_if!(
            fills || interpolate.is_some(),
            "WITH FILL",
            "join with generate_series(…) to fill gaps",
            self.words.locate(&["FILL"])
        );
        ControlFlow::Continue(())
    }

    fn set_expression(&self, body: &ast::SetExpr) -> Flow {
        match body {
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.set_expression(left)?;
                self.set_expression(right)
            }
            ast::SetExpr::Insert(_) => self.write_inside("INSERT", "INSERT INTO name WITH … SELECT …"),
            ast::SetExpr::Update(_) => self.write_inside("UPDATE", "UPDATE name SET … FROM (query) …"),
            ast::SetExpr::Delete(_) => self.write_inside("DELETE", "DELETE FROM name USING (query) …"),
            ast::SetExpr::Merge(_) => self.write_inside("MERGE", "MERGE INTO name USING (query) …"),
            ast::SetExpr::Table(_) => refuse(
                "TABLE name inside a query",
                "write SELECT * FROM name; TABLE name is read as a statement of its own",
                self.words.locate(&["TABLE"]),
            ),
            ast::SetExpr::Values(values) => {
                refuse_if!(
                    values.explicit_row || values.value_keyword,
                    "VALUES ROW(…) and VALUE",
                    "write VALUES (…), (…)",
                    self.words.whole()
                );
                ControlFlow::Continue(())
            }
            ast::SetExpr::Select(_) | ast::SetExpr::Query(_) => ControlFlow::Continue(()),
        }
    }

    fn write_inside(&self, word: &str, instead: &str) -> Flow {
        refuse(
            &format!("{word} inside a query"),
            &format!("a query changes nothing: make it a statement of its own ({instead})"),
            self.words.locate(&[word]),
        )
    }

    /// FETCH FIRST n ROWS ONLY is LIMIT n.
    fn fetch(&self, query: &mut ast::Query) -> Flow {
        let Some(fetch) = query.fetch.take() else {
            return ControlFlow::Continue(());
        };
        let at = self.words.locate(&["FETCH"]);
        let ast::Fetch {
            with_ties,
            percent,
            quantity,
        } = fetch;
        refuse_if!(with_ties, "FETCH … WITH TIES", "use rank() OVER (ORDER BY …) <= n", at);
        refuse_if!(percent, "FETCH … PERCENT", "use percent_rank() OVER (ORDER BY …)", at);
        let count = quantity.unwrap_or_else(|| ast::Expr::value(ast::Value::Number("1".to_owned(), false)));
        match &mut query.limit_clause {
            None => {
                query.limit_clause = Some(ast::LimitClause::LimitOffset {
                    limit: Some(count),
                    offset: None,
                    limit_by: Vec::new(),
                });
            }
            Some(ast::LimitClause::LimitOffset {
                limit: limit @ None, ..
            }) => *limit = Some(count),
            Some(_) => return refuse("LIMIT together with FETCH", "keep one of them", at),
        }
        ControlFlow::Continue(())
    }

    fn select(&self, select: &ast::Select) -> Flow {
        let words = self.words;
        let ast::Select {
            select_token: _,
            optimizer_hints,
            distinct: _,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection: _,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection: _,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having: _,
            named_window: _,
            qualify: _,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        refuse_if!(
            !optimizer_hints.is_empty(),
            "a planner hint",
            "leave it away",
            words.whole()
        );
        refuse_if!(
            select_modifiers.is_some(),
            "a SELECT modifier",
            "leave it away",
            words.whole()
        );
        refuse_if!(top.is_some(), "TOP", "write LIMIT n at the end", words.locate(&["TOP"]));
        refuse_if!(
            exclude.is_some(),
            "EXCLUDE behind the columns",
            "name the columns",
            words.locate(&["EXCLUDE"])
        );
        refuse_if!(
            into.is_some(),
            "SELECT … INTO",
            "write CREATE TABLE name AS SELECT …",
            words.locate(&["INTO"])
        );
        refuse_if!(
            !lateral_views.is_empty(),
            "LATERAL VIEW",
            "use unnest(…)",
            words.locate(&["LATERAL"])
        );
        refuse_if!(
            prewhere.is_some(),
            "PREWHERE",
            "write WHERE",
            words.locate(&["PREWHERE"])
        );
        refuse_if!(
            !connect_by.is_empty(),
            "CONNECT BY",
            "use WITH RECURSIVE",
            words.locate(&["CONNECT"])
        );
        refuse_if!(
            !cluster_by.is_empty(),
            "CLUSTER BY",
            "write ORDER BY",
            words.locate(&["CLUSTER"])
        );
        refuse_if!(
            !distribute_by.is_empty(),
            "DISTRIBUTE BY",
            "leave it away",
            words.locate(&["DISTRIBUTE"])
        );
        refuse_if!(
            !sort_by.is_empty(),
            "SORT BY",
            "write ORDER BY",
            words.locate(&["SORT"])
        );
        refuse_if!(
            value_table_mode.is_some(),
            "SELECT AS VALUE / AS STRUCT",
            "name the columns",
            words.whole()
        );
        refuse_if!(
            !matches!(flavor, ast::SelectFlavor::Standard),
            "FROM before SELECT",
            "write SELECT … FROM …",
            words.whole()
        );
        let (ast::GroupByExpr::All(modifiers) | ast::GroupByExpr::Expressions(_, modifiers)) = group_by;
        refuse_if!(
            !modifiers.is_empty(),
            "GROUP BY … WITH",
            "write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)",
            words.locate(&["GROUP", "BY"])
        );
        from.iter().try_for_each(|table| self.joins(table))
    }

    pub(super) fn joins(&self, table: &ast::TableWithJoins) -> Flow {
        for join in &table.joins {
            let ast::Join {
                relation: _,
                global,
                join_operator,
            } = join;
            refuse_if!(
                *global,
                "GLOBAL JOIN",
                "leave GLOBAL away",
                self.words.locate(&["GLOBAL"])
            );
            let constraint = match join_operator {
                ast::JoinOperator::Join(c)
                | ast::JoinOperator::Inner(c)
                | ast::JoinOperator::Left(c)
                | ast::JoinOperator::LeftOuter(c)
                | ast::JoinOperator::Right(c)
                | ast::JoinOperator::RightOuter(c)
                | ast::JoinOperator::FullOuter(c) => c,
                ast::JoinOperator::StraightJoin(_) => {
                    return refuse("STRAIGHT_JOIN", "write JOIN", self.words.locate(&["STRAIGHT_JOIN"]));
                }
                _ => continue,
            };
            // DataFusion would answer with every pair of rows.
            if matches!(constraint, ast::JoinConstraint::None) {
                let at = self.words.locate(&["JOIN"]);
                return ControlFlow::Break(ParseError::syntax_help(
                    "a JOIN has no condition",
                    "write ON …, USING (…) or NATURAL JOIN; every pair of rows is CROSS JOIN",
                    at,
                ));
            }
        }
        ControlFlow::Continue(())
    }

    fn table_factor(&self, factor: &ast::TableFactor) -> Flow {
        let words = self.words;
        match factor {
            ast::TableFactor::Table {
                name: _,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                self.alias(alias.as_ref())?;
                self.ordinality(*with_ordinality && args.is_none())?;
                self.sample(sample.as_ref())?;
                refuse_if!(
                    version.is_some(),
                    "a version on a table",
                    "one statement reads one version: write VERSION n at the end",
                    words.whole()
                );
                refuse_if!(
                    !with_hints.is_empty() || !index_hints.is_empty(),
                    "a hint on a table",
                    "leave it away",
                    words.locate(&["WITH"])
                );
                refuse_if!(
                    !partitions.is_empty(),
                    "PARTITION on a table",
                    "write a condition in WHERE",
                    words.locate(&["PARTITION"])
                );
                refuse_if!(json_path.is_some(), "a path on a table", "use unnest(…)", words.whole());
                refuse_if!(
                    args.as_ref().is_some_and(|args| args.settings.is_some()),
                    "SETTINGS",
                    "leave it away",
                    words.locate(&["SETTINGS"])
                );
                ControlFlow::Continue(())
            }
            ast::TableFactor::Derived {
                lateral: _,
                subquery: _,
                alias,
                sample,
            } => {
                self.alias(alias.as_ref())?;
                self.sample(sample.as_ref())
            }
            ast::TableFactor::Function {
                lateral: _,
                name: _,
                args: _,
                with_ordinality: _,
                alias,
            } => self.alias(alias.as_ref()),
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                self.alias(alias.as_ref())?;
                self.joins(table_with_joins)
            }
            ast::TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset,
                with_offset_alias: _,
                with_ordinality,
            } => {
                self.alias(alias.as_ref())?;
                self.ordinality(*with_ordinality && array_exprs.len() > 1)?;
                refuse_if!(
                    *with_offset,
                    "UNNEST … WITH OFFSET",
                    "use row_number() OVER ()",
                    words.locate(&["OFFSET"])
                );
                ControlFlow::Continue(())
            }
            ast::TableFactor::TableFunction { .. } => refuse(
                "TABLE(…)",
                "call the function in FROM: FROM f(…)",
                words.locate(&["TABLE"]),
            ),
            ast::TableFactor::Pivot { .. } => refuse(
                "PIVOT",
                "use aggregates with FILTER (WHERE …)",
                words.locate(&["PIVOT"]),
            ),
            ast::TableFactor::Unpivot { .. } => refuse("UNPIVOT", "use UNION ALL", words.locate(&["UNPIVOT"])),
            ast::TableFactor::MatchRecognize { .. } => refuse(
                "MATCH_RECOGNIZE",
                "use window functions",
                words.locate(&["MATCH_RECOGNIZE"]),
            ),
            ast::TableFactor::JsonTable { .. }
            | ast::TableFactor::OpenJsonTable { .. }
            | ast::TableFactor::XmlTable { .. }
            | ast::TableFactor::SemanticView { .. } => refuse("this table function", "use unnest(…)", words.whole()),
        }
    }

    fn alias(&self, alias: Option<&ast::TableAlias>) -> Flow {
        let Some(ast::TableAlias {
            explicit: _,
            name,
            columns,
            at,
        }) = alias
        else {
            return ControlFlow::Continue(());
        };
        refuse_if!(
            at.is_some() || columns.iter().any(|column| column.data_type.is_some()),
            "an alias with column types or AT",
            "name the columns only: AS t (a, b), and cast them where they are used",
            bytes_of(self.words, name.span)
        );
        ControlFlow::Continue(())
    }

    fn sample(&self, sample: Option<&ast::TableSampleKind>) -> Flow {
        refuse_if!(
            sample.is_some(),
            "TABLESAMPLE",
            "write WHERE random() < 0.1",
            self.words.locate(&["TABLESAMPLE"])
        );
        ControlFlow::Continue(())
    }

    fn ordinality(&self, with_ordinality: bool) -> Flow {
        refuse_if!(
            with_ordinality,
            "WITH ORDINALITY",
            "use row_number() OVER ()",
            self.words.locate(&["WITH", "ORDINALITY"])
        );
        ControlFlow::Continue(())
    }

    fn expression(&self, expr: &ast::Expr) -> Flow {
        match expr {
            ast::Expr::Function(function) => self.function(function),
            ast::Expr::Cast {
                kind: _,
                expr,
                data_type,
                array,
                format,
            } => {
                refuse_if!(
                    *array || format.is_some(),
                    "CAST … FORMAT / ARRAY",
                    "use to_char, to_date or to_timestamp",
                    self.words.locate(&["CAST"])
                );
                self.unknown_namespace_call(expr, data_type)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// `session::x()` that is no function of ours would be read as a cast to a type called x.
    fn unknown_namespace_call(&self, expr: &ast::Expr, data_type: &ast::DataType) -> Flow {
        let (ast::Expr::Identifier(ident), ast::DataType::Custom(name, _)) = (expr, data_type) else {
            return ControlFlow::Continue(());
        };
        if ident.quote_style.is_some() || !ident.value.eq_ignore_ascii_case("session") {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(ParseError::syntax_help(
            format!("there is no function session::{name}"),
            "the functions of this kind: session::context()",
            bytes_of(self.words, ident.span),
        ))
    }

    fn function(&self, function: &ast::Function) -> Flow {
        let ast::Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            filter: _,
            null_treatment: _,
            over: _,
            within_group: _,
        } = function;
        let at = || {
            let first = name.0.first().and_then(ast::ObjectNamePart::as_ident);
            first.map_or_else(|| self.words.whole(), |ident| bytes_of(self.words, ident.span))
        };
        refuse_if!(*uses_odbc_syntax, "{fn …}", "call the function directly: f(…)", at());
        refuse_if!(
            !matches!(parameters, ast::FunctionArguments::None),
            "a function with two argument lists",
            "write one list of arguments",
            at()
        );
        let is_context = matches!(
            name.0.as_slice(),
            [ast::ObjectNamePart::Identifier(namespace), ast::ObjectNamePart::Identifier(function)]
                if namespace.value == "session" && function.value == "context"
        );
        let has_arguments = matches!(args, ast::FunctionArguments::List(list) if !list.args.is_empty());
        if is_context && has_arguments {
            return ControlFlow::Break(ParseError::syntax_help(
                "session::context takes no arguments",
                "write session::context()",
                at(),
            ));
        }
        ControlFlow::Continue(())
    }
}
