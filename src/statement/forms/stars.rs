//! `UPDATE SET *` and `INSERT *` of MERGE: every column of the target from the source's column of that name.
//!
//! The parser takes neither, so in the text they become `SET "*" = NULL` and `INSERT ("*") VALUES (NULL)`; the parsed statement gets
//! the columns. A column that the source lacks is an error, as in any statement that names it.

use crate::error::{Error, Result};
use crate::scan::generated;
use crate::scan::provider::LakeTable;
use crate::statement::tokens::{self, is, significant_after, significant_before};
use datafusion::catalog::TableProvider;
use datafusion::execution::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Merge, MergeAction, MergeInsertKind, ObjectName, Parens, TableFactor, Values,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::Token;
use std::sync::Arc;

/// The name that stands for all columns.
const ALL: &str = "*";

/// The statement's text with its stars spelled so that the parser takes them.
pub fn spell(sql: &str, dialect: &dyn Dialect) -> String {
    if !sql.contains('*') || !sql.to_ascii_uppercase().contains("MERGE") {
        return sql.to_owned();
    }
    let Some((tokens, offsets)) = tokens::cut(sql, dialect) else { return sql.to_owned() };
    let mut spelled = String::with_capacity(sql.len());
    let mut copied = 0;
    for (at, offset) in offsets.iter().enumerate() {
        if tokens.get(at) != Some(&Token::Mul) {
            continue;
        }
        let before = |at| significant_before(&tokens, at);
        let word = |at: Option<usize>, word| is(at.and_then(|at| tokens.get(at)), word);
        let first = before(at);
        let second = first.and_then(before);
        let clause = significant_after(&tokens, at);
        let ends = clause.is_none()
            || ["WHEN", "RETURNING", "OUTPUT"].into_iter().any(|follows| word(clause, follows))
            || clause.and_then(|at| tokens.get(at)) == Some(&Token::SemiColon);
        let instead = match () {
            () if word(first, "SET") && word(second, "UPDATE") && ends => r#""*" = NULL"#,
            () if word(first, "INSERT") && word(second, "THEN") && ends => r#"("*") VALUES (NULL)"#,
            () => continue,
        };
        spelled.push_str(sql.get(copied..*offset).unwrap_or_default());
        spelled.push_str(instead);
        copied = offset + 1;
    }
    spelled.push_str(sql.get(copied..).unwrap_or_default());
    spelled
}

/// The statement with columns for its stars.
pub async fn expand(state: &SessionState, merge: &mut Merge) -> Result<()> {
    let stars = |action: &MergeAction| match action {
        MergeAction::Update(update) => update.assignments.iter().any(is_star),
        MergeAction::Insert(insert) => insert.kind == MergeInsertKind::Row || insert.columns.iter().any(is_all),
        MergeAction::Delete { .. } => false,
    };
    if !merge.clauses.iter().any(|clause| stars(&clause.action)) {
        return Ok(());
    }
    let source = known_as(&merge.source)?;
    let columns = given_columns(state, &merge.table).await?;
    let of_source = |column: &Ident| Expr::CompoundIdentifier(vec![source.clone(), column.clone()]);
    for clause in &mut merge.clauses {
        match &mut clause.action {
            MergeAction::Update(update) if update.assignments.iter().any(is_star) => {
                let assignment = |column: &Ident| Assignment {
                    target: AssignmentTarget::ColumnName(ObjectName::from(vec![column.clone()])),
                    value: of_source(column),
                };
                update.assignments = columns.iter().map(assignment).collect();
            }
            MergeAction::Insert(insert) if insert.kind == MergeInsertKind::Row || insert.columns.iter().any(is_all) => {
                if insert.kind == MergeInsertKind::Row && !insert.columns.is_empty() {
                    return Err(Error::invalid("INSERT of some columns takes VALUES, not * or ROW"));
                }
                insert.columns = columns.iter().map(|column| ObjectName::from(vec![column.clone()])).collect();
                let row = Parens::with_empty_span(columns.iter().map(of_source).collect());
                insert.kind = MergeInsertKind::Values(Values { value_keyword: false, explicit_row: false, rows: vec![row] });
            }
            MergeAction::Update(_) | MergeAction::Insert(_) | MergeAction::Delete { .. } => {}
        }
    }
    Ok(())
}

