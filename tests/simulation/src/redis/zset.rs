//! Sorted sets, and the commands on them. A set of a life is small, so a sorted vector is the quickest.

use redis::Value;

use super::command::{Arguments, bulk, integer_of, list, whole};
use super::database::{Bytes, Database};

/// Members by score, then by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Zset(Vec<(f64, Bytes)>);

impl Zset {
    /// True without members.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Members with their scores, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &(f64, Bytes)> {
        self.0.iter()
    }

    fn rank(&self, member: &[u8]) -> Option<usize> {
        self.0.iter().position(|(_, found)| found == member)
    }

    /// The score of a member.
    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.rank(member).map(|rank| self.0[rank].0)
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let rank = self.rank(member);
        rank.map(|rank| self.0.remove(rank)).is_some()
    }

    fn insert(&mut self, score: f64, member: &[u8]) {
        let at = self.0.partition_point(|(found, name)| {
            *found < score || (*found == score && name.as_slice() < member)
        });
        self.0.insert(at, (score, member.to_vec()));
    }

    /// The ranks from `first` to `last`, where -1 is the last one.
    fn ranks(&self, first: i64, last: i64) -> std::ops::Range<usize> {
        let len = self.0.len() as i64;
        let rank = |at: i64| if at < 0 { at + len } else { at };
        let (first, last) = (rank(first).max(0), rank(last).min(len - 1));
        if first > last { 0..0 } else { first as usize..last as usize + 1 }
    }
}

/// A bound of a range of scores.
struct Bound {
    score: f64,
    is_open: bool,
}

impl Bound {
    fn read(text: &[u8]) -> Result<Self, String> {
        let (is_open, text) = match text.strip_prefix(b"(") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Ok(Self { score: score_of(text)?, is_open })
    }

    fn is_below(&self, score: f64) -> bool {
        if self.is_open { self.score < score } else { self.score <= score }
    }

    fn is_above(&self, score: f64) -> bool {
        if self.is_open { self.score > score } else { self.score >= score }
    }
}

fn score_of(text: &[u8]) -> Result<f64, String> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let score = match text {
        "+inf" | "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|score: &f64| !score.is_nan()),
    };
    score.ok_or_else(|| "ERR value is not a valid float".to_owned())
}

/// The members with scores between two bounds; none if a bound is invalid.
pub(super) fn within<'z>(
    zset: &'z Zset,
    least: &[u8],
    most: &[u8],
) -> impl Iterator<Item = &'z Bytes> {
    let bounds = Bound::read(least).ok().zip(Bound::read(most).ok());
    let is_within = move |score: f64| {
        bounds.as_ref().is_some_and(|(least, most)| least.is_below(score) && most.is_above(score))
    };
    zset.iter().filter(move |(score, _)| is_within(*score)).map(|(_, member)| member)
}

/// A score as Redis writes it.
pub(crate) fn score_text(score: f64) -> Bytes {
    if score.is_infinite() {
        return if score > 0.0 { b"inf".to_vec() } else { b"-inf".to_vec() };
    }
    super::interpreter::number_text(score)
}

/// What follows the bounds of a range: WITHSCORES, and LIMIT with offset and count.
struct Tail {
    with_scores: bool,
    offset: usize,
    count: usize,
}

fn read_tail(args: &Arguments<'_>, from: usize) -> Result<Tail, String> {
    let mut tail = Tail { with_scores: false, offset: 0, count: usize::MAX };
    let mut at = from;
    while at < args.len() {
        if args.is(at, "WITHSCORES") {
            tail.with_scores = true;
            at += 1;
        } else if args.is(at, "LIMIT") {
            tail.offset = integer_of(args.get(at + 1)?)?.max(0) as usize;
            tail.count = usize::try_from(integer_of(args.get(at + 2)?)?).unwrap_or(usize::MAX);
            at += 3;
        } else {
            return Err("ERR syntax error".to_owned());
        }
    }
    Ok(tail)
}

fn members<'z>(found: impl Iterator<Item = &'z (f64, Bytes)>, tail: &Tail) -> Value {
    let mut values = Vec::new();
    for (score, member) in found.skip(tail.offset).take(tail.count) {
        values.push(bulk(member));
        if tail.with_scores {
            values.push(Value::BulkString(score_text(*score)));
        }
    }
    list(values)
}

/// Carries out a command on sorted sets; `None` if it is not one.
pub(crate) fn execute(
    db: &mut Database,
    name: &str,
    args: &Arguments<'_>,
) -> Option<Result<Value, String>> {
    Some(match name {
        "ZADD" => add(db, args),
        "ZREM" => remove(db, args),
        "ZSCORE" => score(db, args),
        "ZMSCORE" => scores(db, args),
        "ZCARD" => args.get(1).and_then(|key| Ok(whole(db.zset(key)?.map_or(0, Zset::len)))),
        "ZCOUNT" => count(db, args),
        "ZRANGE" => range(db, args, false),
        "ZREVRANGE" => range(db, args, true),
        "ZRANGEBYSCORE" => range_by_score(db, args, false),
        "ZREVRANGEBYSCORE" => range_by_score(db, args, true),
        "ZRANGEBYLEX" => range_by_lex(db, args),
        "ZREMRANGEBYRANK" => remove_by_rank(db, args),
        "ZREMRANGEBYSCORE" => remove_by_score(db, args),
        "ZSCAN" => scan(db, args),
        _ => return None,
    })
}

