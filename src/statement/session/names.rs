//! Statements about names: schemas, views, what tables are called.

use super::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::catalog::{Catalog, TableName};
use crate::statement::create::check_name;
use crate::statement::lake::naming::{IfThere, Renamed, is_a_table, is_a_view, no_namespace, no_view, no_view_replaces};
use crate::statement::outcome::Outcome;
use crate::statement::parse::Rename;
use crate::statement::{forms, views};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::TableType;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{CreateView, ObjectName, SchemaName, Statement, Use};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What SHOW SCHEMAS asks for.
const SHOW_SCHEMAS: &str = "SELECT catalog_name, schema_name FROM information_schema.schemata ORDER BY catalog_name, schema_name";

impl Session {
    pub(super) async fn rename(&self, rename: &Rename) -> Result<Outcome> {
        let words = if rename.of_view { "ALTER VIEW" } else { "ALTER TABLE" };
        self.no_transaction(&format!("{words} .. RENAME"))?;
        check_name(&rename.to)?;
        let (from, to) = (&rename.table, &rename.to);
        if self.is_anothers(to).await? {
            return Err(Error::TableExists { table: to.to_string() });
        }
        if self.is_anothers(from).await? {
            return Err(Error::unsupported(format!("renaming '{from}', which only this session has,"), Some("create it anew")));
        }
        let what = if rename.of_view { Renamed::View } else { Renamed::Relation };
        self.scope.commits()?;
        match self.lake.rename(from, to, what).await {
            // Nothing is said of a schema that is missing where it is to go.
            Err(error) if rename.if_exists && error.kind() == ErrorKind::NotFound && !self.lake.is_taken(from).await.unwrap_or(false) => {
                Ok(Outcome::Done(words.into()))
            }
            done => done.map(|()| Outcome::Done(words.into())),
        }
    }

    /// CREATE SCHEMA, of the lake or of a catalog of the host; `None` if it is the host's.
    pub(super) async fn create_schema(&self, name: &SchemaName, if_not_exists: bool) -> Result<Option<Outcome>> {
        let SchemaName::Simple(name) = name else {
            return Err(Error::unsupported("CREATE SCHEMA with AUTHORIZATION", Some("nobody owns schemas here")));
        };
        let Some(namespace) = self.names().namespace(name)? else { return Ok(None) };
        self.no_transaction("CREATE SCHEMA")?;
        // Where the host has one of that name, what is in it stays beside.
        self.scope.commits()?;
        self.lake.create_namespace(&namespace, if_not_exists).await?;
        Ok(Some(Outcome::Done("CREATE SCHEMA".into())))
    }

