//! What the program does, a file a command.

pub mod demo;
pub mod serve;
