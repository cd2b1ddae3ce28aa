//! Digests and HMACs for `crypto.subtle`. `crypto.js` names the algorithms by the length of their digest in bits; SHA-1
//! is 160.

use hmac::{Hmac, KeyInit, Mac};
use rquickjs::function::Func;
use rquickjs::{Ctx, Object, Result, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::host::{bytes, input};

pub(crate) fn add(host: &Object<'_>) -> Result<()> {
    host.set("digest", Func::from(digest))?;
    host.set("hmac", Func::from(hmac))
}

fn digest<'js>(ctx: Ctx<'js>, bits: u32, data: Value<'js>) -> Result<Value<'js>> {
    let data = input(&data);
    let digest = match bits {
        160 => Sha1::digest(data).to_vec(),
        256 => Sha256::digest(data).to_vec(),
        384 => Sha384::digest(data).to_vec(),
        _ => Sha512::digest(data).to_vec(),
    };
    bytes(&ctx, digest)
}

fn hmac<'js>(ctx: Ctx<'js>, bits: u32, key: Value<'js>, data: Value<'js>) -> Result<Value<'js>> {
    let (key, data) = (input(&key), input(&data));
    let mac = match bits {
        160 => code::<Hmac<Sha1>>(&key, &data),
        256 => code::<Hmac<Sha256>>(&key, &data),
        384 => code::<Hmac<Sha384>>(&key, &data),
        _ => code::<Hmac<Sha512>>(&key, &data),
    };
    bytes(&ctx, mac)
}

/// A key may have any length.
fn code<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}
