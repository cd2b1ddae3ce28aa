//! The functions that `duebox.js` calls.

use std::cell::RefCell;

use duebox_engine_abi as abi;
use rquickjs::convert::List;
use rquickjs::function::Func;
use rquickjs::{CaughtError, Ctx, Exception, IntoJs, Object, Result, TypedArray, Value};
use url::Url;

use crate::digests;

/// A line of a stack in `duebox.js`.
const SDK_FRAME: &str = "(duebox:";

thread_local! {
    static RANDOM: RefCell<[u64; 2]> = const { RefCell::new([0, 0]) };
}

/// Seeds the random numbers of a job. The state of the program is the same for all jobs, their numbers must not
/// be.
pub(crate) fn seed() {
    RANDOM.set([0, 0]);
}

/// A random number from 0 to 1, without 1 (xoroshiro128+). The host draws the seed when a job needs it.
fn draw() -> f64 {
    let bits = RANDOM.with_borrow_mut(|state| {
        while *state == [0, 0] {
            let mut seed = [0; 16];
            abi::random(&mut seed);
            let (low, high) = seed.split_at(8);
            let half = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            *state = [half(low), half(high)];
        }
        let [a, mut b] = *state;
        let sum = a.wrapping_add(b);
        b ^= a;
        *state = [a.rotate_left(24) ^ b ^ (b << 16), b.rotate_left(37)];
        sum
    });
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Bytes as a Uint8Array.
pub(crate) fn bytes<'js>(ctx: &Ctx<'js>, bytes: Vec<u8>) -> Result<Value<'js>> {
    TypedArray::<u8>::new(ctx.clone(), bytes).map(TypedArray::into_value)
}

/// What JavaScript passes as bytes: a Uint8Array or a string.
pub(crate) fn input(value: &Value<'_>) -> Vec<u8> {
    if let Some(text) = value.as_string() {
        return text.to_string().unwrap_or_default().into_bytes();
    }
    let array = value.as_object().and_then(|object| object.as_typed_array::<u8>());
    // SAFETY: the bytes are copied before any JavaScript runs.
    array.and_then(|array| unsafe { array.as_bytes() }).unwrap_or_default().to_vec()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The text of an error at the top level of the program, with its stack in the author's own files.
pub(crate) fn describe(error: &CaughtError<'_>) -> String {
    let CaughtError::Exception(exception) = error else { return error.to_string() };
    let name: String = exception.as_object().get("name").unwrap_or_else(|_| "Error".to_owned());
    let message = exception.message().unwrap_or_default();
    let stack = exception.stack().unwrap_or_default();
    let own = stack.lines().filter(|line| !line.contains(SDK_FRAME) && !line.contains("(native)"));
    let own: Vec<&str> = own.collect();
    format!("{name}: {message}\n{}", own.join("\n")).trim_end().to_owned()
}

/// Whether QuickJS had no memory left.
pub(crate) fn is_out_of_memory(exception: &Exception<'_>) -> bool {
    let name: String = exception.as_object().get("name").unwrap_or_default();
    name == "InternalError" && exception.message().is_some_and(|message| message == "out of memory")
}

/// All functions, as properties of one object.
pub(crate) fn functions<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    add_job(&host)?;
    add_services(&host)?;
    digests::add(&host)?;
    host.set("encode", Func::from(encode))?;
    host.set("decode", Func::from(decode))?;
    host.set("url", Func::from(parse_url))?;
    host.set("setUrl", Func::from(set_url))?;
    Ok(host)
}

