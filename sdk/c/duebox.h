/*
 * The C SDK of Duebox: the handler ABI (docs/reference/abi.md) and helpers, without a C library.
 *
 *     #include "duebox.h"
 *
 *     static duebox_verdict greet(void) {
 *       duebox_text name = duebox_payload();
 *       if (name.length == 0) return duebox_drop(DUEBOX("the payload is empty"));
 *       duebox_info(name);
 *       return duebox_ack();
 *     }
 *
 *     DUEBOX_HANDLER(greet)
 *
 * Compile it with clang and its linker for wasm, or let `duebox build` do it:
 *
 *     clang --target=wasm32 -O2 -ffreestanding -nostdlib -mbulk-memory -Wl,--no-entry -Wl,-z,stack-size=65536 \
 *       -Isdk -o build/handler.wasm handler.c
 *
 * Only what is called is imported, so a handler needs only the grants of what it uses. Texts are UTF-8 with a length,
 * and need not end in NUL. Memory comes from an arena that is empty again at the start of every job: nothing is freed.
 * Delivery is at least once: recognise a repetition by duebox_id() where it would harm.
 */
#ifndef DUEBOX_H
#define DUEBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the imports, as docs/reference/abi.md lists them ------------------------------------------------------------ */

#define DUEBOX_IMPORT(name) __attribute__((import_module("duebox_v1"), import_name(#name))) extern
#define DUEBOX_SHARED __attribute__((weak)) /* one for all files of a project */
#define DUEBOX_UNUSED __attribute__((unused))

DUEBOX_IMPORT(payload_read) int32_t duebox_v1_payload_read(void *to, uint32_t offset, uint32_t length);
DUEBOX_IMPORT(meta_read) int32_t duebox_v1_meta_read(int32_t key, void *to, uint32_t capacity);
DUEBOX_IMPORT(meta_int) int64_t duebox_v1_meta_int(int32_t key);
DUEBOX_IMPORT(config_read) int32_t duebox_v1_config_read(const char *name, uint32_t length, void *to, uint32_t capacity);
DUEBOX_IMPORT(random) void duebox_v1_random(void *to, uint32_t length);
DUEBOX_IMPORT(retry_after) void duebox_v1_retry_after(int64_t ms);
DUEBOX_IMPORT(snooze) void duebox_v1_snooze(int64_t ms);
DUEBOX_IMPORT(reason) void duebox_v1_reason(const char *text, uint32_t length);
DUEBOX_IMPORT(result) int32_t duebox_v1_result(const char *bytes, uint32_t length);
DUEBOX_IMPORT(log) void duebox_v1_log(int32_t level, const char *text, uint32_t length);
DUEBOX_IMPORT(push) int32_t duebox_v1_push(const char *head, uint32_t head_length, const char *body, uint32_t body_length);
DUEBOX_IMPORT(http_send) int32_t duebox_v1_http_send(const char *head, uint32_t head_length, const char *body, uint32_t body_length, uint32_t timeout_ms);
DUEBOX_IMPORT(http_read) int32_t duebox_v1_http_read(int32_t part, void *to, uint32_t offset, uint32_t length);
DUEBOX_IMPORT(kv_get) int32_t duebox_v1_kv_get(const char *key, uint32_t length, void *to, uint32_t capacity);
DUEBOX_IMPORT(kv_set) int32_t duebox_v1_kv_set(const char *key, uint32_t key_length, const char *value, uint32_t value_length, int64_t ttl_ms, int32_t mode);
DUEBOX_IMPORT(kv_delete) int32_t duebox_v1_kv_delete(const char *key, uint32_t length);
DUEBOX_IMPORT(kv_add) int32_t duebox_v1_kv_add(const char *key, uint32_t length, int64_t delta, void *to);

/* The errors of these calls. A call that fails changes nothing. */
enum {
  DUEBOX_NOT_FOUND = -1,
  DUEBOX_DENIED = -2,
  DUEBOX_INVALID = -3,
  DUEBOX_TOO_LARGE = -4,
  DUEBOX_TIMEOUT = -5,
  DUEBOX_UNAVAILABLE = -6,
  DUEBOX_CONFLICT = -7,
};

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* What a compiler calls where it has no instruction for it. A C library's own functions take precedence. */
#define DUEBOX_LIBC __attribute__((weak, no_builtin, used))
DUEBOX_LIBC void *memcpy(void *to, const void *from, size_t length) {
  for (size_t i = 0; i < length; i++) ((char *)to)[i] = ((const char *)from)[i];
  return to;
}
DUEBOX_LIBC void *memset(void *to, int value, size_t length) {
  for (size_t i = 0; i < length; i++) ((char *)to)[i] = (char)value;
  return to;
}

