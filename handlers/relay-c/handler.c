/*
 * Pushes follow-ups as a conformance case asks, with the C header alone. It is separate from echo-c because a module
 * that imports push runs only if the topic grants it. tests/conformance/README.md describes the steps.
 *
 * Invariant: relay-rust and relay-go log the same text for every step.
 */
#include "../conformance.h"

#define HEADERS_MAX 8

/* A follow-up with room for its headers. */
typedef struct {
  duebox_follow_up job;
  duebox_pair headers[HEADERS_MAX];
} follow_up;

/* Parses "topic=T|name=value|…". */
static void parse(duebox_text rest, follow_up *into) {
  *into = (follow_up){0};
  duebox_follow_up *job = &into->job;
  job->headers = into->headers;
  while (rest.length > 0) {
    duebox_text value, pair = before(rest, '|', &rest), name = before(pair, '=', &value);
    value = or_payload(value);
    if (is(name, "topic")) job->topic = value;
    else if (is(name, "payload")) job->payload = value;
    else if (is(name, "size")) job->payload = of_x(number(value));
    else if (is(name, "id")) job->id = value;
    else if (is(name, "delay")) job->delay_ms = number(value);
    else if (is(name, "at")) job->due_at_ms = number(value);
    else if (is(name, "ttr")) job->ttr_ms = number(value);
    else if (is(name, "attempts")) job->max_attempts = number(value);
    else if (is(name, "ttl")) job->ttl_ms = number(value);
    else if (is(name, "priority")) job->priority = value;
    else if (is(name, "key")) job->key = value;
    else if (job->header_count < HEADERS_MAX) {
      into->headers[job->header_count++] = (duebox_pair){duebox_slice(name, 2, name.length), value};
    }
  }
}

static void push_many(duebox_text rest) {
  follow_up job;
  duebox_text of, count = before(rest, ' ', &of), why = DUEBOX("");
  int64_t wanted = number(count), taken = 0;
  parse(of, &job);
  for (int64_t i = 0; i < wanted; i++) {
    int32_t code = duebox_push(&job.job);
    if (code == 0) taken++;
    else why = duebox_push_error(code);
  }
  duebox_builder line = {0};
  add(&line, "pushed ");
  duebox_add_int(&line, taken);
  add(&line, " of ");
  duebox_add_int(&line, wanted);
  if (why.length > 0) add(&line, ": ");
  duebox_add(&line, why);
  duebox_info(duebox_built(&line));
}

static duebox_verdict decide(void) {
  duebox_text script = duebox_header(DUEBOX("script")), step, rest;
  follow_up job;
  while (next_step(&script, &step, &rest)) {
    if (is(step, "push") || is(step, "must")) {
      parse(rest, &job);
      int32_t code = duebox_push(&job.job);
      if (code != 0 && is(step, "must")) return duebox_nack(duebox_push_error(code));
      if (code != 0) say("refused: ", duebox_push_error(code));
      else if (is(step, "push")) duebox_info(DUEBOX("pushed"));
    } else if (is(step, "push-many")) push_many(rest);
    else if (is(step, "ack")) return duebox_ack();
    else if (is(step, "nack")) return duebox_nack(rest);
    else if (is(step, "drop")) return duebox_drop(rest);
    else if (is(step, "snooze")) return duebox_snooze(number(rest), DUEBOX(""));
    else if (is(step, "panic")) duebox_panic(rest);
    else return duebox_drop(quoted("unknown step ", step, ""));
  }
  return duebox_ack();
}

DUEBOX_HANDLER(decide)
