//! `--print-config`.

use super::Origin;
use std::fmt::Write;

/// A table of flag, value and source.
pub fn print(origins: &[Origin]) -> String {
    let width = origins.iter().map(|o| o.flag.len()).max().unwrap_or(0);
    let mut out = String::new();
    for Origin { flag, value, source } in origins {
        // writing to a string cannot fail
        let _ = writeln!(out, "{flag:width$}  {value}  ({source})");
    }
    out
}
