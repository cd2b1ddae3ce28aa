//! The order of the layers of each crate, outermost first. To change what may import what, change it here.

/// A crate and the order of its layers.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// The crate's name in Rust paths, such as `duebox_queue`.
    pub name: &'static str,
    /// Its source folder, from the root of the repository.
    pub src: &'static str,
    /// Rows of layers, outermost first. A layer imports only layers of later rows.
    pub rows: &'static [&'static [&'static str]],
    /// Imports against the order that stay, each with its reason.
    pub exceptions: &'static [Exception],
}

/// One import against the order that is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The importing file, from the crate's source folder.
    pub file: &'static str,
    /// The layer it imports.
    pub layer: &'static str,
    /// Why the import stays.
    pub reason: &'static str,
}

/// The crates whose layers are checked.
pub const CRATES: &[Crate] = &[
    Crate {
        name: "duebox",
        src: "runner/src",
        rows: &[
            &["cli"],
            &["daemon"],
            &["http"],
            &["report"],
            &["service"],
            &["worker"],
            &["executor"],
            &["deploy"],
            &["background"],
            &["timer"],
            &["observe"],
            &["language"],
            &["manifest"],
            &["auth", "schedule", "redis_host"],
            &["millis", "monotonic", "regular_file"],
        ],
        exceptions: &[],
    },
    Crate {
        name: "duebox_queue",
        src: "runner/queue/src",
        rows: &[
            &["handle"],
            &["control", "operate", "produce", "store", "work"],
            &["client"],
            &["topic"],
            &["wire"],
            &["error"],
        ],
        exceptions: &[],
    },
    Crate {
        name: "duebox_sandbox",
        src: "runner/sandbox/src",
        rows: &[
            &["sandbox"],
            &["handler"],
            &["module"],
            &["outcome"],
            &["instance"],
            &["imports"],
            &["engine"],
            &[
                "memory_budget",
                "grants",
                "limits",
                "invocation",
                "config",
                "digest",
                "snapshot_seed",
                "thread_slot",
                "error",
            ],
        ],
        exceptions: &[],
    },
];
