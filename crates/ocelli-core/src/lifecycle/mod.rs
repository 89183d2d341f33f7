//! The life of a request at the encoder, by ownership.
//!
//! An entry exists because somebody holds a guard: the encode that made it, or a send that borrows its
//! rows. Dropping the last one releases it; there is no path that must remember to. Destinations may
//! register before the encode begins: they wait under the id, and leave nothing behind when they stop
//! waiting. The sweep is a backstop for what one-sided receivers never fetched.
//!
//! | file | what |
//! | --- | --- |
//! | [`table`] | the table and its one lock: begin, refuse, what is in it |
//! | `entry` | one request: its phase and what it may still do |
//! | [`guard`] | what holds an entry alive; `Drop` releases |
//! | [`sizes`] | the rendezvous with those who want to know how large a part is |
//! | `sends` | who is owed: registered, told, fetched; register and send |
//! | [`sweep`] | the backstop |
//! | `ended` | why an id has no entry any more, so that who comes late is told at once |
//! | `wait` | futures that look at the table until they are content, and forget themselves when dropped |
//!
//! What must hold: only an encode makes an entry; after its release was requested nothing begins and it
//! goes with its last guard; each destination is told to the encode once; a wait that could end was woken.
//!
//! Time comes in as an argument. One lock guards the table; wakers are called, and rows and wakers
//! dropped, only after it is free, so that either may come back to the table.

mod ended;
mod entry;
pub mod guard;
mod sends;
pub mod sizes;
pub mod sweep;
pub mod table;
mod wait;

pub use guard::{EncodeGuard, SendGuard};
pub use sizes::Sizes;
pub use sweep::{Swept, SweptPhase};
pub use table::{Limits, Stats, Table};