fn add_job(host: &Object<'_>) -> Result<()> {
    host.set("meta", Func::from(|key: u32| abi::meta(key).map(text)))?;
    host.set("number", Func::from(|key: u32| abi::number(key) as f64))?;
    host.set("config", Func::from(|name: String| abi::config(&name).map(text)))?;
    host.set("draw", Func::from(draw))?;
    host.set("random", Func::from(random))?;
    host.set("retryAfter", Func::from(|ms: f64| abi::retry_after(ms as i64)))?;
    host.set("snooze", Func::from(|ms: f64| abi::snooze(ms as i64)))?;
    host.set("reason", Func::from(|text: String| abi::reason(&text)))?;
    host.set("result", Func::from(|value: Value<'_>| abi::result(&input(&value))))?;
    host.set("isMemoryFull", Func::from(is_memory_full))?;
    host.set("log", Func::from(|level: u32, text: String| abi::log(level, &text)))
}

/// Whether the memory cannot grow by one page. If it can, it does.
fn is_memory_full() -> bool {
    core::arch::wasm32::memory_grow::<0>(1) == usize::MAX
}

fn add_services(host: &Object<'_>) -> Result<()> {
    host.set(
        "push",
        Func::from(|head: String, body: Value<'_>| abi::push(head.as_bytes(), &input(&body))),
    )?;
    host.set("send", Func::from(send))?;
    host.set("response", Func::from(response))?;
    host.set("kvGet", Func::from(kv_get))?;
    host.set("kvSet", Func::from(kv_set))?;
    host.set("kvDelete", Func::from(|key: String| abi::kv_delete(key.as_bytes())))?;
    host.set("kvAdd", Func::from(kv_add))
}

fn random(ctx: Ctx<'_>, length: u32) -> Result<Value<'_>> {
    let mut into = vec![0; length as usize];
    abi::random(&mut into);
    bytes(&ctx, into)
}

fn send(head: String, body: Value<'_>, timeout_ms: f64) -> i32 {
    abi::http_send(head.as_bytes(), &input(&body), timeout_ms as u32)
}

/// A part of the last response: the body as bytes, the others as text.
fn response(ctx: Ctx<'_>, part: u32) -> Result<Value<'_>> {
    let found = abi::http_read(part);
    if part == 1 { bytes(&ctx, found) } else { text(found).into_js(&ctx) }
}

/// The value of a key, or the code of an error.
fn kv_get(ctx: Ctx<'_>, key: String) -> Result<Value<'_>> {
    match abi::kv_get(key.as_bytes()) {
        Ok(found) => bytes(&ctx, found),
        Err(code) => code.into_js(&ctx),
    }
}

fn kv_set(key: String, value: Value<'_>, ttl_ms: f64, mode: u32) -> i32 {
    abi::kv_set(key.as_bytes(), &input(&value), ttl_ms as i64, mode)
}

/// The code of an error, and the sum as text: a number of JavaScript has 53 bits.
fn kv_add(key: String, delta: String) -> List<(i32, String)> {
    let Ok(delta) = delta.parse() else { return List((abi::INVALID, String::new())) };
    List(match abi::kv_add(key.as_bytes(), delta) {
        Ok(sum) => (0, sum.to_string()),
        Err(code) => (code, String::new()),
    })
}

fn encode<'js>(ctx: Ctx<'js>, text: String) -> Result<Value<'js>> {
    bytes(&ctx, text.into_bytes())
}

/// Bytes as text; undefined if `strict` and they are not UTF-8.
fn decode(value: Value<'_>, strict: bool) -> Option<String> {
    match String::from_utf8(input(&value)) {
        Ok(text) => Some(text),
        Err(_) if strict => None,
        Err(error) => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// The parts of a URL, in the order in which `duebox.js` lists them; undefined if it is invalid.
fn parse_url(href: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    Url::options().base_url(base.as_ref()).parse(&href).ok().map(|url| parts(&url))
}

/// The parts of a URL after one of them was set. An invalid value changes nothing.
fn set_url(href: String, part: String, value: String) -> Option<Vec<String>> {
    let mut url = Url::parse(&href).ok()?;
    let changed = match part.as_str() {
        "protocol" => url::quirks::set_protocol(&mut url, &value),
        "username" => url::quirks::set_username(&mut url, &value),
        "password" => url::quirks::set_password(&mut url, &value),
        "host" => url::quirks::set_host(&mut url, &value),
        "hostname" => url::quirks::set_hostname(&mut url, &value),
        "port" => url::quirks::set_port(&mut url, &value),
        "pathname" => {
            url::quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            url::quirks::set_search(&mut url, &value);
            Ok(())
        }
        _ => {
            url::quirks::set_hash(&mut url, &value);
            Ok(())
        }
    };
    // An invalid value leaves the URL as it is, as in browsers.
    let _ = changed;
    Some(parts(&url))
}

fn parts(url: &Url) -> Vec<String> {
    use url::quirks::{
        hash, host, hostname, href, origin, password, pathname, port, protocol, search, username,
    };
    let borrowed =
        [protocol(url), username(url), password(url), host(url), hostname(url), port(url)];
    let rest = [pathname(url), search(url), hash(url)];
    let mut all = vec![href(url).to_owned(), origin(url)];
    all.extend(borrowed.into_iter().chain(rest).map(str::to_owned));
    all
}
