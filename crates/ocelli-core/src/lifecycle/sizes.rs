//! The rendezvous of an encode with those who want to know how large its part is, before the rows exist.

use super::entry::{Entry, Phase, not_active};
use super::table::{State, Table};
use super::wait::{Seen, Wait};
use crate::{Fault, ReqId};
use std::future::Future;
use std::task::Poll;

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

impl<S: Clone + Send> Table<S> {
    /// Waits until the sizes of a part are known; the encode may begin later. The caller bounds the wait;
    /// dropping the future ends it.
    ///
    /// # Errors
    /// What the encode failed or was refused with; `NotActive` when it was released; `Overloaded` when
    /// too many wait for encodes that have not begun.
    pub fn sizes(&self, id: &ReqId) -> impl Future<Output = Result<Sizes, Fault>> + Send + use<S> {
        let limits = self.limits();
        Wait::new(self.clone(), id.clone(), move |state: &mut State<S>, id: &ReqId, seen: Seen| {
            match state.entries.get(id) {
                None => state.early(id, seen, &limits),
                Some(Entry { phase: Phase::Failed(fault), .. }) => Poll::Ready(Err(fault.clone())),
                Some(Entry { release_requested: true, .. }) => Poll::Ready(Err(not_active(id))),
                Some(Entry { sizes: Some(sizes), .. }) => Poll::Ready(Ok(*sizes)),
                Some(_) => Poll::Pending,
            }
        })
    }
}
