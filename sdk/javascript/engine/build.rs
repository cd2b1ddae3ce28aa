//! How the engine is linked.

fn main() {
    // The daemon gives each instance a memory that already contains the evaluated program.
    for argument in ["--import-memory", "--export-memory", "--export=__stack_pointer"] {
        println!("cargo::rustc-link-arg-cdylib={argument}");
    }
    // The interpreter recurses for each call of the program. `STACK_MAX` in `src/runtime.rs` is less.
    println!("cargo::rustc-link-arg-cdylib=-zstack-size=524288");
}
