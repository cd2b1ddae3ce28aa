//! The modules of `sdk/javascript`, if they were built before this program.

include!(concat!(env!("OUT_DIR"), "/javascript.rs"));
