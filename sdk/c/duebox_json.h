/*
 * A strict reader and a writer of JSON for C handlers. The reader copies nothing but strings with escapes.
 *
 *     duebox_text name, payload = duebox_payload();
 *     if (!duebox_json_is_valid(payload)) return duebox_drop(DUEBOX("the payload is not JSON"));
 *     if (!duebox_json_string(duebox_json_get(payload, DUEBOX("name")), &name)) return duebox_drop(DUEBOX("no name"));
 *
 * A value is the text between its first and its last byte. Look at a document with duebox_json_is_valid() first.
 *
 * The writer puts one value together in a builder, which has nothing else in it. It writes the commas:
 *
 *     duebox_builder json = {0};
 *     duebox_json_open(&json, '{');
 *     duebox_json_key(&json, DUEBOX("name"));
 *     duebox_json_add_string(&json, name);
 *     duebox_json_close(&json, '}');
 *     duebox_set_result(duebox_built(&json));
 */
#ifndef DUEBOX_JSON_H
#define DUEBOX_JSON_H

#include "duebox.h"

/* How deep arrays and objects may be nested. */
#define DUEBOX_JSON_DEPTH 64

DUEBOX_UNUSED static uint32_t duebox_json_blank_(duebox_text text, uint32_t at) {
  while (at < text.length && (text.at[at] == ' ' || text.at[at] == '\t' || text.at[at] == '\n' || text.at[at] == '\r')) at++;
  return at;
}

DUEBOX_UNUSED static char duebox_json_peek_(duebox_text text, uint32_t at) { return at < text.length ? text.at[at] : 0; }

/* The end of a run of digits. */
DUEBOX_UNUSED static uint32_t duebox_json_digits_(duebox_text text, uint32_t at) {
  while (duebox_json_peek_(text, at) >= '0' && duebox_json_peek_(text, at) <= '9') at++;
  return at;
}

/* Each returns where a value ends; 0 if there is none. */
DUEBOX_UNUSED static uint32_t duebox_json_number_end_(duebox_text text, uint32_t at) {
  if (duebox_json_peek_(text, at) == '-') at++;
  uint32_t end = duebox_json_digits_(text, at);
  if (end == at || (text.at[at] == '0' && end > at + 1)) return 0;
  if (duebox_json_peek_(text, end) == '.') {
    at = end + 1;
    if ((end = duebox_json_digits_(text, at)) == at) return 0;
  }
  if ((duebox_json_peek_(text, end) | 32) == 'e') {
    at = end + 1;
    if (duebox_json_peek_(text, at) == '+' || duebox_json_peek_(text, at) == '-') at++;
    if ((end = duebox_json_digits_(text, at)) == at) return 0;
  }
  return end;
}

/* The four digits of an escape; -1 if they are not. */
DUEBOX_UNUSED static int32_t duebox_json_hex_(duebox_text text, uint32_t at) {
  int32_t code = 0;
  for (uint32_t i = at; i < at + 4; i++) {
    char c = duebox_json_peek_(text, i), lower = c | 32;
    if (c >= '0' && c <= '9') code = code * 16 + (c - '0');
    else if (lower >= 'a' && lower <= 'f') code = code * 16 + (lower - 'a' + 10);
    else return -1;
  }
  return code;
}

DUEBOX_UNUSED static uint32_t duebox_json_string_end_(duebox_text text, uint32_t at) {
  if (duebox_json_peek_(text, at) != '"') return 0;
  for (at++; at < text.length; at++) {
    unsigned char c = (unsigned char)text.at[at];
    if (c == '"') return at + 1;
    if (c < ' ') return 0;
    if (c != '\\') continue;
    char escape = duebox_json_peek_(text, ++at);
    if (escape == 'u') {
      if (duebox_json_hex_(text, at + 1) < 0) return 0;
      at += 4;
    } else if (escape == 0 || duebox_find(DUEBOX("\"\\/bfnrt"), escape) == 8) {
      return 0;
    }
  }
  return 0;
}

