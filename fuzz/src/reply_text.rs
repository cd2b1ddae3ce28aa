//! Replies of Redis as text, so that the seeds are readable and every input is a list of valid replies.
//!
//! Words are separated by white space: `[` and `]` enclose an array, `{` and `}` a map; `_` is nil,
//! `:5` an integer, `,1.5` a double, `#t` a boolean, `+OK` a simple string, `-ERR+why` an error. Any
//! other word is a string. `%` and two hex digits are one byte.

/// The most arrays and maps in each other.
const DEPTH_MAX: usize = 8;

/// The replies of a text, each in the form that Redis sends.
pub fn replies(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut replies = Vec::new();
    while let Some(reply) = reply(&mut words, DEPTH_MAX) {
        replies.push(reply);
    }
    replies
}

/// The next reply; `None` at the end of the text or of an array.
fn reply<'t>(words: &mut impl Iterator<Item = &'t [u8]>, depth: usize) -> Option<Vec<u8>> {
    let word = words.next()?;
    let rest = || escape(&word[1..]);
    Some(match word {
        b"]" | b"}" => return None,
        b"[" | b"{" if depth == 0 => b"$-1\r\n".to_vec(),
        b"[" => collection(b'*', 1, words, depth),
        b"{" => collection(b'%', 2, words, depth),
        b"_" => b"$-1\r\n".to_vec(),
        b"#t" | b"#f" => line(word),
        _ if word[0] == b':' => match number::<i64>(&word[1..]) {
            Some(number) => format!(":{number}\r\n").into_bytes(),
            None => string(&rest()),
        },
        _ if word[0] == b',' => match number::<f64>(&word[1..]) {
            Some(number) => format!(",{number}\r\n").into_bytes(),
            None => string(&rest()),
        },
        _ if word[0] == b'+' || word[0] == b'-' => {
            let text: Vec<u8> =
                rest().into_iter().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
            let text = String::from_utf8_lossy(&text).replace('+', " ");
            line(&[&word[..1], text.as_bytes()].concat())
        }
        _ => string(&escape(word)),
    })
}

fn collection<'t>(
    sign: u8,
    each: usize,
    words: &mut impl Iterator<Item = &'t [u8]>,
    depth: usize,
) -> Vec<u8> {
    let mut parts = Vec::new();
    while let Some(part) = reply(words, depth - 1) {
        parts.push(part);
    }
    parts.truncate(parts.len() / each * each);
    let head = format!("{}{}\r\n", char::from(sign), parts.len() / each);
    [head.into_bytes(), parts.concat()].concat()
}

fn line(text: &[u8]) -> Vec<u8> {
    [text, b"\r\n"].concat()
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The bytes of a word, in which `%` and two hex digits are one byte.
fn escape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut at = 0;
    while at < word.len() {
        let hex = word.get(at + 1..at + 3).filter(|_| word[at] == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(word[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    bytes
}
