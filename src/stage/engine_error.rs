//! Errors across the border with DataFusion: ours travel inside of its, and come out unchanged.

use crate::error::{Error, ErrorKind};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;
use std::num::{ParseFloatError, ParseIntError};
use std::str::ParseBoolError;
use std::sync::Arc;

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match ours(error) {
            Ok(ours) => ours,
            Err(theirs) => from_engine(&theirs),
        }
    }
}

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        DataFusionError::from(error).into()
    }
}

/// An error of ours that is wrapped in one of DataFusion's, or else that one.
fn ours(error: DataFusionError) -> Result<Error, DataFusionError> {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => Ok(*ours),
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => ours(*inner),
                Err(inner) => Err(DataFusionError::External(inner)),
            },
        },
        DataFusionError::Context(context, inner) => ours(*inner).map_err(|e| DataFusionError::Context(context, Box::new(e))),
        DataFusionError::Diagnostic(diagnostic, inner) => ours(*inner).map_err(|e| DataFusionError::Diagnostic(diagnostic, Box::new(e))),
        DataFusionError::Shared(shared) => match Arc::try_unwrap(shared) {
            Ok(inner) => ours(inner),
            Err(shared) => match copy_of_ours(&shared) {
                Some(copy) => Ok(copy),
                None => Err(DataFusionError::Shared(shared)),
            },
        },
        DataFusionError::ArrowError(inner, backtrace) => match *inner {
            ArrowError::ExternalError(inner) => ours(DataFusionError::External(inner)),
            other => Err(DataFusionError::ArrowError(Box::new(other), backtrace)),
        },
        other => match copy_of_ours(&other) {
            Some(copy) => Ok(copy),
            None => Err(other),
        },
    }
}

/// An error of ours somewhere among the causes. It is behind a reference there, so its facts are copied.
fn copy_of_ours(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours.copied());
        }
        cause = match error.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
            _ => match error.downcast_ref::<object_store::Error>() {
                Some(object_store::Error::Generic { source, .. }) => Some(source.as_ref()),
                _ => error.source(),
            },
        };
    }
    None
}

/// How DataFusion's planner says that it does not do something.
const UNSUPPORTED: [&str; 3] = ["not supported", "not yet supported", "not currently supported"];

/// What DataFusion's planner says of a subquery that it could not make a join of; the rest is the expression, in the terms of its own.
const NO_JOIN: &str = "Physical plan does not support logical expression";

/// How it begins what went wrong within our analyzer rule.
const OUR_RULE: &str = "amend\ncaused by\n";

/// What it says of a correlated subquery of which it cannot tell that it yields one row.
const SEVERAL_ROWS: &str = "Correlated scalar subquery must be aggregated";

/// Whether a file could not be read, as opposed to having the wrong bytes.
fn is_of_the_store(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|cause| cause.is::<object_store::Error>())
}

/// What DataFusion said, with the kind and SQLSTATE that fit.
fn from_engine(error: &DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::NotImplemented(message) if message.contains(NO_JOIN) => {
            let instead = "correlate it by equality alone and without LIMIT, or write it as a join";
            return Error::unsupported("a subquery of this form at this place", Some(instead));
        }
        DataFusionError::Plan(message) if message.contains(SEVERAL_ROWS) => {
            let instead = "aggregate it, as in (SELECT max(x) ..), or use MERGE INTO";
            return Error::unsupported("a correlated subquery that may yield several rows", Some(instead));
        }
        _ => {}
    }
    let (kind, sqlstate) = match error.find_root() {
        DataFusionError::SQL(..) => (ErrorKind::Invalid, "42601"),
        // The planner says both with one kind of error.
        DataFusionError::Plan(message) if UNSUPPORTED.iter().any(|words| message.contains(words)) => (ErrorKind::Unsupported, "0A000"),
        DataFusionError::Plan(message) if message.starts_with("Invalid function '") => (ErrorKind::NotFound, "42883"),
        DataFusionError::Plan(message) if message.starts_with("table function '") => (ErrorKind::NotFound, "42883"),
        DataFusionError::Plan(_) => (ErrorKind::Invalid, "42601"),
        DataFusionError::Configuration(message) if message.contains("not find") || message.contains("not found") => {
            (ErrorKind::NotFound, "42704")
        }
        DataFusionError::Configuration(_) => (ErrorKind::Invalid, "22023"),
        // A setting that is a number.
        DataFusionError::External(cause)
            if cause.is::<ParseIntError>() || cause.is::<ParseFloatError>() || cause.is::<ParseBoolError>() =>
        {
            (ErrorKind::Invalid, "22023")
        }
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { .. } => (ErrorKind::NotFound, "42703"),
            SchemaError::AmbiguousReference { .. } => (ErrorKind::Invalid, "42702"),
            _ => (ErrorKind::Invalid, "42701"),
        },
        DataFusionError::NotImplemented(_) => (ErrorKind::Unsupported, "0A000"),
        DataFusionError::ResourcesExhausted(_) => (ErrorKind::Unavailable, "53200"),
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => (ErrorKind::Unavailable, "58030"),
        DataFusionError::ParquetError(inner) if is_of_the_store(inner.as_ref()) => (ErrorKind::Unavailable, "58030"),
        DataFusionError::ParquetError(_) => (ErrorKind::Data, "XX001"),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::DivideByZero => (ErrorKind::Invalid, "22012"),
            ArrowError::ArithmeticOverflow(_) => (ErrorKind::Invalid, "22003"),
            ArrowError::CastError(_) | ArrowError::ParseError(_) => (ErrorKind::Invalid, "22P02"),
            _ => (ErrorKind::Invalid, "22000"),
        },
        DataFusionError::Internal(_) => (ErrorKind::Internal, "XX000"),
        _ => (ErrorKind::Invalid, "22000"),
    };
    let text = error.strip_backtrace();
    let text = text.strip_prefix(OUR_RULE).unwrap_or(&text).to_owned();
    let (kind, sqlstate) = match error.find_root() {
        DataFusionError::Plan(message) if message.starts_with("table '") && message.contains("' not found") => {
            (ErrorKind::NotFound, "42P01")
        }
        DataFusionError::Execution(reason) if reason.contains("returned more than one row") => (ErrorKind::Invalid, "21000"),
        DataFusionError::Execution(reason) if reason.ends_with(" already exists") => (ErrorKind::Invalid, "42P07"),
        DataFusionError::Execution(reason) if reason.starts_with("Prepared statement") => (ErrorKind::NotFound, "26000"),
        _ => (kind, sqlstate),
    };
    Error::Engine { message: text, kind, sqlstate }
}
