//! The commands on hashes.

use std::collections::BTreeMap;

use redis::Value;

use super::command::{Arguments, bulk, integer_of, list, whole};
use super::database::{Bytes, Database};

/// Carries out a command on hashes; `None` if it is not one.
pub(crate) fn execute(
    db: &mut Database,
    name: &str,
    args: &Arguments<'_>,
) -> Option<Result<Value, String>> {
    Some(match name {
        "HGET" => get(db, args),
        "HMGET" => get_many(db, args),
        "HSET" => set(db, args),
        "HSETNX" => set_new(db, args),
        "HDEL" => delete(db, args),
        "HEXISTS" => field(db, args).map(|found| whole(usize::from(found.is_some()))),
        "HSTRLEN" => field(db, args).map(|found| whole(found.map_or(0, Vec::len))),
        "HLEN" => args.get(1).and_then(|key| Ok(whole(db.hash(key)?.map_or(0, BTreeMap::len)))),
        "HGETALL" => all(db, args),
        "HKEYS" => keys(db, args, usize::MAX),
        "HRANDFIELD" => some(db, args),
        "HINCRBY" => increment(db, args),
        "HSCAN" => all(db, args).map(|page| list(vec![bulk(b"0"), page])),
        _ => return None,
    })
}

fn field<'d>(db: &'d Database, args: &Arguments<'_>) -> Result<Option<&'d Bytes>, String> {
    let hash = db.hash(args.get(1)?)?;
    let name = args.get(2)?;
    Ok(hash.and_then(|hash| hash.get(name)))
}

fn get(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    Ok(field(db, args)?.map_or(Value::Nil, |value| bulk(value)))
}

fn get_many(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let hash = db.hash(args.get(1)?)?;
    let value = |field: &[u8]| {
        hash.and_then(|hash| hash.get(field)).map_or(Value::Nil, |value| bulk(value))
    };
    Ok(list(args.from(2).map(value).collect()))
}

fn set(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    if args.len() < 4 || !args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'hset' command".to_owned());
    }
    let hash = db.hash_mut(args.get(1)?)?;
    let mut added = 0;
    for at in (2..args.len()).step_by(2) {
        let (field, value) = (args.get(at)?.to_vec(), args.get(at + 1)?.to_vec());
        added += usize::from(hash.insert(field, value).is_none());
    }
    Ok(whole(added))
}

fn set_new(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let hash = db.hash_mut(args.get(1)?)?;
    let field = args.get(2)?;
    if hash.contains_key(field) {
        return Ok(whole(0));
    }
    hash.insert(field.to_vec(), args.get(3)?.to_vec());
    Ok(whole(1))
}

fn delete(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let removed = db.sweep_hash(args.get(1)?, |hash| {
        args.from(2).filter(|field| hash.remove(*field).is_some()).count()
    })?;
    Ok(whole(removed))
}

fn all(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let hash = db.hash(args.get(1)?)?;
    let pairs = hash.into_iter().flatten();
    Ok(list(pairs.flat_map(|(field, value)| [bulk(field), bulk(value)]).collect()))
}

fn keys(db: &Database, args: &Arguments<'_>, most: usize) -> Result<Value, String> {
    let hash = db.hash(args.get(1)?)?;
    let fields = hash.into_iter().flat_map(BTreeMap::keys).take(most);
    Ok(list(fields.map(|field| bulk(field)).collect()))
}

/// Instead of random fields, which Redis chooses, the first ones.
fn some(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let most = usize::try_from(integer_of(args.get(2)?)?).unwrap_or_default();
    if !args.is(3, "WITHVALUES") {
        return keys(db, args, most);
    }
    let hash = db.hash(args.get(1)?)?;
    let pairs = hash.into_iter().flatten().take(most);
    Ok(list(pairs.flat_map(|(field, value)| [bulk(field), bulk(value)]).collect()))
}

fn increment(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let by = integer_of(args.get(3)?)?;
    let hash = db.hash_mut(args.get(1)?)?;
    let value = hash.entry(args.get(2)?.to_vec()).or_insert_with(|| b"0".to_vec());
    let sum = integer_of(value).map_err(|_| "ERR hash value is not an integer".to_owned())? + by;
    *value = sum.to_string().into_bytes();
    Ok(Value::Int(sum))
}
