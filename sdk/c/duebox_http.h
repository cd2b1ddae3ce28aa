/*
 * Requests of a C handler to the origins that `sandbox.http` grants. Redirects are followed only as often as `follow` says.
 *
 *     duebox_response response = duebox_get(DUEBOX("https://api.example.com/rate"));
 *     if (response.status != 200) return duebox_verdict_of(&response);
 */
#ifndef DUEBOX_HTTP_H
#define DUEBOX_HTTP_H

#include "duebox.h"
#include "duebox_redirect.h"

/*
 * A request. What is 0 or none is left out; a timeout of 0 is the time that the job has left. All hops share it. `follow` is
 * how many redirects are followed. A 303, and a 301 or 302 in response to a POST, is followed by a GET without body.
 * Authorization and Cookie are not sent to another origin. A redirect that is not followed is the response.
 */
typedef struct {
  duebox_text method, url, body;
  const duebox_pair *headers;
  uint32_t header_count;
  uint32_t timeout_ms;
  uint32_t follow;
} duebox_request;

/* A response, whatever its status; or an error: then the status is one of DUEBOX_DENIED … and `error` says why. */
typedef struct {
  int32_t status;
  duebox_text headers; /* a block: duebox_field() finds a header by its name */
  duebox_text body;
  duebox_text error;
  duebox_text url; /* of the request, or of its last redirect */
} duebox_response;

DUEBOX_UNUSED static duebox_text duebox_http_part_(int32_t part) {
  duebox_builder all = {0};
  for (uint32_t size = 1024;; size = 65536) {
    char *to = duebox_alloc(size);
    int32_t read = duebox_v1_http_read(part, to, all.length, size);
    if (read <= 0) return duebox_built(&all);
    duebox_add(&all, (duebox_text){to, (uint32_t)read});
    if ((uint32_t)read < size) return duebox_built(&all);
  }
}

/* Sends one hop. */
DUEBOX_UNUSED static duebox_response duebox_exchange_(const duebox_request *request) {
  duebox_response response = {.status = DUEBOX_INVALID, .url = request->url};
  duebox_builder head = {0};
  duebox_add(&head, request->method);
  duebox_add(&head, DUEBOX(" "));
  duebox_add(&head, request->url);
  if (duebox_find(duebox_built(&head), '\n') < head.length) {
    response.error = DUEBOX("the URL has a control character");
    return response;
  }
  duebox_add(&head, DUEBOX("\n"));
  for (uint32_t i = 0; i < request->header_count; i++) {
    if (!duebox_add_line_(&head, DUEBOX(""), request->headers[i].name, request->headers[i].value)) {
      response.error = DUEBOX("a header has an invalid name or value");
      return response;
    }
  }
  response.status = duebox_v1_http_send(head.at, head.length, request->body.at, request->body.length, request->timeout_ms);
  if (response.status < 100) {
    response.error = duebox_http_part_(2);
    return response;
  }
  response.headers = duebox_http_part_(0);
  response.body = duebox_http_part_(1);
  return response;
}

/* Leaves out the headers that a redirect does not carry: those of a body, or those with credentials. */
DUEBOX_UNUSED static void duebox_leave_out_(duebox_request *request, bool of_body, bool credentials) {
  duebox_pair *kept = duebox_alloc((request->header_count + 1) * sizeof(duebox_pair));
  uint32_t count = 0;
  for (uint32_t i = 0; i < request->header_count; i++) {
    duebox_text name = request->headers[i].name;
    bool is_secret = duebox_equal_fold_(name, DUEBOX("authorization")) || duebox_equal_fold_(name, DUEBOX("cookie"));
    bool is_left_out = (of_body && duebox_begins_(name, DUEBOX("content-"))) || (credentials && is_secret);
    if (!is_left_out) kept[count++] = request->headers[i];
  }
  request->headers = kept;
  request->header_count = count;
}

/* Turns a request into the one that a redirect leads to (RFC 9110, 15.4); false if there is none. */
DUEBOX_UNUSED static bool duebox_redirected_(duebox_request *request, const duebox_response *response) {
  int32_t status = response->status;
  if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308) return false;
  duebox_text location = duebox_field(response->headers, DUEBOX("location"));
  if (location.at == NULL) return false;
  duebox_text url = duebox_target_(request->url, location);
  if (url.at == NULL) return false;
  bool is_post = duebox_equal(request->method, DUEBOX("POST")), is_head = duebox_equal(request->method, DUEBOX("HEAD"));
  bool becomes_get = status == 303 ? !is_head : status < 303 && is_post;
  if (becomes_get) {
    request->method = DUEBOX("GET");
    request->body = DUEBOX_NONE;
  }
  duebox_leave_out_(request, becomes_get, !duebox_equal_fold_(duebox_origin_(request->url), duebox_origin_(url)));
  request->url = url;
  return true;
}