extern unsigned char __heap_base; /* the linker's: where data and stack end */
DUEBOX_SHARED uintptr_t duebox_heap_end_;
DUEBOX_SHARED uint32_t duebox_payload_length_;

/* Memory of this job, aligned to 16 bytes. Traps if `sandbox.memory` does not suffice: class out_of_memory. */
DUEBOX_UNUSED static void *duebox_alloc(size_t size) {
  uintptr_t at = (duebox_heap_end_ + 15) & ~(uintptr_t)15;
  uintptr_t have = __builtin_wasm_memory_size(0) << 16;
  if (size > UINTPTR_MAX - 65536 - at) __builtin_trap();
  if (at + size > have && __builtin_wasm_memory_grow(0, (at + size - have + 65535) >> 16) == (size_t)-1) __builtin_trap();
  duebox_heap_end_ = at + size;
  return (void *)at;
}

/* --- texts ------------------------------------------------------------------------------------------------------- */

/* Bytes with a length. `at` is NULL if there is none, which an empty text is not. */
typedef struct {
  const char *at;
  uint32_t length;
} duebox_text;

/* A text from a literal. */
#define DUEBOX(literal) ((duebox_text){"" literal, sizeof(literal) - 1})
/* No text. */
#define DUEBOX_NONE ((duebox_text){NULL, 0})

/* Whether two texts have the same bytes. */
DUEBOX_UNUSED static bool duebox_equal(duebox_text a, duebox_text b) {
  if (a.length != b.length) return false;
  for (uint32_t i = 0; i < a.length; i++) {
    if (a.at[i] != b.at[i]) return false;
  }
  return true;
}

/* A part of a text, cut at its end. */
DUEBOX_UNUSED static duebox_text duebox_slice(duebox_text text, uint32_t from, uint32_t to) {
  if (to > text.length) to = text.length;
  if (from > to) from = to;
  return (duebox_text){text.at + from, to - from};
}

/* Where a text first contains a letter; its length if it does not. */
DUEBOX_UNUSED static uint32_t duebox_find(duebox_text text, char letter) {
  uint32_t at = 0;
  while (at < text.length && text.at[at] != letter) at++;
  return at;
}

/* Parses a whole decimal number, as "-42"; false if the text is not one or exceeds 64 bits. */
DUEBOX_UNUSED static bool duebox_to_int(duebox_text text, int64_t *number) {
  bool is_negative = text.length > 0 && text.at[0] == '-';
  int64_t value = 0;
  for (uint32_t i = is_negative; i < text.length; i++) {
    int digit = text.at[i] - '0';
    if (digit < 0 || digit > 9) return false;
    if (value < INT64_MIN / 10 || value * 10 < INT64_MIN + digit) return false;
    value = value * 10 - digit; /* below zero, where there is one more */
  }
  if (text.length <= is_negative || (!is_negative && value == INT64_MIN)) return false;
  *number = is_negative ? value : -value;
  return true;
}

/* Whether the bytes are UTF-8. */
DUEBOX_UNUSED static bool duebox_is_utf8(duebox_text text) {
  const unsigned char *at = (const unsigned char *)text.at, *end = at + text.length;
  while (at < end) {
    unsigned char first = *at++;
    if (first < 0x80) continue;
    int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80; /* no overlong forms */
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf; /* no surrogates, nothing past 10FFFF */
    if (*at < low || *at > high) return false;
    for (at++; more > 1; more--, at++) {
      if (*at < 0x80 || *at > 0xbf) return false;
    }
  }
  return true;
}

/* A text that is put together: `duebox_builder b = {0}; duebox_add(&b, …); duebox_text all = duebox_built(&b);` */
typedef struct {
  char *at;
  uint32_t length, capacity;
} duebox_builder;

/* Adds a text. */
DUEBOX_UNUSED static void duebox_add(duebox_builder *builder, duebox_text text) {
  if (builder->capacity - builder->length < text.length) {
    uint32_t capacity = (builder->length + text.length) * 2;
    char *grown = duebox_alloc(capacity);
    __builtin_memcpy(grown, builder->at, builder->length);
    builder->at = grown;
    builder->capacity = capacity;
  }
  __builtin_memcpy(builder->at + builder->length, text.at, text.length);
  builder->length += text.length;
}

