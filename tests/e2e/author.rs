//! What the author of a handler does with the binary alone: start a project, build it, look at it, develop it.

mod c_json;
mod c_with_zig;
mod dev;
mod dev_session;
mod new_folder;
mod projects;
mod real_modules;
mod refusals;
