//! The only unsafe code here: a frame that libzmq sends out of somebody else's memory.

use super::landing::{Landed, Landing, Ticket};
use crate::Staged;
use std::cell::Cell;
use std::os::raw::{c_int, c_void};
use std::sync::Arc;

thread_local! {
    /// Set on threads that own sockets.
    ///
    /// libzmq frees a frame that it has sent on its I/O thread. A frame that was still queued when its
    /// connection broke is freed by the thread that owns the socket: with IMMEDIATE the pipe is torn down,
    /// and its writing end, ours, empties it (`pipe_t::process_hiccup`, and `lb_t::send` for the rest of a
    /// message that was cut in two). So where a frame is freed says whether it left.
    static OWNS_SOCKETS: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that owns sockets.
pub(super) fn this_thread_owns_sockets() {
    OWNS_SOCKETS.with(|owns| owns.set(true));
}

/// What a frame holds until libzmq lets go of it.
struct Hold {
    bytes: Staged,
    ticket: Ticket,
    landing: Arc<Landing>,
}

/// libzmq's callback: the frame is no longer needed.
unsafe extern "C" fn let_go(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the box that `send_last` gave away with this frame, and libzmq calls this exactly once
    // a frame, from any thread; `Hold` is Send.
    let Hold { bytes, ticket, landing } = *unsafe { Box::from_raw(hint.cast::<Hold>()) };
    // free first, so that whoever hears of it finds it free
    drop(bytes);
    let lost = OWNS_SOCKETS.try_with(Cell::get).unwrap_or(false);
    landing.report(Landed { ticket, lost });
}

/// Sends the last frame of a message without copying it and without waiting. From here on libzmq holds one
/// count on `bytes`; it is given back, and reported under `ticket`, also when this fails.
///
/// # Errors
/// libzmq's error number.
pub(super) fn send_last(
    socket: &mut zmq::Socket,
    bytes: Staged,
    ticket: Ticket,
    landing: &Arc<Landing>,
) -> Result<(), c_int> {
    let data = bytes.as_bytes().as_ptr();
    let len = bytes.len();
    let hint = Box::into_raw(Box::new(Hold { bytes, ticket, landing: landing.clone() }));
    let mut frame = zmq_sys::zmq_msg_t::default();
    // SAFETY: `data` points to `len` bytes that stay where they are and live until `let_go` drops the count
    // in `hint`: the owner behind an Arc is neither moved nor lent mutably. libzmq only reads them.
    let made = unsafe {
        zmq_sys::zmq_msg_init_data(&mut frame, data.cast_mut().cast::<c_void>(), len, Some(let_go), hint.cast())
    };
    if made != 0 {
        // SAFETY: libzmq did not take the frame, so the box is still ours.
        drop(unsafe { Box::from_raw(hint) });
        return Err(libc::ENOMEM);
    }
    // SAFETY: `frame` was initialised above and `socket` is open and used by this thread only.
    let sent = unsafe { zmq_sys::zmq_msg_send(&mut frame, socket.as_mut_ptr(), zmq::DONTWAIT) };
    if sent >= 0 {
        return Ok(());
    }
    // SAFETY: plain read of this thread's errno.
    let why = unsafe { zmq_sys::zmq_errno() };
    // SAFETY: a frame that was not sent is still ours to close, once; that calls `let_go`.
    unsafe { zmq_sys::zmq_msg_close(&mut frame) };
    Err(why)
}
