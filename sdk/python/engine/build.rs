//! How the engine is linked, and what it is rebuilt for.

fn main() {
    // The macro that compiles these files does not tell cargo about them.
    println!("cargo::rerun-if-changed=src/python");
    println!("cargo::rerun-if-changed=build.rs");
    // The daemon gives each instance a memory that already contains the evaluated program.
    for argument in ["--import-memory", "--export-memory", "--export=__stack_pointer"] {
        println!("cargo::rustc-link-arg-cdylib={argument}");
    }
    // RustPython ends a recursion with a RecursionError before the last 32 KiB of this stack. It is smaller than the
    // sandbox's stack of calls, so that most recursions end so.
    println!("cargo::rustc-link-arg-cdylib=-zstack-size=196608");
}