DUEBOX_UNUSED static uint32_t duebox_json_end_(duebox_text text, uint32_t at, uint32_t depth) {
  char first = duebox_json_peek_(text, at);
  if (first == '"') return duebox_json_string_end_(text, at);
  if (first == '-' || (first >= '0' && first <= '9')) return duebox_json_number_end_(text, at);
  if (duebox_equal(duebox_slice(text, at, at + 4), DUEBOX("true"))) return at + 4;
  if (duebox_equal(duebox_slice(text, at, at + 4), DUEBOX("null"))) return at + 4;
  if (duebox_equal(duebox_slice(text, at, at + 5), DUEBOX("false"))) return at + 5;
  if ((first != '[' && first != '{') || depth == DUEBOX_JSON_DEPTH) return 0;
  char close = first == '[' ? ']' : '}';
  at = duebox_json_blank_(text, at + 1);
  if (duebox_json_peek_(text, at) == close) return at + 1;
  for (;;) {
    if (first == '{') {
      if ((at = duebox_json_string_end_(text, at)) == 0) return 0;
      at = duebox_json_blank_(text, at);
      if (duebox_json_peek_(text, at) != ':') return 0;
      at = duebox_json_blank_(text, at + 1);
    }
    if ((at = duebox_json_end_(text, at, depth + 1)) == 0) return 0;
    at = duebox_json_blank_(text, at);
    char next = duebox_json_peek_(text, at);
    if (next == close) return at + 1;
    if (next != ',') return 0;
    at = duebox_json_blank_(text, at + 1);
  }
}

/* Whether the text is one JSON value in UTF-8, and nothing else. */
DUEBOX_UNUSED static bool duebox_json_is_valid(duebox_text text) {
  uint32_t end = duebox_json_end_(text, duebox_json_blank_(text, 0), 0);
  return end > 0 && duebox_json_blank_(text, end) == text.length && duebox_is_utf8(text);
}

/* Takes the next element of an array, or the next field of an object with its name; false at the end. Start with `at` 0. */
DUEBOX_UNUSED static bool duebox_json_next(duebox_text value, uint32_t *at, duebox_text *name, duebox_text *element) {
  uint32_t from = *at == 0 ? duebox_json_blank_(value, 0) : *at;
  char before = duebox_json_peek_(value, from);
  bool starts = *at == 0 && (before == '[' || before == '{');
  if (!starts && (*at == 0 || before != ',')) return false;
  from = duebox_json_blank_(value, from + 1);
  if (duebox_json_peek_(value, from) == ']' || duebox_json_peek_(value, from) == '}') return false;
  uint32_t end = duebox_json_end_(value, from, 0);
  uint32_t colon = duebox_json_blank_(value, end);
  *name = DUEBOX_NONE;
  if (end > 0 && duebox_json_peek_(value, colon) == ':') {
    *name = duebox_slice(value, from, end);
    from = duebox_json_blank_(value, colon + 1);
    end = duebox_json_end_(value, from, 0);
  }
  if (end == 0) return false;
  *element = duebox_slice(value, from, end);
  *at = duebox_json_blank_(value, end);
  return true;
}

DUEBOX_UNUSED static void duebox_json_add_code_(duebox_builder *text, uint32_t code) {
  char bytes[4];
  uint32_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
  bytes[0] = (char)(leads[more] | (code >> (6 * more)));
  for (uint32_t i = 1; i <= more; i++) bytes[i] = (char)(0x80 | ((code >> (6 * (more - i))) & 0x3f));
  duebox_add(text, (duebox_text){bytes, more + 1});
}

/* The text of a string, with its escapes resolved; false if the value is not a string. */
DUEBOX_UNUSED static bool duebox_json_string(duebox_text value, duebox_text *text) {
  if (value.at == NULL || duebox_json_string_end_(value, 0) != value.length || value.length == 0) return false;
  value = duebox_slice(value, 1, value.length - 1);
  *text = value;
  if (duebox_find(value, '\\') == value.length) return true;
  duebox_builder all = {0};
  for (uint32_t at = 0; at < value.length; at++) {
    char c = value.at[at];
    if (c != '\\') {
      duebox_add(&all, (duebox_text){&c, 1});
      continue;
    }
    c = value.at[++at];
    uint32_t known = duebox_find(DUEBOX("bfnrt"), c);
    if (c != 'u') {
      c = known < 5 ? "\b\f\n\r\t"[known] : c;
      duebox_add(&all, (duebox_text){&c, 1});
      continue;
    }
    int32_t code = duebox_json_hex_(value, at + 1), low = duebox_json_hex_(value, at + 7);
    at += 4;
    bool is_pair = code >= 0xd800 && code < 0xdc00 && duebox_json_peek_(value, at + 1) == '\\' && low >= 0xdc00 && low < 0xe000;
    if (is_pair) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      at += 6;
    }
    duebox_json_add_code_(&all, code >= 0xd800 && code < 0xe000 ? 0xfffd : (uint32_t)code);
  }
  *text = duebox_built(&all);
  return true;
}

