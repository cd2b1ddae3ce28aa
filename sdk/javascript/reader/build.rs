//! How the reader is linked.

fn main() {
    // The parser recurses for each level of nesting.
    println!("cargo::rustc-link-arg-cdylib=-zstack-size=4194304");
}
