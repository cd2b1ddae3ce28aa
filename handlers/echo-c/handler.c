/*
 * Runs the steps of a conformance case with the C header alone. The steps are in the header "script", separated by
 * "; "; tests/conformance/README.md describes each.
 *
 * Invariant: echo-rust and echo-go log the same text for every step.
 */
#include "../conformance.h"
#include "duebox_json.h"

/* The verdict of a step that does not end the attempt. */
#define GO_ON (-1)

static duebox_verdict ending_step(duebox_text step, duebox_text rest) {
  duebox_text after;
  if (is(step, "ack")) return duebox_ack();
  if (is(step, "nack") || is(step, "error")) return duebox_nack(rest);
  if (is(step, "drop")) return duebox_drop(rest);
  if (is(step, "panic")) duebox_panic(rest);
  duebox_text ms = before(rest, ' ', &after);
  if (is(step, "retry")) return duebox_retry_after(number(ms), after);
  if (is(step, "snooze")) return duebox_snooze(number(ms), after);
  return GO_ON;
}

static duebox_verdict log_line(duebox_text rest) {
  duebox_text text, level = before(rest, ' ', &text);
  if (is(level, "error")) duebox_error(text);
  else if (is(level, "warn")) duebox_warn(text);
  else if (is(level, "info")) duebox_info(text);
  else if (is(level, "debug")) duebox_debug(text);
  else if (is(level, "trace")) duebox_trace(text);
  else return duebox_drop(quoted("unknown level ", level, ""));
  return GO_ON;
}

static duebox_verdict read_json(duebox_text payload) {
  duebox_text name, price, on, tags, word, unused;
  int64_t count;
  if (!duebox_json_is_valid(payload)) return duebox_drop(DUEBOX("the payload is not JSON"));
  price = duebox_json_get(payload, DUEBOX("price"));
  on = duebox_json_get(payload, DUEBOX("on"));
  tags = duebox_json_get(payload, DUEBOX("tags"));
  bool fits = duebox_json_string(duebox_json_get(payload, DUEBOX("name")), &name) &&
              duebox_json_int(duebox_json_get(payload, DUEBOX("count")), &count) &&
              duebox_json_is_number(price) && duebox_json_is_bool(on) && tags.length > 0 && tags.at[0] == '[';
  if (!fits) return duebox_drop(DUEBOX("a field is missing or has another type"));
  duebox_builder line = {0};
  add(&line, "json name=");
  duebox_add(&line, name);
  add(&line, " count=");
  duebox_add_int(&line, count);
  add(&line, " price=");
  duebox_add(&line, price); /* a number's text: C has no decimal without a library */
  add(&line, " on=");
  duebox_add(&line, on);
  add(&line, " tags=");
  for (uint32_t at = 0, words = 0; duebox_json_next(tags, &at, &unused, &word); words++) {
    if (!duebox_json_string(word, &word)) return duebox_drop(DUEBOX("a tag is not a string"));
    if (words > 0) add(&line, "|");
    duebox_add(&line, word);
  }
  duebox_info(duebox_built(&line));
  return GO_ON;
}

static duebox_verdict read_config(duebox_text step, duebox_text name) {
  duebox_text value = duebox_config(name);
  int64_t unused;
  bool fits = is(step, "int") ? duebox_json_int(value, &unused) : is(step, "float") ? duebox_json_is_number(value) : duebox_json_is_bool(value);
  if (value.at != NULL && !fits) return duebox_nack(quoted("the configuration value ", name, " cannot be used"));
  show(step, name, value);
  return GO_ON;
}

static void show_meta(void) {
  duebox_builder line = {0};
  int64_t attempt = duebox_attempt(), max_attempts = duebox_max_attempts();
  add(&line, "meta id=");
  duebox_add(&line, duebox_id());
  add(&line, " topic=");
  duebox_add(&line, duebox_topic());
  add(&line, " attempt=");
  duebox_add_int(&line, attempt);
  add(&line, " max_attempts=");
  duebox_add_int(&line, max_attempts);
  add(&line, attempt >= max_attempts ? " last=true due_at=" : " last=false due_at=");
  duebox_add_int(&line, duebox_due_at_ms());
  duebox_info(duebox_built(&line));
}

