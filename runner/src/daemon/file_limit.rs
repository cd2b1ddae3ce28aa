//! The limit of open files. Each consumer, connection and file of a guest counts, and the usual default of
//! 1,024 is low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!("cannot raise the limit of open files: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_becomes_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        raise();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
