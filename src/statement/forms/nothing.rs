//! `DO NOTHING` as the action of a MERGE: rows that its clause is the first to take stay as they are, or stay out.
//!
//! ```text
//!   WHEN MATCHED AND p THEN DO NOTHING WHEN MATCHED AND q THEN DELETE    text: UPDATE SET "__amend_nothing" = NULL, or
//!                                                                        INSERT ("__amend_nothing") VALUES (NULL)
//!   WHEN MATCHED AND (p) IS NOT TRUE AND (q) THEN DELETE                 the parsed statement has no such clause any more
//! ```

use crate::error::Result;
use crate::plan::merge;
use crate::statement::tokens::{self, is, significant_after, significant_before};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Expr, Ident, Merge, MergeAction, MergeClause, MergeClauseKind, ObjectName, Value,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The column that stands for no column.
const NOTHING: &str = "__amend_nothing";

/// The statement's text with actions that the parser takes.
pub fn spell(sql: &str, dialect: &dyn Dialect) -> String {
    let upper = sql.to_ascii_uppercase();
    if !upper.contains("NOTHING") || !upper.contains("MERGE") {
        return sql.to_owned();
    }
    let Some((tokens, offsets)) = tokens::cut(sql, dialect) else { return sql.to_owned() };
    let mut spelled = String::with_capacity(sql.len());
    let (mut copied, mut inserts) = (0, false);
    for (at, offset) in offsets.iter().enumerate() {
        if let Some(of_insertion) = clause_of(&tokens, at) {
            inserts = of_insertion;
        }
        let is_action = is(tokens.get(at), "DO") && significant_before(&tokens, at).is_some_and(|before| is(tokens.get(before), "THEN"));
        let Some(nothing) = significant_after(&tokens, at).filter(|next| is_action && is(tokens.get(*next), "NOTHING")) else { continue };
        spelled.push_str(sql.get(copied..*offset).unwrap_or_default());
        spelled.push_str(&match inserts {
            true => format!("INSERT (\"{NOTHING}\") VALUES (NULL)"),
            false => format!("UPDATE SET \"{NOTHING}\" = NULL"),
        });
        copied = offsets.get(nothing + 1).copied().unwrap_or(sql.len());
    }
    spelled.push_str(sql.get(copied..).unwrap_or_default());
    spelled
}

/// Whether a clause that begins here is one of rows that are to be inserted; `None` if none begins. (CASE has a WHEN too.)
fn clause_of(tokens: &[Token], when: usize) -> Option<bool> {
    if !is(tokens.get(when), "WHEN") {
        return None;
    }
    let mut at = when;
    let mut next = |word: &str| match significant_after(tokens, at) {
        Some(next) if is(tokens.get(next), word) => {
            at = next;
            true
        }
        _ => false,
    };
    let not = next("NOT");
    next("MATCHED").then(|| not && !(next("BY") && next("SOURCE")))
}

/// Takes those clauses out; what they would have taken, the later ones of their kind do not get. One that comes after a clause
/// without a condition would never apply.
pub fn leave(merge: &mut Merge) -> Result<()> {
    let mut taken: Vec<(bool, bool, Expr)> = Vec::new();
    let mut clauses = Vec::new();
    let mut whole = Vec::new();
    for mut clause in std::mem::take(&mut merge.clauses) {
        let kind = (clause.clause_kind == MergeClauseKind::Matched, clause.clause_kind == MergeClauseKind::NotMatchedBySource);
        if whole.contains(&kind) {
            return Err(merge::unreached(&merge.table.to_string()));
        }
        if clause.predicate.is_none() {
            whole.push(kind);
        }
        if does_nothing(&clause) {
            let condition = clause.predicate.take().unwrap_or(Expr::Value(Value::Boolean(true).with_empty_span()));
            taken.push((kind.0, kind.1, condition));
            continue;
        }
        for (_, _, condition) in taken.iter().filter(|(matched, of_source, _)| (*matched, *of_source) == kind) {
            let others = Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(condition.clone()))));
            clause.predicate = Some(match clause.predicate.take() {
                None => others,
                Some(own) => {
                    Expr::BinaryOp { left: Box::new(others), op: BinaryOperator::And, right: Box::new(Expr::Nested(Box::new(own))) }
                }
            });
        }
        clauses.push(clause);
    }
    if clauses.is_empty() && !taken.is_empty() {
        // A statement that never does anything.
        let (when_token, delete_token) = (AttachedToken::empty(), AttachedToken::empty());
        let predicate = Some(Expr::Value(Value::Boolean(false).with_empty_span()));
        let action = MergeAction::Delete { delete_token };
        clauses.push(MergeClause { when_token, clause_kind: MergeClauseKind::Matched, predicate, action });
    }
    merge.clauses = clauses;
    Ok(())
}

fn does_nothing(clause: &MergeClause) -> bool {
    let is_nothing = |name: &ObjectName| *name == ObjectName::from(vec![Ident::with_quote('"', NOTHING)]);
    match &clause.action {
        MergeAction::Update(update) => {
            update.assignments.iter().any(|set| matches!(&set.target, AssignmentTarget::ColumnName(name) if is_nothing(name)))
        }
        MergeAction::Insert(insert) => insert.columns.iter().any(is_nothing),
        MergeAction::Delete { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn clauses_that_do_nothing_hold_back_later_ones_of_their_kind() {
        let merge = "MERGE INTO t USING s ON t.a = s.a ";
        for (given, expected) in [
            (
                "WHEN MATCHED AND t.b = 1 THEN DO NOTHING WHEN NOT MATCHED THEN do nothing WHEN MATCHED AND t.c THEN DELETE",
                "WHEN MATCHED AND (t.b = 1) IS NOT TRUE AND (t.c) THEN DELETE",
            ),
            (
                "WHEN NOT MATCHED BY SOURCE AND t.b THEN DO NOTHING WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN DELETE",
                "WHEN NOT MATCHED BY SOURCE AND (t.b) IS NOT TRUE THEN DELETE WHEN MATCHED THEN DELETE",
            ),
            ("WHEN MATCHED THEN DELETE", "WHEN MATCHED THEN DELETE"),
            (
                "WHEN NOT MATCHED AND CASE WHEN s.b THEN s.c ELSE s.d END THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (1)",
                "WHEN NOT MATCHED AND (CASE WHEN s.b THEN s.c ELSE s.d END) IS NOT TRUE THEN INSERT VALUES (1)",
            ),
        ] {
            let spelled = spell(&format!("{merge}{given}"), &GenericDialect {});
            let Some(Statement::Merge(mut parsed)) = Parser::parse_sql(&GenericDialect {}, &spelled).unwrap().pop() else {
                panic!("{spelled}")
            };
            leave(&mut parsed).unwrap();
            assert_eq!(parsed.to_string(), format!("{merge}{expected}"));
        }
        let conflict = "INSERT INTO merge_log VALUES (1) ON CONFLICT (a) DO NOTHING";
        assert_eq!(spell(conflict, &GenericDialect {}), conflict);
    }
}