fn is_star(assignment: &Assignment) -> bool {
    matches!(&assignment.target, AssignmentTarget::ColumnName(name) if is_all(name))
}

/// Whether the name stands for all columns.
fn is_all(name: &ObjectName) -> bool {
    let is_all = |ident: &Ident| ident.quote_style.is_some() && ident.value == ALL;
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(is_all))
}

/// What the columns of a table are qualified by.
pub(super) fn known_as(table: &TableFactor) -> Result<Ident> {
    let named = match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    };
    named.ok_or_else(|| Error::invalid(format!("MERGE with * needs an alias for its source {table}")))
}

/// The target's columns.
pub(super) async fn columns(state: &SessionState, table: &TableFactor) -> Result<Vec<Ident>> {
    let (_, provider) = target(state, table).await?;
    Ok(provider.schema().fields().iter().map(|field| Ident::with_quote('"', field.name())).collect())
}

/// Those that can be given values.
async fn given_columns(state: &SessionState, table: &TableFactor) -> Result<Vec<Ident>> {
    let (name, provider) = target(state, table).await?;
    let generated = match provider.downcast_ref::<LakeTable>() {
        Some(table) => generated::of(&name, &table.planned().snapshot)?,
        None => vec![],
    };
    let schema = provider.schema();
    let given = schema.fields().iter().filter(|field| !generated.iter().any(|column| column.name == *field.name()));
    Ok(given.map(|field| Ident::with_quote('"', field.name())).collect())
}

async fn target(state: &SessionState, table: &TableFactor) -> Result<(String, Arc<dyn TableProvider>)> {
    let TableFactor::Table { name, .. } = table else {
        return Err(Error::invalid(format!("'{table}' is no table to merge into")));
    };
    let name = object_name_to_table_reference(name.clone(), state.config_options().sql_parser.enable_ident_normalization)?;
    let provider = state.schema_for_ref(name.clone())?.table(name.table()).await?;
    let provider = provider.ok_or_else(|| Error::UnknownTable { table: name.to_string(), nearest: None })?;
    Ok((name.to_string(), provider))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    #[test]
    fn only_the_stars_of_merge_clauses_are_spelled() {
        let merge = "MERGE INTO t USING (SELECT * FROM u) AS s ON t.a = s.a * 2 ";
        for (given, expected) in [
            ("WHEN MATCHED THEN UPDATE SET *", r#"WHEN MATCHED THEN UPDATE SET "*" = NULL"#),
            ("WHEN NOT MATCHED THEN INSERT * RETURNING *", r#"WHEN NOT MATCHED THEN INSERT ("*") VALUES (NULL) RETURNING *"#),
            (
                "WHEN MATCHED AND s.a * 1 > 0 THEN update set * WHEN NOT MATCHED THEN insert *;",
                r#"WHEN MATCHED AND s.a * 1 > 0 THEN update set "*" = NULL WHEN NOT MATCHED THEN insert ("*") VALUES (NULL);"#,
            ),
            ("WHEN MATCHED THEN UPDATE SET a = '*' /* UPDATE SET * */", "WHEN MATCHED THEN UPDATE SET a = '*' /* UPDATE SET * */"),
            ("WHEN NOT MATCHED THEN INSERT VALUES (2 * s.a)", "WHEN NOT MATCHED THEN INSERT VALUES (2 * s.a)"),
        ] {
            assert_eq!(spell(&format!("{merge}{given}"), &GenericDialect {}), format!("{merge}{expected}"));
        }
    }
}