fn add(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let (is_new_only, is_known_only) = (args.is(2, "NX"), args.is(2, "XX"));
    let first = if is_new_only || is_known_only { 3 } else { 2 };
    if args.len() <= first || !(args.len() - first).is_multiple_of(2) {
        return Err("ERR syntax error".to_owned());
    }
    let mut pairs = Vec::new();
    for at in (first..args.len()).step_by(2) {
        pairs.push((score_of(args.get(at)?)?, args.get(at + 1)?));
    }
    if is_known_only && db.zset(args.get(1)?)?.is_none() {
        return Ok(whole(0));
    }
    let zset = db.zset_mut(args.get(1)?)?;
    let mut added = 0;
    for (score, member) in pairs {
        let known = zset.score(member);
        if (is_new_only && known.is_some()) || (is_known_only && known.is_none()) {
            continue;
        }
        if known == Some(score) {
            continue;
        }
        if known.is_some() {
            zset.remove(member);
        } else {
            added += 1;
        }
        zset.insert(score, member);
    }
    Ok(whole(added))
}

fn remove(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let removed = db.sweep_zset(args.get(1)?, |zset| {
        args.from(2).filter(|member| zset.remove(member)).count()
    })?;
    Ok(whole(removed))
}

fn score(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let found = db.zset(args.get(1)?)?;
    let member = args.get(2)?;
    Ok(optional_score(found.and_then(|zset| zset.score(member))))
}

fn optional_score(score: Option<f64>) -> Value {
    score.map_or(Value::Nil, |score| Value::BulkString(score_text(score)))
}

fn scores(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let found = db.zset(args.get(1)?)?;
    let score = |member: &[u8]| optional_score(found.and_then(|zset| zset.score(member)));
    Ok(list(args.from(2).map(score).collect()))
}

fn count(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let (least, most) = (Bound::read(args.get(2)?)?, Bound::read(args.get(3)?)?);
    let Some(zset) = db.zset(args.get(1)?)? else { return Ok(whole(0)) };
    let is_within = |(score, _): &&(f64, Bytes)| least.is_below(*score) && most.is_above(*score);
    Ok(whole(zset.iter().filter(is_within).count()))
}

fn range(db: &Database, args: &Arguments<'_>, is_reversed: bool) -> Result<Value, String> {
    let (first, last) = (integer_of(args.get(2)?)?, integer_of(args.get(3)?)?);
    let tail = read_tail(args, 4)?;
    let Some(zset) = db.zset(args.get(1)?)? else { return Ok(list(Vec::new())) };
    if is_reversed {
        let reversed = Zset(zset.0.iter().rev().cloned().collect());
        return Ok(members(reversed.0[reversed.ranks(first, last)].iter(), &tail));
    }
    Ok(members(zset.0[zset.ranks(first, last)].iter(), &tail))
}

fn range_by_score(db: &Database, args: &Arguments<'_>, is_reversed: bool) -> Result<Value, String> {
    let (first, last) = (Bound::read(args.get(2)?)?, Bound::read(args.get(3)?)?);
    let (least, most) = if is_reversed { (last, first) } else { (first, last) };
    let tail = read_tail(args, 4)?;
    let Some(zset) = db.zset(args.get(1)?)? else { return Ok(list(Vec::new())) };
    let is_within = |(score, _): &&(f64, Bytes)| least.is_below(*score) && most.is_above(*score);
    if is_reversed {
        return Ok(members(zset.iter().rev().filter(is_within), &tail));
    }
    Ok(members(zset.iter().filter(is_within), &tail))
}

fn range_by_lex(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let tail = read_tail(args, 4)?;
    let (least, most) = (args.get(2)?, args.get(3)?);
    let Some(zset) = db.zset(args.get(1)?)? else { return Ok(list(Vec::new())) };
    let is_after = |member: &[u8]| match least.split_first() {
        Some((b'[', bound)) => member >= bound,
        Some((b'(', bound)) => member > bound,
        _ => least == b"-",
    };
    let is_before = |member: &[u8]| match most.split_first() {
        Some((b'[', bound)) => member <= bound,
        Some((b'(', bound)) => member < bound,
        _ => most == b"+",
    };
    let is_within = |(_, member): &&(f64, Bytes)| is_after(member) && is_before(member);
    Ok(members(zset.iter().filter(is_within), &tail))
}

fn remove_by_rank(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let (first, last) = (integer_of(args.get(2)?)?, integer_of(args.get(3)?)?);
    let removed = db.sweep_zset(args.get(1)?, |zset| {
        let ranks = zset.ranks(first, last);
        zset.0.drain(ranks).count()
    })?;
    Ok(whole(removed))
}

fn remove_by_score(db: &mut Database, args: &Arguments<'_>) -> Result<Value, String> {
    let (least, most) = (Bound::read(args.get(2)?)?, Bound::read(args.get(3)?)?);
    let removed = db.sweep_zset(args.get(1)?, |zset| {
        let before = zset.0.len();
        zset.0.retain(|(score, _)| !(least.is_below(*score) && most.is_above(*score)));
        before - zset.0.len()
    })?;
    Ok(whole(removed))
}

/// A scan returns everything at once, as Redis may.
fn scan(db: &Database, args: &Arguments<'_>) -> Result<Value, String> {
    let tail = Tail { with_scores: true, offset: 0, count: usize::MAX };
    let found = db.zset(args.get(1)?)?;
    let page = found.map_or(list(Vec::new()), |zset| members(zset.iter(), &tail));
    Ok(list(vec![bulk(b"0"), page]))
}
