//! OpenAPI schemas of types from other crates: names, ids, the options of a job, and a job in full.

use utoipa::openapi::schema::{
    AdditionalProperties, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType,
    Type,
};
use utoipa::openapi::{ArrayBuilder, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// A topic's name.
pub(crate) struct TopicText;
/// A job id that may be pushed.
pub(crate) struct IdText;
/// A duration, such as `1h30m`.
pub(crate) struct DurationText;
/// `reject`, `keep` or `replace`.
pub(crate) struct IfExistsWord;
/// Settings of a job that override those of its topic.
pub(crate) struct JobOptions;
/// A job in full.
pub(crate) struct ShownJob;

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn whole() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(0))
}

fn truth() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

/// Any JSON.
fn any() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue)
}

fn object() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object)
}

fn words(words: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(words.iter().copied()))
}

fn closed(object: ObjectBuilder) -> Object {
    object.additional_properties(Some(AdditionalProperties::FreeForm(false))).build()
}

macro_rules! schemas {
    ($($name:ident => $schema:expr;)*) => {
        $(
            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    RefOr::T(Schema::Object($schema))
                }
            }
            impl ToSchema for $name {}
        )*
    };
}

schemas! {
    TopicText => text()
        .description(Some("1 to 128 of A-Z a-z 0-9 . _ -"))
        .pattern(Some("^[A-Za-z0-9._-]{1,128}$"))
        .examples(["order.close"])
        .build();
    IdText => text()
        .description(Some("1 to 256 visible ASCII characters"))
        .pattern(Some("^[!-~]{1,256}$"))
        .examples(["42"])
        .build();
    DurationText => text()
        .description(Some("numbers with units: ms, s, m, h, d"))
        .pattern(Some("^([0-9]{1,6}(ms|s|m|h|d))+$"))
        .examples(["1h30m"])
        .build();
    IfExistsWord => words(&["reject", "keep", "replace"]).build();
    JobOptions => closed(options());
    ShownJob => shown_job().build();
}

fn options() -> ObjectBuilder {
    let backoff = any().description(Some(
        "delays between attempts in ms: a list, or { base_ms, factor, max_ms, jitter }",
    ));
    let headers = object()
        .description(Some("passed to the handler; names consist of a-z 0-9 . _ -"))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(text().build().into()))));
    let key = text()
        .description(Some(
            "limits how many jobs of one key run at a time, if the topic sets per_key_concurrency",
        ))
        .min_length(Some(1))
        .max_length(Some(256));
    object()
        .description(Some("Settings of a job that override those of its topic."))
        .property(
            "ttr_ms",
            whole().minimum(Some(1)).description(Some("wall clock limit of one attempt")),
        )
        .property("max_attempts", whole().minimum(Some(1)))
        .property("backoff", backoff)
        .property("max_snoozes", whole())
        .property("max_crashes", whole().minimum(Some(1)))
        .property(
            "ttl_ms",
            whole().description(Some("how long after its due time it may start; 0 is unlimited")),
        )
        .property("priority", words(&["high", "normal", "low"]))
        .property("key", key)
        .property("headers", headers)
}

fn shown_job() -> ObjectBuilder {
    let states = ["pending", "ready", "blocked", "unack", "retry", "dead", "done", "held"];
    let lease = object()
        .property("holder", text())
        .property("expires_at_ms", whole())
        .property("token", text())
        .property("cancelled", truth())
        .required("expires_at_ms")
        .required("token")
        .required("cancelled");
    let dead = object().property("died_at_ms", whole()).property("info", any());
    let done = object()
        .property("done_at_ms", whole())
        .property("info", any())
        .property("result", text())
        .property("result_base64", text());
    object()
        .description(Some("A job in full; times are unix ms."))
        .property("topic", text())
        .property("id", text())
        .property("state", words(&states))
        .property("due_at_ms", whole())
        .property("payload", text().description(Some("if it is text")))
        .property("payload_base64", text().description(Some("if it is not text")))
        .property("options", Ref::from_schema_name("JobOptions"))
        .property("options_error", text())
        .property("failures", whole())
        .property("crashes", whole())
        .property("snoozes", whole())
        .property("priority", words(&["high", "normal", "low"]))
        .property("key", text())
        .property("lease", lease)
        .property("successor_due_at_ms", whole())
        .property("last_error", any())
        .property("dead", dead)
        .property("done", done)
        .property("held_until_ms", whole())
        .property("now_ms", whole())
        .property("trace_id", text().description(Some("the trace of its push")))
        .property("parent", text().description(Some("topic/id of the job whose ack pushed it")))
        .property("follow_ups", ArrayBuilder::new().items(text()).description(Some("topic/id")))
        .property("timeline", ArrayBuilder::new().items(Ref::from_schema_name("JobMoment")))
        .property("relatives", ArrayBuilder::new().items(Ref::from_schema_name("JobRelative")))
        .required("topic")
        .required("id")
        .required("state")
        .required("now_ms")
}
