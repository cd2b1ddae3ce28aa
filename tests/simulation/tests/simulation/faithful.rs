//! The simulated Redis replies as a real one.

use duebox_harness::RedisServer;
use duebox_simulation::redis::server::Server;
use redis::{Cmd, Pipeline, Value};

const KEYS: [&str; 3] = ["one", "two", "three"];
const NAMES: [&str; 5] = ["a", "b", "c", "d e", "k\0x"];
const NUMBERS: [&str; 8] = ["0", "1", "-3", "2.5", "1763740800000", "1763740800000001", "inf", "x"];
const BOUNDS: [&str; 7] = ["-inf", "+inf", "0", "(0", "2.5", "(1763740800000", "-3"];

/// Each is a command's name and what its arguments are: k key, n name, v value, s score, b bound of scores,
/// r rank, l LIMIT, w WITHSCORES or nothing, p bounds of names.
const COMMANDS: [(&str, &str); 42] = [
    ("HSET", "knv"),
    ("HSET", "knvnv"),
    ("HSETNX", "knv"),
    ("HGET", "kn"),
    ("HMGET", "knn"),
    ("HDEL", "knn"),
    ("HEXISTS", "kn"),
    ("HSTRLEN", "kn"),
    ("HLEN", "k"),
    ("HGETALL", "k"),
    ("HKEYS", "k"),
    ("HINCRBY", "knr"),
    ("ZADD", "ksn"),
    ("ZADD", "ksnsn"),
    ("ZADD NX", "ksn"),
    ("ZADD XX", "ksn"),
    ("ZREM", "knn"),
    ("ZSCORE", "kn"),
    ("ZMSCORE", "knn"),
    ("ZCARD", "k"),
    ("ZCOUNT", "kbb"),
    ("ZRANGE", "krrw"),
    ("ZREVRANGE", "krrw"),
    ("ZRANGEBYSCORE", "kbbwl"),
    ("ZREVRANGEBYSCORE", "kbbwl"),
    ("ZADD", "K0n"),
    ("ZRANGEBYLEX", "Kpl"),
    ("ZREMRANGEBYRANK", "krr"),
    ("ZREMRANGEBYSCORE", "kbb"),
    ("EXISTS", "kk"),
    ("DEL", "k"),
    ("DEL", "k"),
    ("TYPE", "k"),
    ("RENAMENX", "kk"),
    ("GET", "k"),
    ("SET", "kv"),
    ("SADD", "knn"),
    ("SREM", "kn"),
    ("SISMEMBER", "kn"),
    ("SMEMBERS", "k"),
    ("EXPIRE", "k9"),
    ("PEXPIRE", "kt"),
];

fn any(dice: &mut fastrand::Rng) -> Cmd {
    let (name, shape) = COMMANDS[dice.usize(0..COMMANDS.len())];
    let mut words = name.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    let mut option = words.next();
    for kind in shape.chars() {
        match kind {
            'k' => {
                command.arg(KEYS[dice.usize(0..KEYS.len())]);
                if let Some(option) = option.take() {
                    command.arg(option);
                }
            }
            'n' | 'v' => drop(command.arg(NAMES[dice.usize(0..NAMES.len())])),
            's' => drop(command.arg(NUMBERS[dice.usize(0..NUMBERS.len())])),
            'b' => drop(command.arg(BOUNDS[dice.usize(0..BOUNDS.len())])),
            'r' => drop(command.arg(dice.i64(-3..4))),
            'l' if dice.bool() => drop(command.arg("LIMIT").arg(dice.u8(0..2)).arg(dice.i8(-1..3))),
            'w' if dice.bool() => drop(command.arg("WITHSCORES")),
            'p' => drop(command.arg("[b").arg(if dice.bool() { "(d" } else { "+" })),
            // Orders by name need one score for all members.
            'K' => drop(command.arg("lex")),
            '0' => drop(command.arg(0)),
            '9' => drop(command.arg(99)),
            // Longer than the test.
            't' => drop(command.arg(3_600_000)),
            _ => {}
        }
    }
    command
}

fn pipeline(command: &Cmd) -> Pipeline {
    let mut pipeline = Pipeline::new();
    pipeline.add_command(command.clone());
    pipeline
}

/// A reply as text; the order of a hash or set does not count, and of an error only its code.
fn shown(command: &str, reply: Result<Value, redis::RedisError>) -> String {
    let reply = match reply {
        Ok(Value::ServerError(error)) => return format!("error {}", error.code()),
        Ok(reply) => reply,
        Err(error) => return format!("error {}", error.code().unwrap_or_default()),
    };
    match reply {
        Value::Array(mut values) if command.contains("SMEMBERS") || command.contains("HKEYS") => {
            values.sort_by_key(|value| format!("{value:?}"));
            format!("{values:?}")
        }
        Value::Array(values) if command.contains("HGETALL") => {
            let mut pairs: Vec<_> = values.chunks(2).map(|pair| format!("{pair:?}")).collect();
            pairs.sort();
            format!("{pairs:?}")
        }
        Value::Okay => "SimpleString(\"OK\")".to_owned(),
        value => format!("{value:?}"),
    }
}

fn packed(command: &Cmd) -> String {
    String::from_utf8_lossy(&command.get_packed_command()).into_owned()
}

#[test]
fn commands_reply_as_those_of_redis() {
    let real = RedisServer::start();
    let mut connection = redis::Client::open(real.url()).unwrap().get_connection().unwrap();
    for seed in 0..200 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut simulated = Server::new(None, false);
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        for _ in 0..100 {
            let command = any(&mut dice);
            let text = packed(&command);
            let replies = simulated.execute(&pipeline(&command));
            let simulated = shown(&text, Ok(replies.into_iter().next().unwrap()));
            assert_eq!(simulated, shown(&text, command.query(&mut connection)), "{text}");
        }
    }
}

const SCRIPTS: [&str; 9] = [
    "return { 1, 3.99, 'a', false, 'not seen' }",
    "return { { 1, { 'x' } }, tostring(1 / 3), 1e15 .. '' }",
    "redis.call('ZADD', KEYS[1], 1763740800000001, 'a') return redis.call('ZSCORE', KEYS[1], 'a')",
    "redis.call('HSET', KEYS[1], 'm', 2 ^ 53, 'n', -1.5) return redis.call('HGETALL', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return { redis.call('HGET', KEYS[1], 'none'), 'after' }",
    "return redis.error_reply('DUEBOX no')",
    "redis.call('SET', KEYS[1], 'x') return redis.call('HGET', KEYS[1], 'x')",
    "return { ARGV[1], #ARGV, pcall(cjson.decode, 'x'), cjson.decode('{\"a\":[1,\"b\"]}').a[2] }",
];

#[test]
fn scripts_reply_as_those_of_redis() {
    let real = RedisServer::start();
    let mut connection = redis::Client::open(real.url()).unwrap().get_connection().unwrap();
    for script in SCRIPTS {
        let mut simulated = Server::new(None, false);
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script);
        let digest: String = load.query(&mut connection).unwrap();
        simulated.execute(&pipeline(&load));
        let mut call = redis::cmd("EVALSHA");
        call.arg(digest).arg(1).arg("key").arg("first");
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        let replies = simulated.execute(&pipeline(&call));
        let simulated = shown("", Ok(replies.into_iter().next().unwrap()));
        assert_eq!(simulated, shown("", call.query(&mut connection)), "{script}");
    }
}
