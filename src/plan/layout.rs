//! Layout: the order that an OPTIMIZE gives the rows of a table, and whether they have it already.
//!
//! Goes in: column names as the user wrote them, and a version. Comes out: positions of columns, and a sort.
//! Always holds: an order is told by field ids, so that a renamed column is the same and a new one of an old name is not;
//! equal rows keep the order in which they lay, so that the outcome does not depend on timing.

use crate::error::{Error, Result, nearest_name};
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::stage::zorder::{MAX_COLUMNS, is_sortable};
use crate::stage::zorder_exec::Z_COLUMN;
use crate::table::fragment::{Fragment, SortKey};
use crate::table::schema::{FieldId, TableSchema};
use crate::txn::action::Action;
use crate::txn::refs::FragmentRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use std::collections::HashMap;
use std::sync::Arc;

/// The order that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// ORDER BY.
    By(Vec<OrderKey>),
    /// ZORDER BY.
    Z(Vec<String>),
}

/// A column of an ORDER BY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderKey {
    /// The column.
    pub column: String,
    /// Whether the largest come first.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// An order of the columns of one table.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The columns by position, and how each is sorted. In a Z-order the latter says nothing.
    pub keys: Vec<(usize, SortOptions)>,
    /// Whether it is a Z-order.
    pub z: bool,
    fields: Vec<FieldId>,
}

impl Layout {
    /// The order of the columns that a table has.
    pub fn resolve(order: &Order, schema: &TableSchema, table: &str) -> Result<Layout> {
        Layout::resolve_in(if matches!(order, Order::Z(_)) { "ZORDER BY" } else { "ORDER BY" }, order, schema, table)
    }

    /// The order that a clause says.
    fn resolve_in(clause: &str, order: &Order, schema: &TableSchema, table: &str) -> Result<Layout> {
        let ascending = SortOptions { descending: false, nulls_first: false };
        let (wanted, z): (Vec<(&str, SortOptions)>, bool) = match order {
            Order::By(keys) => {
                let options = |key: &OrderKey| SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                (keys.iter().map(|key| (key.column.as_str(), options(key))).collect(), false)
            }
            Order::Z(columns) => (columns.iter().map(|column| (column.as_str(), ascending)).collect(), true),
        };
        if z && wanted.len() > MAX_COLUMNS {
            let what = format!("ZORDER BY of {} columns", wanted.len());
            return Err(Error::unsupported(what, Some("name at most 8: with more, none of them is near")));
        }
        let columns: Vec<_> = schema.columns().collect();
        let (mut keys, mut fields) = (Vec::new(), Vec::new());
        for (name, options) in wanted {
            let Some(at) = columns.iter().position(|column| column.name == name) else {
                let nearest = nearest_name(name, columns.iter().map(|column| column.name.as_str()));
                return Err(Error::UnknownColumn { table: table.to_owned(), column: name.to_owned(), nearest });
            };
            let Some(column) = columns.get(at) else { continue };
            let data_type = schema.arrow_field(column).data_type().clone();
            if !is_sortable(&data_type) || (!z && data_type.is_nested()) {
                let what =
                    format!("{clause} of column '{name}', which has the type {}", data_type.to_string().split('(').next().unwrap_or(""));
                return Err(Error::unsupported(what, None));
            }
            if fields.contains(&column.id) {
                return Err(Error::invalid(format!("column '{name}' is named twice in {clause}")));
            }
            keys.push((at, options));
            fields.push(column.id);
        }
        Ok(Layout { keys, z, fields })
    }

    /// The ascending order of these columns, NULLs last.
    pub fn of_fields(fields: &[FieldId], schema: &TableSchema, table: &str) -> Result<Layout> {
        let key = |id: &FieldId| match schema.field(*id) {
            Some(field) => Ok(OrderKey { column: field.name.clone(), descending: false, nulls_first: false }),
            None => Err(Error::internal(format!("table '{table}' is clustered by field {id}, which is none"))),
        };
        Layout::resolve_in("CLUSTER BY", &Order::By(fields.iter().map(key).collect::<Result<_>>()?), schema, table)
    }

    /// The order in words that name fields by id.
    pub fn describe(&self) -> String {
        let key = |(field, (_, options)): (&FieldId, &(usize, SortOptions))| match (self.z, options.descending, options.nulls_first) {
            (true, ..) => field.0.to_string(),
            (false, descending, nulls_first) => {
                let direction = if descending { " DESC" } else { "" };
                // As without a word: NULLs are larger than anything.
                let nulls = match nulls_first {
                    _ if nulls_first == descending => "",
                    true => " NULLS FIRST",
                    false => " NULLS LAST",
                };
                format!("{}{direction}{nulls}", field.0)
            }
        };
        let keys: Vec<String> = self.fields.iter().zip(&self.keys).map(key).collect();
        format!("{} {}", if self.z { "ZORDER BY" } else { "ORDER BY" }, keys.join(", "))
    }

    /// The order as a file of all columns has it that lies in it; a Z-order cannot be told so.
    pub fn sort_keys(&self) -> Vec<SortKey> {
        let key = |(at, options): &(usize, SortOptions)| SortKey {
            column: *at as u32,
            descending: options.descending,
            nulls_first: options.nulls_first,
        };
        self.keys.iter().filter(|_| !self.z).map(key).collect()
    }

    /// Whether the rows of a fragment lie in this order.
    pub fn is_that_of(&self, fragment: &Fragment) -> bool {
        let known: Vec<_> = fragment.sorted_by().into_iter().map(|(field, key)| (field, key.descending, key.nulls_first)).collect();
        let wanted = self.fields.iter().zip(&self.keys).map(|(field, (_, options))| (*field, options.descending, options.nulls_first));
        !self.z && known.starts_with(&wanted.collect::<Vec<_>>())
    }

