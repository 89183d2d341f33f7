//! The life of a request at the encoder, by ownership.
//!
//! An entry exists because somebody holds a guard: the encode that made it, or a send that borrows its
//! rows. Dropping the last one releases it; there is no path that must remember to. Destinations may
//! register before the encode begins: they wait under the id, and leave nothing behind when they stop
//! waiting. The sweep is a backstop for what one-sided receivers never fetched.
//!
//! | file | what |
//! | --- | --- |
//! | [`table`] | the table: begin, register, wait for sizes, refuse, sweep |
//! | `entry` | one request: its phase and what it may still do |
//! | [`guard`] | what holds an entry alive; `Drop` releases |
//! | `wait` | futures that look at the table until they are content, and forget themselves when dropped |
//!
//! Time comes in as an argument. One lock guards the table; wakers are called after it is free.

mod entry;
pub mod guard;
pub mod table;
mod wait;

pub use guard::{EncodeGuard, SendGuard};
pub use table::{Limits, Stats, Swept, Table};

/// What is known of a part's rows once its items are prepared, before they exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of all items.
    pub rows: usize,
    /// Columns, deepstack included.
    pub dim: usize,
    /// `rows·dim` elements of the model's type.
    pub bytes: usize,
}
