//! Handlers: what a topic grants them, and what limits them.

mod cpu_quota;
mod granted_folders;
mod hostile;
mod javascript;
mod javascript_files;
mod kv_store;
mod neighbours;
mod python;
mod secrets;
mod source_deploy;
