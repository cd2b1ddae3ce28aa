//! Handlers: what a topic grants them, and what limits them.

mod granted_folders;
mod hostile;
mod kv_store;
mod neighbours;
mod secrets;
