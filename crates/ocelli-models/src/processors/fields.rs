//! One field of a JSON object at a time, with errors that name it.

use super::ProcessError;
use serde_json::Value;

/// An error about a setting.
pub(super) fn setting(field: &str, problem: String) -> ProcessError {
    ProcessError::Setting { field: field.to_owned(), problem }
}

/// An error about a value of another kind than expected.
pub(super) fn wrong(field: &str, expected: &str, got: &Value) -> ProcessError {
    let mut got = got.to_string();
    if got.len() > 80 {
        got = format!("{}…", got.chars().take(80).collect::<String>());
    }
    setting(field, format!("expected {expected}, got {got}"))
}

/// A whole number from 1 to `most`.
pub(super) fn count(field: &str, value: &Value, most: u64) -> Result<u64, ProcessError> {
    match value.as_u64() {
        Some(count) if (1..=most).contains(&count) => Ok(count),
        _ if most == u64::MAX => Err(wrong(field, "a positive integer", value)),
        _ => Err(wrong(field, &format!("an integer from 1 to {most}"), value)),
    }
}

/// Any number.
pub(super) fn number(field: &str, value: &Value) -> Result<f64, ProcessError> {
    value.as_f64().ok_or_else(|| wrong(field, "a number", value))
}

/// True or false.
pub(super) fn flag(field: &str, value: &Value) -> Result<bool, ProcessError> {
    value.as_bool().ok_or_else(|| wrong(field, "true or false", value))
}

/// Three numbers, or one that serves for all channels.
pub(super) fn channels(field: &str, value: &Value) -> Result<[f32; 3], ProcessError> {
    let bad = || wrong(field, "a number or a list of 3 numbers", value);
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let numbers = list.iter().map(|v| v.as_f64().map(|v| v as f32)).collect::<Option<Vec<_>>>().ok_or_else(bad)?;
    match numbers[..] {
        [all] => Ok([all; 3]),
        [r, g, b] => Ok([r, g, b]),
        _ => Err(bad()),
    }
}
