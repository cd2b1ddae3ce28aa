/*
 * What the conformance handlers in C share: the steps of a script, and lines of the log. tests/conformance/README.md
 * describes the steps.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include "duebox.h"

/* Takes the part of a text before a separator, and what is after it; all of it and nothing without one. */
DUEBOX_UNUSED static duebox_text before(duebox_text text, char separator, duebox_text *after) {
  uint32_t at = duebox_find(text, separator);
  *after = duebox_slice(text, at + 1, text.length);
  return duebox_slice(text, 0, at);
}

/* Takes the next step of a script, whose steps are separated by "; "; false at its end. */
DUEBOX_UNUSED static bool next_step(duebox_text *script, duebox_text *step, duebox_text *rest) {
  if (script->at == NULL) return false;
  uint32_t end = 0;
  while (end < script->length && !(script->at[end] == ';' && end + 1 < script->length && script->at[end + 1] == ' ')) end++;
  duebox_text line = duebox_slice(*script, 0, end);
  *script = end < script->length ? duebox_slice(*script, end + 2, script->length) : DUEBOX_NONE;
  *step = before(line, ' ', rest);
  return true;
}

DUEBOX_UNUSED static bool is(duebox_text text, const char *word) {
  uint32_t length = 0;
  while (word[length] != 0) length++;
  return duebox_equal(text, (duebox_text){word, length});
}

/* A number of the script, which is never malformed. */
DUEBOX_UNUSED static int64_t number(duebox_text text) {
  int64_t value = 0;
  if (!duebox_to_int(text, &value)) duebox_panic(DUEBOX("invalid number in the script"));
  return value;
}

/* A text of so many "x". */
DUEBOX_UNUSED static duebox_text of_x(int64_t size) {
  char *at = duebox_alloc((size_t)size);
  for (int64_t i = 0; i < size; i++) at[i] = 'x';
  return (duebox_text){at, (uint32_t)size};
}

/* The value of a step: "$" stands for the payload. */
DUEBOX_UNUSED static duebox_text or_payload(duebox_text value) { return is(value, "$") ? duebox_payload() : value; }

DUEBOX_UNUSED static void add(duebox_builder *line, const char *words) {
  uint32_t length = 0;
  while (words[length] != 0) length++;
  duebox_add(line, (duebox_text){words, length});
}

DUEBOX_UNUSED static void say(const char *words, duebox_text text) {
  duebox_builder line = {0};
  add(&line, words);
  duebox_add(&line, text);
  duebox_info(duebox_built(&line));
}

/* "KIND NAME=VALUE", or "KIND NAME absent". */
DUEBOX_UNUSED static void show(duebox_text kind, duebox_text name, duebox_text value) {
  duebox_builder line = {0};
  duebox_add(&line, kind);
  add(&line, " ");
  duebox_add(&line, name);
  add(&line, value.at ? "=" : " absent");
  duebox_add(&line, value);
  duebox_info(duebox_built(&line));
}

DUEBOX_UNUSED static void add_hex(duebox_builder *line, duebox_text bytes) {
  for (uint32_t i = 0; i < bytes.length; i++) {
    unsigned char byte = (unsigned char)bytes.at[i];
    char digits[] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    duebox_add(line, (duebox_text){digits, 2});
  }
}

/* A checksum that depends on every byte and on their order. */
DUEBOX_UNUSED static uint32_t sum(duebox_text bytes) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < bytes.length; i++) sum = sum * 31 + (unsigned char)bytes.at[i];
  return sum;
}

/* A verdict with a reason that is put together, such as 'unknown step "x"'. */
DUEBOX_UNUSED static duebox_text quoted(const char *words, duebox_text text, const char *after) {
  duebox_builder line = {0};
  add(&line, words);
  add(&line, "\"");
  duebox_add(&line, text);
  add(&line, "\"");
  add(&line, after);
  return duebox_built(&line);
}

#endif
