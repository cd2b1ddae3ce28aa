/*
 * The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
 * names one, and keeps it as the job's result. sdk/duebox.h describes what a handler can use.
 */
#include "duebox.h"
#include "duebox_http.h"
#include "duebox_json.h"

/* Sends a text as {"text": …}. */
static duebox_response send_to(duebox_text api, duebox_text text) {
  duebox_builder json = {0};
  duebox_json_open(&json, '{');
  duebox_json_key(&json, DUEBOX("text"));
  duebox_json_add_string(&json, text);
  duebox_json_close(&json, '}');
  return duebox_post_json(api, duebox_built(&json));
}

static duebox_verdict greet(void) {
  duebox_text payload = duebox_payload(), name, word = duebox_config(DUEBOX("greeting")), api = duebox_config(DUEBOX("api"));
  /* No retry can help, so the job is dead at once, with this reason. */
  if (!duebox_json_is_valid(payload)) return duebox_drop(DUEBOX("the payload is not JSON"));
  if (!duebox_json_string(duebox_json_get(payload, DUEBOX("name")), &name)) {
    return duebox_drop(DUEBOX("the payload has no name"));
  }
  duebox_builder greeting = {0};
  duebox_add(&greeting, word.at ? word : DUEBOX("Hello"));
  duebox_add(&greeting, DUEBOX(", "));
  duebox_add(&greeting, name);
  duebox_add(&greeting, DUEBOX("!"));
  duebox_text text = duebox_built(&greeting);
  if (api.at) {
    duebox_response response = send_to(api, text);
    /* Not reached or busy (429, 5xx) is a nack, until the server's Retry-After; refused (another 4xx) is a drop. */
    if (response.status < 200 || response.status > 299) return duebox_verdict_of(&response);
  }
  duebox_set_result(text);
  duebox_add(&greeting, DUEBOX(" (attempt "));
  duebox_add_int(&greeting, duebox_attempt());
  duebox_add(&greeting, DUEBOX(" of "));
  duebox_add_int(&greeting, duebox_max_attempts());
  duebox_add(&greeting, DUEBOX(")"));
  duebox_info(duebox_built(&greeting));
  return duebox_ack();
}

DUEBOX_HANDLER(greet)