/* Adds a decimal number. */
DUEBOX_UNUSED static void duebox_add_int(duebox_builder *builder, int64_t number) {
  char digits[20];
  uint32_t at = sizeof digits;
  uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  do digits[--at] = (char)('0' + left % 10); while ((left /= 10) > 0);
  if (number < 0) digits[--at] = '-';
  duebox_add(builder, (duebox_text){digits + at, (uint32_t)sizeof digits - at});
}

/* What was added so far. It stays as it is when more is added. */
DUEBOX_UNUSED static duebox_text duebox_built(const duebox_builder *builder) {
  return (duebox_text){builder->at ? builder->at : "", builder->length};
}

/* --- the job ----------------------------------------------------------------------------------------------------- */

/* The value of a call that returns the full length: again with more space if it did not fit. */
#define DUEBOX_WHOLE_(call_to_capacity)                                                                               \
  for (uint32_t capacity = 512;;) {                                                                                   \
    char *to = duebox_alloc(capacity);                                                                                \
    int32_t length = call_to_capacity;                                                                                \
    if (length < 0) return DUEBOX_NONE;                                                                               \
    if ((uint32_t)length <= capacity) return (duebox_text){to, (uint32_t)length};                                     \
    capacity = (uint32_t)length;                                                                                      \
  }

/* The payload. */
DUEBOX_UNUSED static duebox_text duebox_payload(void) {
  char *to = duebox_alloc(duebox_payload_length_);
  int32_t length = duebox_v1_payload_read(to, 0, duebox_payload_length_);
  return (duebox_text){to, (uint32_t)length};
}

DUEBOX_UNUSED static duebox_text duebox_meta_(int32_t key) { DUEBOX_WHOLE_(duebox_v1_meta_read(key, to, capacity)) }

/* The job's id. */
DUEBOX_UNUSED static duebox_text duebox_id(void) { return duebox_meta_(1); }
/* The job's topic. */
DUEBOX_UNUSED static duebox_text duebox_topic(void) { return duebox_meta_(2); }
/* The number of this attempt, from 1. */
DUEBOX_UNUSED static int64_t duebox_attempt(void) { return duebox_v1_meta_int(3); }
/* The number of attempts in total. */
DUEBOX_UNUSED static int64_t duebox_max_attempts(void) { return duebox_v1_meta_int(4); }
/* When the job fell due, in Unix ms. */
DUEBOX_UNUSED static int64_t duebox_due_at_ms(void) { return duebox_v1_meta_int(5); }
/* The end of this attempt's time, in Unix ms. */
DUEBOX_UNUSED static int64_t duebox_deadline_ms(void) { return duebox_v1_meta_int(6); }
/* The host's clock, in Unix ms. */
DUEBOX_UNUSED static int64_t duebox_now_ms(void) { return duebox_v1_meta_int(8); }
/* How many ms this attempt has left. */
DUEBOX_UNUSED static int64_t duebox_time_left_ms(void) { return duebox_v1_meta_int(9); }

/* Takes the next line `name: value` from a block, such as duebox_headers(); false at its end. */
DUEBOX_UNUSED static bool duebox_next(duebox_text *block, duebox_text *name, duebox_text *value) {
  if (block->length == 0) return false;
  duebox_text line = duebox_slice(*block, 0, duebox_find(*block, '\n'));
  *block = duebox_slice(*block, line.length + 1, block->length);
  *name = duebox_slice(line, 0, duebox_find(line, ':'));
  *value = duebox_slice(line, name->length + 2, line.length);
  return true;
}

/* The first value of a name in a block, in lower case or not; none if it is not there. */
DUEBOX_UNUSED static duebox_text duebox_field(duebox_text block, duebox_text wanted) {
  duebox_text name, value;
  while (duebox_next(&block, &name, &value)) {
    uint32_t i = 0;
    if (name.length != wanted.length) continue;
    while (i < name.length && name.at[i] == (wanted.at[i] >= 'A' && wanted.at[i] <= 'Z' ? wanted.at[i] + 32 : wanted.at[i])) i++;
    if (i == name.length) return value;
  }
  return DUEBOX_NONE;
}

/* The job's headers as a block. */
DUEBOX_UNUSED static duebox_text duebox_headers(void) { return duebox_meta_(7); }
/* A header of the job; none if it does not exist. */
DUEBOX_UNUSED static duebox_text duebox_header(duebox_text name) { return duebox_field(duebox_headers(), name); }

/* A value of `sandbox.config` or `sandbox.secrets`: strings as they are, others as JSON; none if it is not set. */
DUEBOX_UNUSED static duebox_text duebox_config(duebox_text name) {
  DUEBOX_WHOLE_(duebox_v1_config_read(name.at, name.length, to, capacity))
}

