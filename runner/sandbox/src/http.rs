//! The network as a handler may use it: where it may go is granted by origin and by address, and nothing
//! else is ever dialled.

mod grant;

pub use grant::{HttpGrant, Origin, OriginError};
