/*
 * Sends requests and keeps values as a conformance case asks, with the C header alone. It is separate from echo-c because
 * a module that imports http_send or kv_get runs only if the topic grants it. tests/conformance/README.md describes the
 * steps.
 *
 * Invariant: reach-rust and reach-go log the same text for every step.
 */
#include "../conformance.h"
#include "duebox_http.h"
#include "duebox_json.h"

#define HEADERS_MAX 8

/* The last response. */
static duebox_response last;

/* Sends "METHOD URL|name=value|…". */
static duebox_response send(duebox_text rest) {
  duebox_pair headers[HEADERS_MAX];
  duebox_request request = {.headers = headers};
  request.method = before(before(rest, '|', &rest), ' ', &request.url);
  while (rest.length > 0) {
    duebox_text value, pair = before(rest, '|', &rest), name = before(pair, '=', &value);
    value = or_payload(value);
    if (is(name, "body")) request.body = value;
    else if (is(name, "size")) request.body = of_x(number(value));
    else if (is(name, "timeout")) request.timeout_ms = (uint32_t)number(value);
    else if (is(name, "follow")) request.follow = (uint32_t)number(value);
    else if (request.header_count < HEADERS_MAX) {
      headers[request.header_count++] = (duebox_pair){duebox_slice(name, 2, name.length), value};
    }
  }
  duebox_response response = duebox_send(&request);
  if (response.status < 100) return response;
  last = response;
  duebox_builder line = {0};
  add(&line, "answered ");
  duebox_add_int(&line, response.status);
  add(&line, ", ");
  duebox_add_int(&line, response.body.length);
  add(&line, " bytes");
  duebox_info(duebox_built(&line));
  return response;
}

static duebox_text kind(int32_t code) {
  switch (code) {
    case DUEBOX_DENIED: return DUEBOX("denied");
    case DUEBOX_INVALID: return DUEBOX("invalid");
    case DUEBOX_TOO_LARGE: return DUEBOX("too large");
    case DUEBOX_TIMEOUT: return DUEBOX("timeout");
    default: return DUEBOX("unavailable");
  }
}

static void show_names(duebox_text wanted) {
  duebox_text block = last.headers, name, value;
  int64_t count = 0;
  while (duebox_next(&block, &name, &value)) count += duebox_equal(name, wanted);
  duebox_builder line = {0};
  add(&line, "names ");
  duebox_add_int(&line, count);
  duebox_info(duebox_built(&line));
}

static void show_json(void) {
  duebox_text name;
  int64_t count;
  bool fits = duebox_json_is_valid(last.body) && duebox_json_string(duebox_json_get(last.body, DUEBOX("name")), &name) &&
              duebox_json_int(duebox_json_get(last.body, DUEBOX("count")), &count);
  duebox_builder line = {0};
  add(&line, fits ? "json name=" : "the body is not the expected JSON");
  if (fits) {
    duebox_add(&line, name);
    add(&line, " count=");
    duebox_add_int(&line, count);
  }
  duebox_info(duebox_built(&line));
}

/* A step that reads the last response; false for any other. */
static bool response_step(duebox_text step, duebox_text rest) {
  duebox_builder line = {0};
  if (is(step, "header")) show(step, rest, duebox_field(last.headers, rest));
  else if (is(step, "names")) show_names(rest);
  else if (is(step, "body") && !duebox_is_utf8(last.body)) duebox_info(DUEBOX("the body is not UTF-8"));
  else if (is(step, "body")) say("body ", last.body);
  else if (is(step, "url")) say("url ", last.url);
  else if (is(step, "json")) show_json();
  else if (is(step, "hex") || is(step, "sum")) {
    add(&line, is(step, "hex") ? "hex " : "sum ");
    if (is(step, "hex")) add_hex(&line, last.body);
    else duebox_add_int(&line, sum(last.body));
    duebox_info(duebox_built(&line));
  } else return false;
  return true;
}