    /// Drops all of the schemas that are the lake's, one after another; `None` if one is the host's.
    pub(super) async fn drop_schemas(&self, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Option<Outcome>> {
        let [name] = names else {
            return Err(Error::unsupported("DROP SCHEMA of several schemas", Some("drop one after another")));
        };
        let Some(namespace) = self.names().namespace(name)? else { return Ok(None) };
        self.no_transaction("DROP SCHEMA")?;
        let has_it = self.lake.catalog().await?.has_namespace(&namespace);
        if !has_it && self.ctx.catalog(self.names().lake()).is_some_and(|catalog| catalog.schema(&namespace).is_some()) {
            return Ok(None);
        }
        self.scope.commits()?;
        match self.lake.drop_namespace(&namespace, cascade).await {
            Err(Error::Refused { sqlstate: "3F000", .. }) if if_exists => {}
            done => done?,
        }
        Ok(Some(Outcome::Done("DROP SCHEMA".into())))
    }

    /// USE: names without a schema are of this one.
    pub(super) async fn use_schema(&self, schema: &Use) -> Result<Outcome> {
        let (Use::Object(name) | Use::Schema(name)) = schema else {
            return Err(Error::unsupported(schema.to_string(), Some("USE takes the name of a schema")));
        };
        let Some(namespace) = self.names().namespace(name)? else {
            return Err(Error::unsupported(schema.to_string(), Some("SET datafusion.catalog.default_catalog")));
        };
        let catalog = self.lake.catalog().await?;
        if !catalog.has_namespace(&namespace) && self.ctx.catalog(self.names().lake()).is_none_or(|all| all.schema(&namespace).is_none()) {
            return Err(no_namespace(&catalog, &namespace));
        }
        let lake = self.names().lake().to_owned();
        let state = self.ctx.state_ref();
        let mut state = state.write();
        let options = &mut state.config_mut().options_mut().catalog;
        (options.default_catalog, options.default_schema) = (lake, namespace);
        Ok(Outcome::Done("USE".into()))
    }

    pub(super) async fn show_schemas(&self) -> Result<Outcome> {
        let state = self.ctx.state();
        let plan = state.create_logical_plan(SHOW_SCHEMAS).await?;
        self.engine(plan).await
    }

    /// CREATE VIEW: of the lake, or of this session if it says so or reads what only this session has.
    pub(super) async fn create_view(&self, mut create: CreateView) -> Result<Outcome> {
        self.no_transaction("CREATE VIEW")?;
        views::check(&create)?;
        let (state, names) = (self.ctx.state(), self.names());
        let name = names.table(&create.name)?;
        check_name(&name)?;
        let of_session = self.is_anothers(&name).await?;
        if create.if_not_exists && (of_session || self.lake.is_taken(&name).await?) {
            return Ok(Outcome::Done("CREATE VIEW".into()));
        }
        let alone = match create.temporary {
            true => None,
            false => match self.of_session_alone(&create).await? {
                None => return self.store_view(&name, &create, of_session).await,
                alone => alone,
            },
        };
        if create.or_replace {
            refuse_to_hide(&*self.lake.catalog().await?, &name, alone.as_ref())?;
        }
        create.temporary = false;
        create.if_not_exists = false;
        let statement = DfStatement::Statement(Box::new(Statement::CreateView(create)));
        let plan = views::strictly(forms::plan(&state, statement)).await?;
        self.engine(plan).await?;
        Ok(Outcome::Done(match alone {
            Some(alone) => format!("CREATE TEMPORARY VIEW: only this session has '{alone}', which it reads"),
            None => "CREATE TEMPORARY VIEW".into(),
        }))
    }

    async fn store_view(&self, name: &TableName, create: &CreateView, of_session: bool) -> Result<Outcome> {
        if of_session && !create.or_replace {
            return Err(Error::TableExists { table: name.to_string() });
        }
        let view = views::stored(&self.ctx.state(), &self.planner, &self.names(), name, create).await?;
        let hidden = match of_session {
            true => Some(self.take_view(name).await?),
            false => None,
        };
        let if_there = match (create.or_replace, create.if_not_exists) {
            (true, _) => IfThere::Replace,
            (false, true) => IfThere::Keep,
            (false, false) => IfThere::Refuse,
        };
        self.scope.commits()?;
        self.lake.create_view(name, &view, if_there).await?;
        if let Some(mut hidden) = hidden {
            hidden.view = None;
        }
        Ok(Outcome::Done("CREATE VIEW".into()))
    }

    /// Something that a view would read and that only this session has.
    async fn of_session_alone(&self, create: &CreateView) -> Result<Option<TableReference>> {
        let state = self.ctx.state();
        let query = DfStatement::Statement(Box::new(Statement::Query(create.query.clone())));
        let catalog = self.lake.catalog().await?;
        for reference in state.resolve_table_references(&query)? {
            let resolved =
                reference.clone().resolve(&state.config_options().catalog.default_catalog, &state.config_options().catalog.default_schema);
            let name = TableName::new(resolved.schema.as_ref(), resolved.table.as_ref());
            let in_lake = *resolved.catalog == *self.names().lake()
                && (catalog.tables.contains_key(&name)
                    || catalog.views.contains_key(&name)
                    || name.name.rsplit_once('@').is_some_and(|(table, _)| catalog.tables.contains_key(&name.sibling(table))));
            if in_lake || *resolved.schema == *datafusion::catalog::information_schema::INFORMATION_SCHEMA {
                continue;
            }
            // Nothing may be there: a function, or an error that planning tells.
            if let Ok(schema) = state.schema_for_ref(reference.clone())
                && schema.table(&resolved.table).await?.is_some()
            {
                return Ok(Some(reference));
            }
        }
        Ok(None)
    }

    /// Drops all of the tables, or none if one does not exist.
    pub(super) async fn drop_tables(&self, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
        self.no_transaction("DROP TABLE")?;
        let (mut of_the_lake, mut others) = (BTreeSet::new(), vec![]);
        for name in names {
            let table = self.names().table(name)?;
            let catalog = self.lake.catalog().await?;
            if catalog.tables.contains_key(&table) {
                of_the_lake.insert(table);
            } else if catalog.views.contains_key(&table) {
                return Err(Error::refused("42809", format!("{}; say DROP VIEW", is_a_view(&table))));
            } else if self.ctx.table_exist(self.names().whole(&table)).unwrap_or(false) {
                others.push((table, self.spelled(name)?));
            } else if !if_exists {
                return Err(self.lake.no_table(&table));
            }
        }
        for (table, _) in &others {
            if self.type_of(table).await? == TableType::View {
                return Err(Error::refused("42809", format!("{}; say DROP VIEW", is_a_view(table))));
            }
        }
        self.scope.commits()?;
        if !of_the_lake.is_empty() {
            self.lake.drop_tables(&of_the_lake, if_exists).await?;
        }
        for (_, table) in others {
            self.ctx.deregister_table(table)?;
        }
        Ok(Outcome::Done("DROP TABLE".into()))
    }

    /// Drops all of the views, or none if one does not exist.
    pub(super) async fn drop_views(&self, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
        self.no_transaction("DROP VIEW")?;
        let (mut of_the_lake, mut others) = (BTreeSet::new(), vec![]);
        for name in names {
            let view = self.names().table(name)?;
            let catalog = self.lake.catalog().await?;
            if catalog.views.contains_key(&view) {
                of_the_lake.insert(view);
            } else if catalog.tables.contains_key(&view) {
                return Err(is_a_table(&view));
            } else if self.ctx.table_exist(self.names().whole(&view)).unwrap_or(false) {
                others.push((view, self.spelled(name)?));
            } else if !if_exists {
                return Err(no_view(&view));
            }
        }
        for (view, _) in &others {
            if self.type_of(view).await? != TableType::View {
                return Err(is_a_table(view));
            }
        }
        self.scope.commits()?;
        if !of_the_lake.is_empty() {
            self.lake.drop_views(&of_the_lake, if_exists).await?;
        }
        for (_, view) in others {
            self.ctx.deregister_table(view)?;
        }
        Ok(Outcome::Done("DROP VIEW".into()))
    }

    /// A name as it is written: what DataFusion remembers of the files of an external table it finds by that.
    fn spelled(&self, name: &ObjectName) -> Result<TableReference> {
        let folds = self.ctx.state_ref().read().config_options().sql_parser.enable_ident_normalization;
        Ok(object_name_to_table_reference(name.clone(), folds)?)
    }

    /// What something is that only this session has.
    async fn type_of(&self, name: &TableName) -> Result<TableType> {
        Ok(self.ctx.table_provider(self.names().whole(name)).await?.table_type())
    }

    /// Takes a view of the session, in whose place one of the lake is to come.
    async fn take_view(&self, name: &TableName) -> Result<Taken<'_>> {
        if self.type_of(name).await? != TableType::View {
            return Err(Error::TableExists { table: name.to_string() });
        }
        let name = self.names().whole(name);
        let view = self.ctx.deregister_table(name.clone())?;
        Ok(Taken { ctx: &self.ctx, name, view })
    }
}

/// A view that was taken from a session, which gets it back unless it is forgotten.
struct Taken<'a> {
    ctx: &'a SessionContext,
    name: TableReference,
    view: Option<Arc<dyn TableProvider>>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(view) = self.view.take() {
            // Another may have made one of the lake meanwhile; then that counts.
            let _ = self.ctx.register_table(self.name.clone(), view);
        }
    }
}

/// Refuses a view of the session in place of what everybody has; `alone` is what only the session has and the view would read.
fn refuse_to_hide(catalog: &Catalog, name: &TableName, alone: Option<&TableReference>) -> Result<()> {
    if catalog.tables.contains_key(name) {
        return Err(no_view_replaces(name));
    }
    if !catalog.views.contains_key(name) {
        return Ok(());
    }
    let reason = match alone {
        Some(alone) => format!("this one reads '{alone}', which only this session has, so the lake cannot keep it"),
        None => "a temporary view cannot replace it".to_owned(),
    };
    Err(Error::refused("42P07", format!("'{name}' is a view of the lake, and {reason}; give it another name")))
}
