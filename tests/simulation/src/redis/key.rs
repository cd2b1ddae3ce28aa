//! The commands on keys, strings and sets.

use redis::Value;

use super::command::{Arguments, bulk, list, whole};
use super::database::{Database, Stored, WRONG_TYPE};

/// Carries out a command on keys, strings or sets; `None` if it is not one.
pub(crate) fn execute(
    db: &mut Database,
    name: &str,
    args: &Arguments<'_>,
) -> Option<Result<Value, String>> {
    Some(match name {
        "EXISTS" => Ok(whole(args.from(1).filter(|key| db.get(key).is_some()).count())),
        "DEL" => Ok(whole(args.from(1).filter(|key| db.remove(key).is_some()).count())),
        "TYPE" => args.get(1).map(|key| Value::SimpleString(type_of(db.get(key)).to_owned())),
        "RENAMENX" => rename(db, args),
        "EXPIRE" | "PEXPIRE" => args.get(1).map(|key| whole(usize::from(db.get(key).is_some()))),
        // A page of the doctor is sized by it; any size will do.
        "MEMORY" => args.get(2).map(|key| db.get(key).map_or(Value::Nil, |_| whole(1_000))),
        "SCAN" => Ok(list(vec![
            bulk(b"0"),
            list(db.names().into_iter().map(|name| bulk(name)).collect()),
        ])),
        "GET" => get(db, args),
        "SET" => set(db, args),
        "SADD" => set_add(db, args),
        "SREM" => set_remove(db, args),
        "SISMEMBER" => set_has(db, args),
        "SMEMBERS" => args.get(1).and_then(|key| {
            let members = db.set(key)?.into_iter().flatten();
            Ok(list(members.map(|member| bulk(member)).collect()))
        }),
        _ => return None,
    })
}

fn type_of(stored: Option<&Stored>) -> &'static str {
    match stored {
        None => "none",
        Some(Stored::Text(_)) => "string",
        Some(Stored::Hash(_)) => "hash",
        Some(Stored::Set(_)) => "set",
        Some(Stored::Zset(_)) => "zset",
    }
}

fn rename(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let (from, to) = (args.get(1)?, args.get(2)?);
    let value = db.get(from).cloned().ok_or_else(|| "ERR no such key".to_owned())?;
    if db.get(to).is_some() {
        return Ok(whole(0));
    }
    db.remove(from);
    db.put(to, value);
    Ok(whole(1))
}

fn get(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    match db.get(args.get(1)?) {
        None => Ok(Value::Nil),
        Some(Stored::Text(text)) => Ok(bulk(text)),
        Some(_) => Err(WRONG_TYPE.to_owned()),
    }
}

/// `SET` with the options `NX` and `GET`. A time to live is ignored.
fn set(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let has = |option: &str| args.from(3).any(|word| word.eq_ignore_ascii_case(option.as_bytes()));
    let (previous, exists) = (get(db, args), db.get(args.get(1)?).is_some());
    let reply = match has("GET") {
        true => previous?,
        false if has("NX") && exists => Value::Nil,
        false => Value::Okay,
    };
    if !(has("NX") && exists) {
        db.put(args.get(1)?, Stored::Text(args.get(2)?.to_vec()));
    }
    Ok(reply)
}

fn set_add(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let set = db.set_mut(args.get(1)?)?;
    Ok(whole(args.from(2).filter(|member| set.insert(member.to_vec())).count()))
}

fn set_remove(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let removed = db
        .sweep_set(args.get(1)?, |set| args.from(2).filter(|member| set.remove(*member)).count())?;
    Ok(whole(removed))
}

fn set_has(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let set = db.set(args.get(1)?)?;
    let member = args.get(2)?;
    Ok(whole(usize::from(set.is_some_and(|set| set.contains(member)))))
}
