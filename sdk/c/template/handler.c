/*
 * The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.
 * sdk/duebox.h describes what a handler can use.
 */
#include "duebox.h"
#include "duebox_json.h"

static duebox_verdict greet(void) {
  duebox_text payload = duebox_payload(), name, word;
  /* No retry can help, so the job is dead at once, with this reason. */
  if (!duebox_json_is_valid(payload)) return duebox_drop(DUEBOX("the payload is not JSON"));
  if (!duebox_json_string(duebox_json_get(payload, DUEBOX("name")), &name)) {
    return duebox_drop(DUEBOX("the payload has no name"));
  }
  /* It may help to try again, here after a minute. A trap is tried again too, after the backoff. */
  if (duebox_json_is_true(duebox_json_get(payload, DUEBOX("asleep")))) {
    return duebox_retry_after(60000, DUEBOX("asleep"));
  }
  word = duebox_config(DUEBOX("greeting"));
  duebox_builder greeting = {0};
  duebox_add(&greeting, word.at ? word : DUEBOX("Hello"));
  duebox_add(&greeting, DUEBOX(", "));
  duebox_add(&greeting, name);
  duebox_add(&greeting, DUEBOX("!"));
  duebox_set_result(duebox_built(&greeting));
  duebox_add(&greeting, DUEBOX(" (attempt "));
  duebox_add_int(&greeting, duebox_attempt());
  duebox_add(&greeting, DUEBOX(" of "));
  duebox_add_int(&greeting, duebox_max_attempts());
  duebox_add(&greeting, DUEBOX(")"));
  duebox_info(duebox_built(&greeting));
  return duebox_ack();
}

DUEBOX_HANDLER(greet)
