//! The Ocelli encode server: where all rooms meet.
//!
//! | file | what |
//! | --- | --- |
//! | [`api`] | HTTP: a file a route; the only place that knows JSON bodies and status codes |
//! | [`pipeline`] | the path of one request, on one screen |
//! | [`prepare`] | items to patches: fetch, decode, process on a bounded pool |
//! | [`encoder`] | patches to rows: the device thread and its queue |
//! | [`deliver`], [`destinations`] | rows to whoever wants them, and who may |
//! | [`health`], [`drain`] | truth under load, and leaving in order |
//! | [`start`], [`app`] | wiring, top to bottom, and what it makes |
//! | [`config`], [`logging`], [`commands`] | flags and variables, logs, what the program does |
//!
//! Nothing depends on this crate, so nothing below can know HTTP.
#![forbid(unsafe_code)]

pub mod api;
pub mod app;
pub mod commands;
pub mod config;
pub mod deliver;
pub mod destinations;
pub mod drain;
pub mod encoder;
pub mod health;
pub mod logging;
pub mod pipeline;
pub mod prepare;
mod progress_bar;
pub mod request;
pub mod start;
pub mod trace;