/* Fills memory with random bytes. */
DUEBOX_UNUSED static void duebox_random(void *to, uint32_t length) { duebox_v1_random(to, length); }

/* Lines of the job's log. */
DUEBOX_UNUSED static void duebox_error(duebox_text text) { duebox_v1_log(0, text.at, text.length); }
/* Logs at level warn. */
DUEBOX_UNUSED static void duebox_warn(duebox_text text) { duebox_v1_log(1, text.at, text.length); }
/* Logs at level info. */
DUEBOX_UNUSED static void duebox_info(duebox_text text) { duebox_v1_log(2, text.at, text.length); }
/* Logs at level debug. */
DUEBOX_UNUSED static void duebox_debug(duebox_text text) { duebox_v1_log(3, text.at, text.length); }
/* Logs at level trace. */
DUEBOX_UNUSED static void duebox_trace(duebox_text text) { duebox_v1_log(4, text.at, text.length); }

/* Keeps a result with the acked job. DUEBOX_TOO_LARGE above 64 KiB; the previous one then stays. */
DUEBOX_UNUSED static int32_t duebox_set_result(duebox_text bytes) { return duebox_v1_result(bytes.at, bytes.length); }

/* --- verdicts ---------------------------------------------------------------------------------------------------- */

typedef int32_t duebox_verdict;

/* Done. */
DUEBOX_UNUSED static duebox_verdict duebox_ack(void) { return 0; }

/* Failed: tried again after the backoff, while attempts are left. */
DUEBOX_UNUSED static duebox_verdict duebox_nack(duebox_text reason) {
  duebox_v1_reason(reason.at, reason.length);
  return 1;
}

/* Failed: tried again after this wait instead of the backoff. */
DUEBOX_UNUSED static duebox_verdict duebox_retry_after(int64_t ms, duebox_text reason) {
  duebox_v1_retry_after(ms);
  return duebox_nack(reason);
}

/* Not a failure: the job comes back after the wait, and no attempt is spent. */
DUEBOX_UNUSED static duebox_verdict duebox_snooze(int64_t ms, duebox_text reason) {
  duebox_v1_snooze(ms);
  return duebox_nack(reason);
}

/* Dead at once: no retry can help. */
DUEBOX_UNUSED static duebox_verdict duebox_drop(duebox_text reason) {
  duebox_v1_reason(reason.at, reason.length);
  return 2;
}

/* Fails with class `trap`, with the message as the last line of the log and as the reason. */
DUEBOX_UNUSED static _Noreturn void duebox_panic(duebox_text message) {
  duebox_v1_reason(message.at, message.length);
  __builtin_trap();
}

/* Exports a function `duebox_verdict name(void)` as the handler. Once in a project. */
#define DUEBOX_HANDLER(name)                                                                                          \
  __attribute__((export_name("handle"))) int32_t duebox_handle_(uint32_t length) {                                    \
    duebox_heap_end_ = (uintptr_t)&__heap_base;                                                                       \
    duebox_payload_length_ = length;                                                                                  \
    return name();                                                                                                    \
  }

/* --- follow-up jobs: sandbox.push -------------------------------------------------------------------------------- */

/* A name and its value. */
typedef struct {
  duebox_text name, value;
} duebox_pair;

/* A job that is pushed with the ack of this one, or not at all. What is 0 or none takes its default. */
typedef struct {
  duebox_text topic, payload, id, priority, key;
  int64_t delay_ms, due_at_ms, ttr_ms, max_attempts, ttl_ms;
  const duebox_pair *headers;
  uint32_t header_count;
} duebox_follow_up;

/* Adds a line to a block; false if a control character would forge another one. */
DUEBOX_UNUSED static bool duebox_add_line_(duebox_builder *block, duebox_text prefix, duebox_text name, duebox_text value) {
  for (uint32_t i = 0; i < name.length; i++) {
    if ((unsigned char)name.at[i] <= ' ' || name.at[i] == ':' || name.at[i] == 0x7f) return false;
  }
  for (uint32_t i = 0; i < value.length; i++) {
    if ((unsigned char)value.at[i] < ' ' || value.at[i] == 0x7f) return false;
  }
  duebox_add(block, prefix);
  for (uint32_t i = 0; i < name.length; i++) {
    char letter = name.at[i] >= 'A' && name.at[i] <= 'Z' && prefix.length == 0 ? name.at[i] + 32 : name.at[i];
    duebox_add(block, (duebox_text){&letter, 1});
  }
  duebox_add(block, DUEBOX(": "));
  duebox_add(block, value);
  duebox_add(block, DUEBOX("\n"));
  return true;
}