/* Sends a request and waits for the whole response. */
DUEBOX_UNUSED static duebox_response duebox_send(const duebox_request *request) {
  duebox_request hop = *request;
  int64_t started = request->follow > 0 ? duebox_now_ms() : 0;
  duebox_response response = duebox_exchange_(&hop);
  for (uint32_t hops = 0; hops < request->follow && duebox_redirected_(&hop, &response); hops++) {
    if (request->timeout_ms > 0) {
      int64_t left = request->timeout_ms - (duebox_now_ms() - started);
      if (left <= 0) {
        return (duebox_response){.status = DUEBOX_TIMEOUT, .error = DUEBOX("no time was left to follow a redirect"), .url = hop.url};
      }
      hop.timeout_ms = (uint32_t)left;
    }
    response = duebox_exchange_(&hop);
  }
  return response;
}

/* Sends a GET request. */
DUEBOX_UNUSED static duebox_response duebox_get(duebox_text url) {
  duebox_request request = {.method = DUEBOX("GET"), .url = url};
  return duebox_send(&request);
}

/* Sends a text as JSON. */
DUEBOX_UNUSED static duebox_response duebox_post_json(duebox_text url, duebox_text json) {
  duebox_pair type = {DUEBOX("content-type"), DUEBOX("application/json")};
  duebox_request request = {.method = DUEBOX("POST"), .url = url, .body = json, .headers = &type, .header_count = 1};
  return duebox_send(&request);
}

/* A number in a date; -1 if it is not one. */
DUEBOX_UNUSED static int64_t duebox_number_at_(duebox_text date, uint32_t at, uint32_t length) {
  int64_t number = -1;
  return duebox_to_int(duebox_slice(date, at, at + length), &number) ? number : -1;
}

/* Unix ms of a date as servers send it, `Sun, 06 Nov 1994 08:49:37 GMT`; -1 if it is malformed. */
DUEBOX_UNUSED static int64_t duebox_date_ms_(duebox_text date) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  int64_t month = 0;
  while (month < 12 && !duebox_equal(duebox_slice(date, 8, 11), (duebox_text){months + 3 * month, 3})) month++;
  int64_t day = duebox_number_at_(date, 5, 2), year = duebox_number_at_(date, 12, 4);
  int64_t hour = duebox_number_at_(date, 17, 2), minute = duebox_number_at_(date, 20, 2), second = duebox_number_at_(date, 23, 2);
  if (date.length != 29 || month > 11 || day < 1 || day > 31 || year < 1970) return -1;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return -1;
  /* The year starts in March here, so that the leap day is its last. */
  if (month < 2) year--;
  int64_t days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * ((month + 10) % 12) + 2) / 5 + day - 1 - 719468;
  return 1000 * (86400 * days + 3600 * hour + 60 * minute + second);
}

/* How many ms the server asks to wait (Retry-After, in seconds or as a date); -1 if it does not, or is malformed. */
DUEBOX_UNUSED static int64_t duebox_retry_after_ms(const duebox_response *response) {
  duebox_text value = duebox_field(response->headers, DUEBOX("retry-after"));
  int64_t seconds = 0;
  if (value.at == NULL) return -1;
  if (duebox_to_int(value, &seconds)) return seconds < 0 || seconds > 9999999999 ? -1 : 1000 * seconds;
  int64_t date = duebox_date_ms_(value), now = duebox_now_ms();
  return date < 0 ? -1 : date > now ? date - now : 0;
}

/*
 * The verdict that webhooks conventionally derive from a response: 2xx is an ack; 408, 429 and 5xx a nack, after the wait
 * that the server asks for; another 4xx a drop, because a repeat would get the same response; the rest a nack.
 */
DUEBOX_UNUSED static duebox_verdict duebox_verdict_of(const duebox_response *response) {
  int32_t status = response->status;
  if (status < 100) return duebox_nack(response->error);
  if (status >= 200 && status < 300) return duebox_ack();
  duebox_builder reason = {0};
  duebox_add(&reason, DUEBOX("the server answered "));
  duebox_add_int(&reason, status);
  if (status == 408 || status == 429 || status >= 500) {
    int64_t wait = duebox_retry_after_ms(response);
    return wait < 0 ? duebox_nack(duebox_built(&reason)) : duebox_retry_after(wait, duebox_built(&reason));
  }
  return status >= 400 ? duebox_drop(duebox_built(&reason)) : duebox_nack(duebox_built(&reason));
}

#endif