/* The last field of this name in an object; none if there is none. */
DUEBOX_UNUSED static duebox_text duebox_json_get(duebox_text object, duebox_text wanted) {
  duebox_text name, text, value, found = DUEBOX_NONE;
  for (uint32_t at = 0; duebox_json_next(object, &at, &name, &value);) {
    if (duebox_json_string(name, &text) && duebox_equal(text, wanted)) found = value;
  }
  return found;
}

/* An integer; false if the value is not a number, has a fraction or an exponent, or exceeds 64 bits. */
DUEBOX_UNUSED static bool duebox_json_int(duebox_text value, int64_t *number) {
  return value.at != NULL && duebox_to_int(value, number);
}

/* Whether the value is a number. Its text is the value itself. */
DUEBOX_UNUSED static bool duebox_json_is_number(duebox_text value) {
  return value.length > 0 && duebox_json_number_end_(value, 0) == value.length;
}

/* Whether the value is `true`; everything else is not. */
DUEBOX_UNUSED static bool duebox_json_is_true(duebox_text value) { return duebox_equal(value, DUEBOX("true")); }
/* Whether the value is `true` or `false`. */
DUEBOX_UNUSED static bool duebox_json_is_bool(duebox_text value) {
  return duebox_json_is_true(value) || duebox_equal(value, DUEBOX("false"));
}

/* Writes the comma before a value or a name, unless it is the first one of its array or object. */
DUEBOX_UNUSED static void duebox_json_comma_(duebox_builder *json) {
  char last = json->length > 0 ? json->at[json->length - 1] : '[';
  if (last != '[' && last != '{' && last != ':') duebox_add(json, DUEBOX(","));
}

/* Writes a value as it is: a value that was read, or a number with a fraction. */
DUEBOX_UNUSED static void duebox_json_add(duebox_builder *json, duebox_text value) {
  duebox_json_comma_(json);
  duebox_add(json, value);
}

/* Writes a string. The text is UTF-8. */
DUEBOX_UNUSED static void duebox_json_add_string(duebox_builder *json, duebox_text text) {
  duebox_json_add(json, DUEBOX("\""));
  for (uint32_t at = 0; at < text.length; at++) {
    unsigned char c = (unsigned char)text.at[at];
    if (c == '"' || c == '\\') duebox_add(json, DUEBOX("\\"));
    if (c >= ' ') {
      duebox_add(json, duebox_slice(text, at, at + 1));
      continue;
    }
    char escape[] = {'\\', 'u', '0', '0', (char)('0' + (c >> 4)), "0123456789abcdef"[c & 15]};
    duebox_add(json, (duebox_text){escape, sizeof(escape)});
  }
  duebox_add(json, DUEBOX("\""));
}

/* Writes an integer. */
DUEBOX_UNUSED static void duebox_json_add_int(duebox_builder *json, int64_t number) {
  duebox_json_comma_(json);
  duebox_add_int(json, number);
}

/* Writes `true` or `false`. */
DUEBOX_UNUSED static void duebox_json_add_bool(duebox_builder *json, bool truth) {
  duebox_json_add(json, truth ? DUEBOX("true") : DUEBOX("false"));
}

/* Writes `null`. */
DUEBOX_UNUSED static void duebox_json_add_null(duebox_builder *json) { duebox_json_add(json, DUEBOX("null")); }

/* Opens an array with '[' or an object with '{'. */
DUEBOX_UNUSED static void duebox_json_open(duebox_builder *json, char bracket) {
  duebox_json_add(json, (duebox_text){&bracket, 1});
}

/* Writes the name of an object's next field. Its value comes next. */
DUEBOX_UNUSED static void duebox_json_key(duebox_builder *json, duebox_text name) {
  duebox_json_add_string(json, name);
  duebox_add(json, DUEBOX(":"));
}

/* Closes an array with ']' or an object with '}'. */
DUEBOX_UNUSED static void duebox_json_close(duebox_builder *json, char bracket) {
  duebox_add(json, (duebox_text){&bracket, 1});
}

#endif
