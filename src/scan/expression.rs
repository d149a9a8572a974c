//! Expressions that a table keeps: the conditions of CHECK, and defaults.
//!
//! ```text
//!   a < "B" AND s['x'] > 0   as the user says it
//!   "#3" < "#4" AND "#5"."#6" > 0      as it is kept: columns and their parts by their field ids, so that renames leave it alone
//!   a < c AND s.x > 0        as it is shown, with the names of today
//! ```
//!
//! Goes in: an expression and a schema. Comes out: its text for the properties, or the planned expression.
//! Always holds: it means the same in every session, so it knows only functions that every session has; it sees one row and
//! nothing else; it calls no part of a struct by a name that could be another's tomorrow.

use crate::error::{Error, Result};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use chrono::{DateTime, Utc};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DataFusionError, Result as EngineResult};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility, cast};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr as SqlExpr, ExprWithAlias, Ident, Subscript, Value, visit_expressions, visit_expressions_mut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// What plans kept expressions, whatever the session.
pub(super) static ENGINE: LazyLock<SessionState> = LazyLock::new(|| SessionStateBuilder::new().with_default_features().build());

/// A name as the planner folds it: letters that are not ASCII stay as they are.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// An expression as it is kept, and the columns that it names.
pub fn kept(table: &str, expr: &SqlExpr, schema: &TableSchema) -> Result<(String, BTreeSet<FieldId>)> {
    let mut kept = expr.clone();
    let _ = visit_expressions_mut(&mut kept, |expr| {
        dotted(table, expr, schema);
        ControlFlow::<()>::Continue(())
    });
    // Operators come after what they are about, where names have become numbers.
    let far = visit_expressions(&kept, |expr| match expr {
        SqlExpr::CompoundFieldAccess { access_chain, .. } if access_chain.iter().any(|part| matches!(part, AccessExpr::Dot(_))) => {
            ControlFlow::Break(expr.to_string())
        }
        _ => ControlFlow::Continue(()),
    });
    if let ControlFlow::Break(far) = far {
        return Err(by_text(table, &far));
    }
    let mut columns = BTreeSet::new();
    let refused = visit_expressions_mut(&mut kept, |expr| {
        let parts = match expr {
            SqlExpr::Identifier(ident) => std::slice::from_mut(ident),
            SqlExpr::CompoundIdentifier(parts) => {
                let qualified = parts.first().is_some_and(|first| fold(first) == table && schema.column(table).is_none());
                if qualified {
                    parts.remove(0);
                }
                parts.as_mut_slice()
            }
            _ => return ControlFlow::Continue(()),
        };
        match numbered(table, parts, schema) {
            Ok(column) => {
                columns.insert(column);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    });
    match refused {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => {
            let kept = text(kept)?;
            hold_no_text(table, &kept, schema, None)?;
            Ok((kept, columns))
        }
    }
}

/// Puts `s.a` for `s['a']` where `s` is a struct, also within structs.
fn dotted(table: &str, expr: &mut SqlExpr, schema: &TableSchema) {
    let SqlExpr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut path = match root.as_ref() {
        SqlExpr::Identifier(column) => vec![column.clone()],
        SqlExpr::CompoundIdentifier(path) => path.clone(),
        _ => return,
    };
    let steps = access_chain.iter().map_while(|step| match step {
        AccessExpr::Dot(SqlExpr::Identifier(name)) => Some(name.clone()),
        AccessExpr::Subscript(Subscript::Index { index: SqlExpr::Value(text) }) => match &text.value {
            Value::SingleQuotedString(text) => Some(Ident::with_quote('"', text)),
            _ => None,
        },
        _ => None,
    });
    let steps: Vec<Ident> = steps.collect();
    let given = path.len();
    path.extend(steps);
    let skipped = usize::from(path.len() > 1 && path.first().is_some_and(|first| fold(first) == table && schema.column(table).is_none()));
    // As far as there are structs; a text may also be the key of a map.
    let mut parent: Option<&Field> = None;
    let mut known = skipped;
    for name in path.iter().skip(skipped) {
        let is_whole = parent.is_none_or(|parent| parent.field_type == FieldType::Struct);
        let field = schema.children(parent.map(|parent| parent.id)).find(|field| is_whole && field.name == fold(name));
        let Some(field) = field else { break };
        parent = Some(field);
        known += 1;
    }
    let Some(taken) = known.checked_sub(given) else { return };
    path.truncate(known);
    access_chain.drain(..taken);
    let whole = if path.len() == 1 { path.pop().map(SqlExpr::Identifier) } else { Some(SqlExpr::CompoundIdentifier(path)) };
    let Some(whole) = whole else { return };
    if access_chain.is_empty() {
        *expr = whole;
    } else {
        **root = whole;
    }
}

/// Refuses a kept expression (as a value of the type `cast_to`) that calls a part of a struct by a text: it cannot be planned where
/// parts have other names.
pub fn hold_no_text(table: &str, kept: &str, schema: &TableSchema, cast_to: Option<&DataType>) -> Result<()> {
    if !schema.fields().iter().any(|field| field.field_type == FieldType::Struct) {
        return Ok(());
    }
    let plan = |expr: Expr, columns: DFSchema| {
        let expr = cast_to.map_or(expr.clone(), |wanted| cast(expr, wanted.clone()));
        physical(&*ENGINE, expr, &columns)
    };
    let arrow = |schema: &TableSchema| DFSchema::try_from(schema.to_plain_arrow().as_ref().clone());
    // Whatever else is wrong with it is told by who plans it for good.
    if !planned(table, kept, schema).is_ok_and(|expr| arrow(schema).and_then(|columns| plan(expr, columns)).is_ok()) {
        return Ok(());
    }
    let numbered = |field: &Field| {
        let parent = field.parent.and_then(|parent| schema.field(parent));
        let holder = parent.and_then(|parent| parent.parent).and_then(|id| schema.field(id));
        let is_entry = holder.is_some_and(|holder| matches!(holder.field_type, FieldType::Map { .. }));
        match parent.is_none_or(|parent| parent.field_type == FieldType::Struct) && !is_entry {
            true => Field { name: format!("#{}", field.id), ..field.clone() },
            false => field.clone(),
        }
    };
    let numbered = TableSchema::new(schema.fields().iter().map(numbered).collect()).map_err(Error::internal)?;
    let columns = arrow(&numbered)?;
    let expr = parsed(kept).map(|expr| ExprWithAlias { expr, alias: None });
    let by_number = expr.and_then(|expr| ENGINE.create_logical_expr_from_sql_expr(expr, &columns)).and_then(|expr| plan(expr, columns));
    match by_number {
        Ok(_) => Ok(()),
        Err(_) => Err(by_text(table, &named(table, kept, schema)?.to_string())),
    }
}

/// The error for a part of a struct that is not called as in `s.a`.
fn by_text(table: &str, expr: &str) -> Error {
    Error::unsupported(
        format!("a part of a struct by a text, in the expression {expr} that table '{table}' is to keep,"),
        Some("write s.part, which renames follow; parts within lists and maps cannot be kept"),
    )
}

/// The text of an expression that was parsed in the session's dialect. It is read again in a dialect of its own, so it has to mean
/// the same there.
fn text(mut expr: SqlExpr) -> Result<String> {
    let _ = visit_expressions_mut(&mut expr, |expr| {
        match expr {
            // Some dialects have texts in double quotes.
            SqlExpr::Value(value) => {
                if let Value::DoubleQuotedString(text) = &value.value {
                    value.value = Value::SingleQuotedString(text.clone());
                }
            }
            // What is left of t.a without the table.
            SqlExpr::CompoundIdentifier(parts) => {
                if let [part] = parts.as_slice() {
                    *expr = SqlExpr::Identifier(part.clone());
                }
            }
            // Two signs would be written as a comment.
            SqlExpr::UnaryOp { expr: operand, .. } if matches!(operand.as_ref(), SqlExpr::UnaryOp { .. }) => {
                **operand = SqlExpr::Nested(operand.clone());
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    let text = expr.to_string();
    match parsed(&text).map(undotted) {
        Ok(parsed) if parsed == undotted(expr) => Ok(text),
        _ => Err(Error::unsupported(
            format!("'{text}' in what a table keeps, in this dialect"),
            Some("say it so that it means the same in the dialect 'generic'"),
        )),
    }
}

/// An expression in which `s.l[1]` is the element of `s.l`, which the parser also has as the element of the part of `s`.
fn undotted(mut expr: SqlExpr) -> SqlExpr {
    let _ = visit_expressions_mut(&mut expr, |expr| {
        if let SqlExpr::CompoundFieldAccess { root, access_chain } = expr {
            let mut path = match root.as_ref() {
                SqlExpr::Identifier(name) => vec![name.clone()],
                SqlExpr::CompoundIdentifier(names) => names.clone(),
                _ => return ControlFlow::<()>::Continue(()),
            };
            let parts = access_chain.iter().map_while(|step| match step {
                AccessExpr::Dot(SqlExpr::Identifier(name)) => Some(name.clone()),
                _ => None,
            });
            let given = path.len();
            path.extend(parts);
            access_chain.drain(..path.len() - given);
            **root = SqlExpr::CompoundIdentifier(path);
        }
        ControlFlow::Continue(())
    });
    expr
}

/// A kept text, read.
fn parsed(kept: &str) -> EngineResult<SqlExpr> {
    Ok(DFParserBuilder::new(kept).with_dialect(&GenericDialect {}).build()?.parse_expr()?.expr)
}

/// Puts ids for the names of a column and its parts; returns the column.
fn numbered(table: &str, names: &mut [Ident], schema: &TableSchema) -> Result<FieldId> {
    let mut parent: Option<&Field> = None;
    let mut column = None;
    for name in names {
        let wanted = fold(name);
        let Some(field) = schema.children(parent.map(|parent| parent.id)).find(|field| field.name == wanted) else {
            let names = schema.children(parent.map(|parent| parent.id)).map(|field| field.name.as_str());
            let nearest = crate::error::nearest_name(&wanted, names);
            return Err(Error::UnknownColumn { table: table.to_owned(), column: wanted, nearest });
        };
        *name = Ident::with_quote('"', format!("#{}", field.id));
        column.get_or_insert(field.id);
        parent = Some(field);
    }
    column.ok_or_else(|| Error::internal("a column without a name"))
}

/// A kept expression with the names of today.
pub fn named(table: &str, kept: &str, schema: &TableSchema) -> Result<SqlExpr> {
    let damaged = |reason: String| Error::damaged(table, "its properties", format!("the expression {kept} cannot be read: {reason}"));
    let mut expr = parsed(kept).map_err(|error| damaged(error.to_string()))?;
    let unknown = visit_expressions_mut(&mut expr, |expr| {
        let names = match expr {
            SqlExpr::Identifier(ident) => std::slice::from_mut(ident),
            SqlExpr::CompoundIdentifier(parts) => parts.as_mut_slice(),
            _ => return ControlFlow::Continue(()),
        };
        for name in names {
            let id = name.value.strip_prefix('#').and_then(|id| id.parse().ok()).map(FieldId);
            match id.and_then(|id| schema.field(id)) {
                Some(field) => *name = ident(&field.name),
                None => return ControlFlow::Break(name.value.clone()),
            }
        }
        ControlFlow::Continue(())
    });
    match unknown {
        ControlFlow::Break(name) => Err(damaged(format!("there is no column '{name}'"))),
        ControlFlow::Continue(()) => Ok(expr),
    }
}

/// A name, in quotes if it needs them.
pub fn ident(name: &str) -> Ident {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// A kept expression, planned over the columns of a table.
pub fn planned(table: &str, kept: &str, schema: &TableSchema) -> Result<Expr> {
    let mut expr = named(table, kept, schema)?;
    // Names are taken as they are.
    let _ = visit_expressions_mut(&mut expr, |expr| {
        match expr {
            SqlExpr::Identifier(ident) => ident.quote_style = Some('"'),
            SqlExpr::CompoundIdentifier(parts) => parts.iter_mut().for_each(|part| part.quote_style = Some('"')),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    let columns = DFSchema::try_from(schema.to_plain_arrow().as_ref().clone())?;
    Ok(ENGINE.create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, &columns)?)
}

/// An expression whose operands have types that go together.
pub fn coerced(expr: Expr, columns: &DFSchema) -> EngineResult<Expr> {
    let context = SimplifyContext::builder().with_schema(Arc::new(columns.clone())).build();
    ExprSimplifier::new(context).coerce(expr, columns)
}

/// An expression over columns as it is evaluated. Some functions are only there to be simplified away.
pub fn physical(session: &dyn Session, expr: Expr, columns: &DFSchema) -> EngineResult<Arc<dyn PhysicalExpr>> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(columns.clone()))
        .with_config_options(session.config().options().clone())
        .with_query_execution_start_time(session.execution_props().query_execution_start_time);
    let simplifier = ExprSimplifier::new(context.build());
    let expr = simplifier.simplify(simplifier.coerce(expr, columns)?)?;
    session.create_physical_expr(expr, columns)
}

/// The condition of a CHECK, planned. Refuses what cannot be one.
pub fn condition(table: &str, kept: &str, schema: &TableSchema) -> Result<Expr> {
    let expr = planned(table, kept, schema)?;
    check_one_row("CHECK", &expr)?;
    let changes = |part: &Expr| match part {
        Expr::ScalarFunction(function) => function.func.signature().volatility != Volatility::Immutable,
        _ => false,
    };
    if expr.exists(|part| Ok(changes(part)))? {
        return Err(Error::unsupported(format!("CHECK ({expr}), which may say something else of the same row later,"), None));
    }
    let columns = DFSchema::try_from(schema.to_plain_arrow().as_ref().clone())?;
    match expr.get_type(&columns)? {
        DataType::Boolean | DataType::Null => {}
        other => {
            let reason = format!("the condition of CHECK is true or false, and ({expr}) is of type {other}");
            return Err(Error::Refused { reason, sqlstate: "42804" });
        }
    }
    physical(&*ENGINE, expr.clone(), &columns)?;
    Ok(expr)
}

/// A default as it is kept. Refuses what cannot be one for a column of that type.
pub fn default(table: &str, expr: &SqlExpr, column: &str, data_type: &DataType) -> Result<String> {
    let named = visit_expressions(expr, |expr| match expr {
        SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_) => ControlFlow::Break(expr.to_string()),
        _ => ControlFlow::Continue(()),
    });
    if let ControlFlow::Break(name) = named {
        return Err(Error::unsupported(
            format!("'{name}' in the DEFAULT of column '{column}' of table '{table}'"),
            Some("it knows no columns"),
        ));
    }
    let kept = text(expr.clone())?;
    let value = default_value(table, &kept)?;
    check_one_row("DEFAULT", &value)?;
    let nothing = DFSchema::empty();
    let of_type = value.cast_to(data_type, &nothing)?;
    // That a value can be of the type is known once one was computed; at which time is all the same.
    let context = SimplifyContext::builder().with_schema(Arc::new(nothing.clone()));
    let context = context.with_query_execution_start_time(Some(DateTime::<Utc>::UNIX_EPOCH)).build();
    let of_type = ExprSimplifier::new(context).simplify(of_type)?;
    let of_type = ENGINE.create_physical_expr(of_type, &nothing)?;
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let one_row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row).map_err(DataFusionError::from)?;
    of_type.evaluate(&one_row)?;
    Ok(kept)
}

/// A kept default, planned.
pub fn default_value(table: &str, kept: &str) -> Result<Expr> {
    planned(table, kept, &TableSchema::default())
}

/// Refuses an expression that needs more than a row.
pub fn check_one_row(what: &str, expr: &Expr) -> Result<()> {
    let reaches_out = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::Placeholder(_)
                | Expr::ScalarVariable(..)
        ))
    })?;
    match reaches_out {
        true => Err(Error::unsupported(format!("{what} with a subquery, a parameter or a function of many rows"), None)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Field as ArrowField;

    fn schema() -> TableSchema {
        let part = ArrowField::new("x", DataType::Int64, true);
        let columns = vec![
            ArrowField::new("a", DataType::Int64, true),
            ArrowField::new("B c", DataType::Utf8, true),
            ArrowField::new("s", DataType::Struct(vec![part].into()), true),
        ];
        TableSchema::from_arrow(&Schema::new(columns), FieldId(1)).unwrap()
    }

    fn sql(text: &str) -> SqlExpr {
        DFParserBuilder::new(text).build().unwrap().parse_expr().unwrap().expr
    }

    #[test]
    fn columns_are_kept_by_id_and_shown_by_name() {
        let schema = schema();
        let (text, columns) = kept("t", &sql(r#"A > 0 AND t."B c" <> 'a' OR s.x < a"#), &schema).unwrap();
        assert_eq!(text, r##""#1" > 0 AND "#2" <> 'a' OR "#3"."#4" < "#1""##);
        assert_eq!(columns, [1, 2, 3].map(FieldId).into());
        assert_eq!(named("t", &text, &schema).unwrap().to_string(), r#"a > 0 AND "B c" <> 'a' OR s.x < a"#);
        condition("t", &text, &schema).unwrap();
        assert_eq!(kept("t", &sql("d > 0"), &schema).unwrap_err().sqlstate(), "42703");
        assert_eq!(kept("t", &sql("s.y > 0"), &schema).unwrap_err().sqlstate(), "42703");
        assert_eq!(kept("t", &sql("u.a > 0"), &schema).unwrap_err().sqlstate(), "42703");
        assert_eq!(named("t", r##""#9" > 0"##, &schema).unwrap_err().sqlstate(), "XX001");
    }

    #[test]
    fn parts_by_text_are_kept_by_id_or_refused() {
        let schema = schema();
        for text in ["s.x > 0", "s['x'] > 0", "t.s['x'] > 0", "(s['x']) > 0"] {
            let (text, columns) = kept("t", &sql(text), &schema).unwrap();
            assert_eq!(text.replace(['(', ')'], ""), r##""#3"."#4" > 0"##);
            assert_eq!(columns, [FieldId(3)].into());
            condition("t", &text, &schema).unwrap();
        }
        for text in ["get_field(s, 'x') > 0", "(s)['x'] > 0", "[s][1]['x'] > 0"] {
            let error = kept("t", &sql(text), &schema).unwrap_err();
            assert_eq!(error.sqlstate(), "0A000", "{text}: {error}");
            assert!(error.to_string().contains("write s.part"), "{error}");
        }
        kept("t", &sql("get_field(named_struct('x', a), 'x') > 0 AND s IS NOT NULL"), &schema).unwrap();
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let schema = schema();
        for (text, sqlstate) in
            [("a + 1", "42804"), ("a > random()", "0A000"), ("a > (SELECT 1)", "0A000"), ("sum(a) > 1", "0A000"), ("a > now()", "0A000")]
        {
            let error = kept("t", &sql(text), &schema).and_then(|(kept, _)| condition("t", &kept, &schema)).unwrap_err();
            assert_eq!(error.sqlstate(), sqlstate, "{text}: {error}");
        }
    }

    #[test]
    fn a_default_is_of_the_type_of_its_column() {
        assert_eq!(default("t", &sql("2 + 3"), "a", &DataType::Int64).unwrap(), "2 + 3");
        default("t", &sql("now()"), "a", &DataType::Utf8).unwrap();
        for (text, sqlstate) in [("'x'", "22P02"), ("a", "0A000"), ("(SELECT 1)", "0A000"), ("nothing()", "42883")] {
            let error = default("t", &sql(text), "a", &DataType::Int64).unwrap_err();
            assert_eq!(error.sqlstate(), sqlstate, "{text}: {error}");
        }
    }
}
