//! Modules and manifests that change while jobs run.

mod breaker;
mod canary;
mod manifest_reload;
mod module_reload;
mod rollback;
mod smoke;
mod special_files;