    /// The sort of rows that have the columns, the address, and the Z-value if there is one.
    pub fn sort(&self, rows: &SchemaRef) -> Result<LexOrdering> {
        let column = |name: &str| Column::new_with_schema(name, rows).map_err(Error::from);
        let ascending = SortOptions { descending: false, nulls_first: false };
        let mut sort = Vec::new();
        if self.z {
            sort.push(PhysicalSortExpr::new(Arc::new(column(Z_COLUMN)?), ascending));
        } else {
            for (at, options) in &self.keys {
                let name = rows.fields().get(*at).map(|field| field.name().clone()).unwrap_or_default();
                sort.push(PhysicalSortExpr::new(Arc::new(Column::new(&name, *at)), *options));
            }
        }
        for name in [FRAGMENT_COLUMN, OFFSET_COLUMN] {
            sort.push(PhysicalSortExpr::new(Arc::new(column(name)?), ascending));
        }
        LexOrdering::new(sort).ok_or_else(|| Error::internal("a sort by nothing"))
    }

    /// The types of the columns.
    pub fn types(&self, rows: &SchemaRef) -> Vec<DataType> {
        self.keys.iter().filter_map(|(at, _)| rows.fields().get(*at)).map(|field| field.data_type().clone()).collect()
    }

    /// Whether these fragments of a version are what one transaction made of its rows when it gave them this order, and no
    /// column of it was written since. It costs reading the version that made them; where that is gone the answer is no.
    pub async fn is_had_by(&self, fragments: &[Arc<Fragment>], base: &Version, log: &VersionLog) -> Result<bool> {
        let Some(first) = fragments.first() else { return Ok(true) };
        if fragments.iter().any(|fragment| fragment.created_at != first.created_at) {
            return Ok(false);
        }
        let made_by = match first.created_at == base.snapshot.version {
            true => None,
            false if first.created_at < base.snapshot.low_water_mark => return Ok(false),
            false => log.read_if_present(first.created_at).await?,
        };
        // The version that an open transaction sees is its own until it commits, and says of no transaction.
        let made_by = made_by.as_deref().unwrap_or(base);
        let order = self.describe();
        Ok(made_by.transactions.iter().any(|committed| {
            // What became of its rows, and in which file.
            let mut files = HashMap::new();
            let mut ordered: Vec<FragmentRef> = Vec::new();
            for action in committed.transaction.actions() {
                match action {
                    Action::AddDataFile(add) => drop(files.insert(add.fragment, add.file.path.as_str())),
                    Action::ChangeOfAddress(change) if change.order.as_ref() == Some(&order) => {
                        ordered.extend(change.targets.iter().copied())
                    }
                    Action::ChangeOfAddress(_)
                    | Action::AddFragment(_)
                    | Action::RemoveFragment(_)
                    | Action::SetDeletionFile(_)
                    | Action::AddField(_)
                    | Action::AlterField(_)
                    | Action::DropField(_)
                    | Action::TombstoneFieldData(_)
                    | Action::ConfigUpdate(_)
                    | Action::ReserveFragmentIds(_)
                    | Action::ResetTable(_)
                    | Action::AddBase(_)
                    | Action::AssertUniqueKeys(_) => {}
                }
            }
            let has_it = |fragment: &Arc<Fragment>| {
                let target = ordered.iter().find(|target| committed.minted.fragment(**target) == Some(fragment.id));
                let Some(target) = target else { return false };
                let written = files.get(target);
                let as_written = |field: &FieldId| fragment.backing(*field).map(|(file, _)| file.path.as_str()) == written.copied();
                self.fields.iter().all(as_written)
            };
            fragments.iter().all(has_it)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Field as ArrowField, Fields, Schema as ArrowSchema};

    fn schema() -> TableSchema {
        let nested = DataType::Struct(Fields::from(vec![ArrowField::new("x", DataType::Int32, true)]));
        let fields = vec![
            ArrowField::new("a", DataType::Int64, false),
            ArrowField::new("s", nested, true),
            ArrowField::new("b", DataType::Utf8, true),
        ];
        TableSchema::from_arrow(&ArrowSchema::new(fields), FieldId(1)).unwrap()
    }

    fn by(keys: &[(&str, bool, bool)]) -> Order {
        let key = |(column, descending, nulls_first): &(&str, bool, bool)| OrderKey {
            column: (*column).to_owned(),
            descending: *descending,
            nulls_first: *nulls_first,
        };
        Order::By(keys.iter().map(key).collect())
    }

    #[test]
    fn an_order_is_told_by_field_ids() {
        let describe = |order| Layout::resolve(&order, &schema(), "t").unwrap().describe();
        assert_eq!(describe(by(&[("b", true, true), ("a", false, true)])), "ORDER BY 4 DESC, 1 NULLS FIRST");
        assert_eq!(describe(by(&[("a", true, false)])), "ORDER BY 1 DESC NULLS LAST");
        assert_eq!(describe(Order::Z(vec!["b".into(), "a".into()])), "ZORDER BY 4, 1");
    }

    #[test]
    fn columns_that_cannot_be_sorted_are_refused() {
        let refusal = |order| Layout::resolve(&order, &schema(), "t").unwrap_err();
        assert_eq!(refusal(by(&[("aa", false, false)])).to_string(), "column 'aa' does not exist in table 't'; did you mean 'a'?");
        assert_eq!(refusal(by(&[("s", false, false)])).sqlstate(), "0A000");
        assert!(refusal(Order::Z(vec!["a".into(), "a".into()])).to_string().contains("named twice"));
        assert_eq!(refusal(Order::Z((0..9).map(|_| "a".to_owned()).collect())).sqlstate(), "0A000");
    }
}