static void show_times(void) {
  int64_t now = duebox_now_ms(), deadline = duebox_deadline_ms(), left = duebox_time_left_ms();
  bool is_ordered = duebox_due_at_ms() <= now && now <= deadline, fits = left > 0 && now + left <= deadline + 1000;
  duebox_builder line = {0};
  add(&line, is_ordered ? "times ordered=true" : "times ordered=false");
  add(&line, fits ? " left=true" : " left=false");
  duebox_info(duebox_built(&line));
}

/* Whether a name comes before another one. */
static bool is_before(duebox_text a, duebox_text b) {
  uint32_t i = 0;
  while (i < a.length && i < b.length && a.at[i] == b.at[i]) i++;
  return i < b.length && (i == a.length || a.at[i] < b.at[i]);
}

/* All headers but the script, by name. */
static void show_headers(void) {
  duebox_text last = DUEBOX("");
  for (;;) {
    duebox_text block = duebox_headers(), name, value, next = DUEBOX_NONE, shown = DUEBOX_NONE;
    while (duebox_next(&block, &name, &value)) {
      bool is_next = is_before(last, name) && (next.at == NULL || is_before(name, next));
      if (is_next && !is(name, "script")) next = name, shown = value;
    }
    if (next.at == NULL) return;
    show(DUEBOX("header"), next, shown);
    last = next;
  }
}

static void show_part(duebox_text rest) {
  duebox_text length, offset = before(rest, ' ', &length);
  int64_t size = number(length);
  char *to = duebox_alloc((size_t)size);
  int32_t read = duebox_v1_payload_read(to, (uint32_t)number(offset), (uint32_t)size);
  duebox_builder line = {0};
  add(&line, "part ");
  duebox_add_int(&line, read);
  add(&line, " ");
  add_hex(&line, (duebox_text){to, (uint32_t)read});
  duebox_info(duebox_built(&line));
}

static void show_payload(duebox_text payload, bool is_sum) {
  duebox_builder line = {0};
  add(&line, is_sum ? "sum " : "payload ");
  duebox_add_int(&line, payload.length);
  add(&line, " ");
  if (is_sum) duebox_add_int(&line, sum(payload));
  else add_hex(&line, payload);
  duebox_info(duebox_built(&line));
}

static duebox_verdict set_result(duebox_text bytes) {
  return duebox_set_result(bytes) == 0 ? GO_ON : duebox_nack(DUEBOX("the result is longer than 64 KiB"));
}

static duebox_verdict reading_step(duebox_text step, duebox_text rest) {
  duebox_text payload = duebox_payload();
  if (is(step, "payload") || is(step, "sum")) show_payload(payload, is(step, "sum"));
  else if (is(step, "part")) show_part(rest);
  else if (is(step, "text") && !duebox_is_utf8(payload)) return duebox_drop(DUEBOX("the payload is not UTF-8"));
  else if (is(step, "text")) say("text ", payload);
  else if (is(step, "syntax")) say("syntax ", duebox_json_is_valid(payload) ? DUEBOX("true") : DUEBOX("false"));
  else if (is(step, "json")) return read_json(payload);
  else if (is(step, "meta")) show_meta();
  else if (is(step, "times")) show_times();
  else if (is(step, "headers")) show_headers();
  else if (is(step, "header")) show(step, rest, duebox_header(rest));
  else if (is(step, "config")) show(step, rest, duebox_config(rest));
  else if (is(step, "int") || is(step, "float") || is(step, "bool")) return read_config(step, rest);
  else if (is(step, "result")) return set_result(rest);
  else if (is(step, "result-size")) return set_result(of_x(number(rest)));
  else if (is(step, "log")) return log_line(rest);
  else if (is(step, "random")) {
    char bytes[32];
    duebox_random(bytes, 16);
    duebox_random(bytes + 16, 16);
    bool differs = !duebox_equal((duebox_text){bytes, 16}, (duebox_text){bytes + 16, 16});
    say("random differs=", differs ? DUEBOX("true") : DUEBOX("false"));
  } else return duebox_drop(quoted("unknown step ", step, ""));
  return GO_ON;
}

static duebox_verdict decide(void) {
  duebox_text script = duebox_header(DUEBOX("script")), step, rest;
  while (next_step(&script, &step, &rest)) {
    duebox_verdict verdict = ending_step(step, rest);
    if (verdict == GO_ON) verdict = reading_step(step, rest);
    if (verdict != GO_ON) return verdict;
  }
  return duebox_ack();
}

DUEBOX_HANDLER(decide)
