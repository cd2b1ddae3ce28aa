/* Writes each kind of JSON value as its result: what the writer of duebox_json.h can do. */
#include "duebox.h"
#include "duebox_json.h"

static void write_strings(duebox_builder *json, duebox_text payload) {
  duebox_json_key(json, DUEBOX("text"));
  duebox_json_add_string(json, payload);
  duebox_json_key(json, DUEBOX("a \"name\""));
  duebox_json_add_string(json, DUEBOX(""));
}

static duebox_verdict write(void) {
  duebox_builder json = {0};
  duebox_json_open(&json, '{');
  write_strings(&json, duebox_payload());
  duebox_json_key(&json, DUEBOX("least"));
  duebox_json_add_int(&json, INT64_MIN);
  duebox_json_key(&json, DUEBOX("list"));
  duebox_json_open(&json, '[');
  duebox_json_add_bool(&json, true);
  duebox_json_add_bool(&json, false);
  duebox_json_add_null(&json);
  duebox_json_add(&json, DUEBOX("1.5"));
  duebox_json_open(&json, '{');
  duebox_json_close(&json, '}');
  duebox_json_open(&json, '[');
  duebox_json_close(&json, ']');
  duebox_json_close(&json, ']');
  duebox_json_close(&json, '}');
  if (!duebox_json_is_valid(duebox_built(&json))) return duebox_drop(DUEBOX("the writer wrote what the reader refuses"));
  duebox_set_result(duebox_built(&json));
  return duebox_ack();
}

DUEBOX_HANDLER(write)