DUEBOX_UNUSED static void duebox_add_number_(duebox_builder *block, duebox_text name, int64_t value) {
  if (value == 0) return;
  duebox_add(block, name);
  duebox_add(block, DUEBOX(": "));
  duebox_add_int(block, value);
  duebox_add(block, DUEBOX("\n"));
}

/* 0, or an error that duebox_push_error() explains. */
DUEBOX_UNUSED static int32_t duebox_push(const duebox_follow_up *job) {
  duebox_builder head = {0};
  bool fits = duebox_add_line_(&head, DUEBOX(""), DUEBOX("topic"), job->topic);
  if (job->id.at) fits = fits && duebox_add_line_(&head, DUEBOX(""), DUEBOX("id"), job->id);
  if (job->priority.at) fits = fits && duebox_add_line_(&head, DUEBOX(""), DUEBOX("priority"), job->priority);
  if (job->key.at) fits = fits && duebox_add_line_(&head, DUEBOX(""), DUEBOX("key"), job->key);
  for (uint32_t i = 0; i < job->header_count; i++) {
    fits = fits && duebox_add_line_(&head, DUEBOX("h."), job->headers[i].name, job->headers[i].value);
  }
  if (!fits) return DUEBOX_INVALID;
  duebox_add_number_(&head, DUEBOX("delay-ms"), job->delay_ms);
  duebox_add_number_(&head, DUEBOX("due-at-ms"), job->due_at_ms);
  duebox_add_number_(&head, DUEBOX("ttr-ms"), job->ttr_ms);
  duebox_add_number_(&head, DUEBOX("max-attempts"), job->max_attempts);
  duebox_add_number_(&head, DUEBOX("ttl-ms"), job->ttl_ms);
  return duebox_v1_push(head.at, head.length, job->payload.at, job->payload.length);
}

/* Why a push was refused. */
DUEBOX_UNUSED static duebox_text duebox_push_error(int32_t code) {
  if (code == DUEBOX_DENIED) return DUEBOX("the handler may not push to this topic; sandbox.push grants it");
  if (code == DUEBOX_TOO_LARGE) return DUEBOX("there are over 100 follow-ups, over 4 MiB of them, or one has a head over 16 KiB");
  return DUEBOX("the follow-up has an invalid name or value");
}

/* --- the store: sandbox.kv --------------------------------------------------------------------------------------- */

/* When duebox_kv_set() writes: always, if the key is absent, or if nobody wrote it since this job's get. */
enum { DUEBOX_ALWAYS = 0, DUEBOX_IF_ABSENT = 1, DUEBOX_IF_UNCHANGED = 2 };

/* 0 and the value, DUEBOX_NOT_FOUND, or an error that duebox_kv_error() explains. */
DUEBOX_UNUSED static int32_t duebox_kv_get(duebox_text key, duebox_text *value) {
  for (uint32_t capacity = 512;;) {
    char *to = duebox_alloc(capacity);
    int32_t length = duebox_v1_kv_get(key.at, key.length, to, capacity);
    *value = length < 0 ? DUEBOX_NONE : (duebox_text){to, (uint32_t)length};
    if (length < 0 || (uint32_t)length <= capacity) return length < 0 ? length : 0;
    capacity = (uint32_t)length;
  }
}

/* 0, DUEBOX_CONFLICT if the mode forbids it, or an error. A time to live of 0 means none. */
DUEBOX_UNUSED static int32_t duebox_kv_set(duebox_text key, duebox_text value, int64_t ttl_ms, int32_t mode) {
  return duebox_v1_kv_set(key.at, key.length, value.at, value.length, ttl_ms, mode);
}

/* 0, DUEBOX_NOT_FOUND, or an error. */
DUEBOX_UNUSED static int32_t duebox_kv_delete(duebox_text key) { return duebox_v1_kv_delete(key.at, key.length); }

/* Adds to a number, 0 if the key is absent. 0 and the sum, or an error. */
DUEBOX_UNUSED static int32_t duebox_kv_add(duebox_text key, int64_t delta, int64_t *sum) {
  return duebox_v1_kv_add(key.at, key.length, delta, sum);
}

/* Why a call to the store failed. */
DUEBOX_UNUSED static duebox_text duebox_kv_error(int32_t code) {
  if (code == DUEBOX_TOO_LARGE) return DUEBOX("the value is over 64 KiB, or the topic's store is full");
  if (code == DUEBOX_UNAVAILABLE) return DUEBOX("the topic's store cannot be reached");
  return DUEBOX("a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is a 64-bit integer");
}

#endif
