//! Reads when an X.509 certificate expires. The TLS library checks that and does not tell.

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate in DER expires, as RFC 3339; `None` if it has another form.
pub(crate) fn not_after(certificate: &[u8]) -> Option<String> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // The serial number, the signature's algorithm and the issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (tag, validity, _) = element(rest)?;
    if tag != SEQUENCE {
        return None;
    }
    let (tag, text, _) = element(element(validity)?.2)?;
    let text = std::str::from_utf8(text).ok()?;
    let digits =
        text.strip_suffix('Z').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    let full = match (tag, digits.len()) {
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        // Years of two digits are those from 1950 to 2049.
        (UTC_TIME, 12) if digits < "50" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        _ => return None,
    };
    let part = |from: usize| &full[from..from + 2];
    let (year, month, day) = (&full[..4], part(4), part(6));
    Some(format!("{year}-{month}-{day}T{}:{}:{}Z", part(8), part(10), part(12)))
}

/// The tag of the first element, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn the_end_of_a_certificate() {
        for (year, text) in [(2031, "2031-02-03T00:00:00Z"), (2051, "2051-02-03T00:00:00Z")] {
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 2, 3);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert_eq!(not_after(certificate.der()).as_deref(), Some(text));
            // A truncated certificate must not panic.
            for length in 0..certificate.der().len() {
                not_after(&certificate.der()[..length]);
            }
        }
    }
}
