//! Lives repeat, keep every promise, and find what is broken.

use duebox_simulation::campaign::Campaign;
use duebox_simulation::life::{Life, Options, live};
use duebox_simulation::redis::server::Mutation;

fn campaign(lives: u64) -> Campaign {
    Campaign { from: 1, lives, time: None, threads: 2, violations_max: 1 }
}

#[test]
fn a_seed_repeats_to_the_last_command() {
    let options = Options::default();
    let lives: Vec<Life> = (1..100).map(|seed| live(seed, &options)).collect();
    for life in lives.into_iter().rev() {
        assert_eq!(live(life.seed, &options), life);
    }
}

#[test]
fn every_job_ends_as_it_should_whatever_happens() {
    let found = campaign(1_000).run(&Options::default());
    assert!(found.failed.is_empty(), "{:#?}", found.failed);
    assert!(found.runs > 6_000 && found.faults > 3_000, "{found:?}");
    assert!(found.turns_together > 1_000, "{found:?}");
    assert!(found.lost_leases > 50, "{found:?}");
}

/// Scripts that break one promise each.
const BROKEN: [Mutation; 11] = [
    Mutation {
        name: "a stale token settles",
        from: "if leased[id] == false or single_tokens[i] ~= ARGV[at + 1] then",
        to: "if leased[id] == false then",
    },
    Mutation {
        name: "tokens are whole seconds",
        from: "local function token_at(us) return us + us % 2 end",
        to: "local function token_at(us) return us - us % 1000000 end",
    },
    Mutation {
        name: "a retry is forgotten",
        from: "if #to_retry > 0 then redis.call('ZADD', RETRY",
        to: "if #to_retry > 2 then redis.call('ZADD', RETRY",
    },
    Mutation {
        name: "follow-ups are forgotten",
        from: "if #to_outbox > 0 then",
        to: "if false then",
    },
    Mutation {
        name: "every runner pushes a tick",
        from: "if current ~= expected then",
        to: "if false then",
    },
    Mutation {
        name: "a lease does not leave ready",
        from: "redis.call('ZREMRANGEBYRANK', READY, 0, #ids - 1)",
        to: "redis.call('ZREMRANGEBYRANK', READY, 1, #ids - 1)",
    },
    Mutation {
        name: "expired leases are not reclaimed",
        from: "if #ids == 0 then return { next_expiry() } end",
        to: "if #ids < 9 then return { next_expiry() } end",
    },
    Mutation {
        name: "a job that has not started is counted as crashed",
        from: "if is_ahead(token) then return",
        to: "if false then return",
    },
    Mutation {
        name: "a paused topic is leased",
        from: "if limits.paused then return lease_nothing",
        to: "if false then return lease_nothing",
    },
    Mutation {
        name: "a late call leases",
        from: "if now_ms > last_ms then return lease_nothing",
        to: "if false then return lease_nothing",
    },
    Mutation {
        name: "a cancelled job keeps its payload",
        from: "+ redis.call('ZREM', RETRY, id) + redis.call('HDEL', JOBS, id)",
        to: "+ redis.call('ZREM', RETRY, id)",
    },
];

#[test]
fn broken_scripts_are_found() {
    for mutation in BROKEN {
        let name = mutation.name;
        let options = Options { mutation: Some(mutation), ..Options::default() };
        // A job that is counted too early is seen in one life of 500, so 1,000 may miss it. The first one found ends the search.
        let found = campaign(10_000).run(&options);
        let first = found.failed.first();
        println!(
            "{name}: found after {} lives: {:?}",
            found.lives,
            first.and_then(|life| life.violations.first())
        );
        assert!(first.is_some(), "{name} was not found");
    }
}