/* Logs what the store answered: the words of a success, of its expected opposite, or the error. */
static void answer(int32_t code, int32_t expected, duebox_text done, duebox_text not_done) {
  if (code == 0) duebox_info(done);
  else if (code == expected) duebox_info(not_done);
  else say("refused: ", duebox_kv_error(code));
}

static void get(duebox_text key) {
  duebox_text value;
  duebox_builder found = {0}, absent = {0};
  int32_t code = duebox_kv_get(key, &value);
  duebox_add(&found, key);
  if (value.length > 99) {
    add(&found, " has ");
    duebox_add_int(&found, value.length);
    add(&found, " bytes");
  } else {
    add(&found, "=");
    duebox_add(&found, value);
  }
  duebox_add(&absent, key);
  add(&absent, " absent");
  answer(code, DUEBOX_NOT_FOUND, duebox_built(&found), duebox_built(&absent));
}

/* Appends to a value, again while other jobs write it meanwhile. */
static void append(duebox_text key, duebox_text text, int64_t ttl_ms) {
  for (int tries = 0; tries < 10; tries++) {
    duebox_text old;
    duebox_builder longer = {0};
    int32_t code = duebox_kv_get(key, &old);
    duebox_add(&longer, old);
    duebox_add(&longer, text);
    if (code == 0 || code == DUEBOX_NOT_FOUND) code = duebox_kv_set(key, duebox_built(&longer), ttl_ms, DUEBOX_IF_UNCHANGED);
    if (code != DUEBOX_CONFLICT) return answer(code, DUEBOX_CONFLICT, duebox_built(&longer), DUEBOX(""));
  }
  duebox_info(DUEBOX("refused: other jobs kept changing the key"));
}

static void add_to(duebox_text key, int64_t delta) {
  int64_t sum = 0;
  duebox_builder line = {0};
  int32_t code = duebox_kv_add(key, delta, &sum);
  duebox_add(&line, key);
  add(&line, "=");
  duebox_add_int(&line, sum);
  answer(code, 0, duebox_built(&line), DUEBOX(""));
}

/* A step that uses the store; false for any other. */
static bool store_step(duebox_text step, duebox_text rest) {
  duebox_text after, ttl, key = or_payload(before(rest, ' ', &after)), value = before(after, ' ', &ttl);
  int64_t ttl_ms = ttl.length > 0 ? number(ttl) : 0;
  if (value.length > 0 && value.at[0] == '*') value = of_x(number(duebox_slice(value, 1, value.length)));
  if (is(step, "get")) get(key);
  else if (is(step, "set") || is(step, "absent") || is(step, "unchanged")) {
    int32_t mode = is(step, "set") ? DUEBOX_ALWAYS : is(step, "absent") ? DUEBOX_IF_ABSENT : DUEBOX_IF_UNCHANGED;
    answer(duebox_kv_set(key, value, ttl_ms, mode), DUEBOX_CONFLICT, DUEBOX("written"), DUEBOX("not written"));
  } else if (is(step, "append")) append(key, value, ttl_ms);
  else if (is(step, "delete")) answer(duebox_kv_delete(key), DUEBOX_NOT_FOUND, DUEBOX("deleted"), DUEBOX("not there"));
  else if (is(step, "add")) add_to(key, number(value));
  else return false;
  return true;
}

static duebox_verdict decide(void) {
  duebox_text script = duebox_header(DUEBOX("script")), step, rest;
  while (next_step(&script, &step, &rest)) {
    if (is(step, "send") || is(step, "must")) {
      duebox_response response = send(rest);
      if (response.status < 100 && is(step, "must")) return duebox_nack(response.error);
      if (response.status < 100) say("failed ", kind(response.status));
    } else if (response_step(step, rest) || store_step(step, rest)) continue;
    else if (is(step, "verdict")) return duebox_verdict_of(&last);
    else if (is(step, "ack")) return duebox_ack();
    else if (is(step, "nack")) return duebox_nack(rest);
    else return duebox_drop(quoted("unknown step ", step, ""));
  }
  return duebox_ack();
}

DUEBOX_HANDLER(decide)
