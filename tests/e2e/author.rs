//! What the author of a handler does with the binary alone: start a project, build it, look at it.

mod new_folder;
mod projects;
mod refusals;
