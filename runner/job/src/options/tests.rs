//! What options are read and written as.

use super::*;

#[test]
fn options_survive_the_queue() {
    let options = Options::default().with_ttr(Duration::from_secs(5)).with_max_attempts(3);
    assert_eq!(options.to_json(), r#"{"ttr_ms":5000,"max_attempts":3}"#);
    assert_eq!(Options::from_json(options.to_json().as_bytes()), Ok(options));
    assert_eq!(Options::default().to_json(), "");
    assert_eq!(Options::from_json(b""), Ok(Options::default()));
}

#[test]
fn every_option_survives_the_queue() {
    let second = Duration::from_secs(1);
    for backoff in [Backoff::default(), Backoff::Schedule(vec![second, second * 60])] {
        let options = Options::default()
            .with_backoff(&backoff)
            .with_max_snoozes(7)
            .with_max_crashes(2)
            .with_ttl(second)
            .with_priority(Priority::High)
            .with_key("user 42")
            .and_then(|options| options.with_header("traceparent", "00-ab"))
            .unwrap();
        let read = Options::from_json(options.to_json().as_bytes()).unwrap();
        assert_eq!(read, options);
        assert_eq!(read.backoff(), Some(backoff));
        assert_eq!((read.priority(), read.key()), (Priority::High, Some("user 42")));
        assert_eq!(read.headers()["traceparent"], "00-ab");
    }
}

/// Found by fuzzing: the number was written with 17 digits and read as its neighbour.
#[test]
fn a_number_of_many_digits_survives_the_queue() {
    let json = br#"{"backoff":{"base_ms":1000,"factor":2.5555555555000000000000000756680446,"max_ms":60000}}"#;
    let options = Options::from_json(json).unwrap();
    assert_eq!(Options::from_json(options.to_json().as_bytes()), Ok(options));
}

#[test]
fn what_is_no_options_says_why() {
    for (json, why) in [
        ("{", "EOF"),
        ("[]", "JSON object"),
        ("[5000, 3]", "JSON object"),
        (r#"{"speed":1}"#, "unknown field `speed`"),
        (r#"{"ttr_ms":0}"#, "ttr_ms is 0"),
        (r#"{"max_attempts":1000000}"#, "max_attempts is 1000000"),
        (r#"{"max_crashes":0}"#, "max_crashes is 0"),
        (r#"{"priority":"urgent"}"#, "unknown variant `urgent`"),
        (r#"{"key":""}"#, "not a valid key"),
        (r#"{"key":"a\nb"}"#, "not a valid key"),
        (r#"{"headers":{"A":"b"}}"#, "not a header name"),
        (r#"{"headers":{"a":"b\r\nc: d"}}"#, "control character"),
        (r#"{"backoff":[]}"#, "empty"),
        (r#"{"backoff":{"base_ms":5,"max_ms":1}}"#, "shorter"),
        (r#"{"backoff":{"base_ms":5,"max_ms":9,"speed":1}}"#, "did not match"),
    ] {
        let error = Options::from_json(json.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(why), "{json}: {error}");
    }
}

#[test]
fn headers_are_bounded_together() {
    let value = "x".repeat(8_000);
    let options = Options::default().with_header("a", &value).unwrap();
    let options = options.with_header("b", &value).unwrap();
    assert_eq!(options.with_header("c", &value), Err(OptionError::HeadersTooLarge(24_012)));
}
