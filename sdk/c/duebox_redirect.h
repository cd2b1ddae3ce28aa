/*
 * Where a redirect leads to; duebox_http.h uses it.
 *
 * Invariant: a doubtful target is not followed and counts as another origin. The host checks each hop against the grant
 * anew.
 */
#ifndef DUEBOX_REDIRECT_H
#define DUEBOX_REDIRECT_H

#include "duebox.h"

/* A letter in lower case. */
DUEBOX_UNUSED static char duebox_lower_(char letter) { return letter >= 'A' && letter <= 'Z' ? letter | 32 : letter; }

/* Whether two texts are the same, upper and lower case apart. */
DUEBOX_UNUSED static bool duebox_equal_fold_(duebox_text a, duebox_text b) {
  if (a.length != b.length) return false;
  for (uint32_t i = 0; i < a.length; i++) {
    if (duebox_lower_(a.at[i]) != duebox_lower_(b.at[i])) return false;
  }
  return true;
}

/* Whether a text begins with another one, upper and lower case apart. */
DUEBOX_UNUSED static bool duebox_begins_(duebox_text text, duebox_text start) {
  return duebox_equal_fold_(duebox_slice(text, 0, start.length), start);
}

/* Scheme, host and port of an absolute http or https URL as they are written; empty for anything else. */
DUEBOX_UNUSED static duebox_text duebox_origin_(duebox_text url) {
  uint32_t start = duebox_begins_(url, DUEBOX("http://")) ? 7 : duebox_begins_(url, DUEBOX("https://")) ? 8 : 0;
  uint32_t end = start, host = start;
  for (; end < url.length && duebox_find(DUEBOX("/?#\\"), url.at[end]) == 4; end++) {
    if (url.at[end] == '@') host = end + 1;
  }
  bool has_host = start > 0 && host < end && url.at[host] != ':';
  return has_host ? duebox_slice(url, 0, end) : DUEBOX("");
}

/* Whether a location begins with a scheme of any kind. */
DUEBOX_UNUSED static bool duebox_has_scheme_(duebox_text location) {
  uint32_t colon = duebox_find(location, ':');
  for (uint32_t i = 0; i < colon; i++) {
    char lower = location.at[i] | 32;
    bool is_letter = lower >= 'a' && lower <= 'z';
    if (!is_letter && (i == 0 || duebox_find(DUEBOX("0123456789+-."), location.at[i]) == 13)) return false;
  }
  return colon > 0 && colon < location.length;
}

/* The length of a path up to its last slash, and with it. */
DUEBOX_UNUSED static uint32_t duebox_folder_(duebox_text path) {
  uint32_t end = path.length;
  while (end > 0 && path.at[end - 1] != '/') end--;
  return end;
}

/* Resolves a location against a URL into an absolute URL without a fragment; none if it cannot. */
DUEBOX_UNUSED static duebox_text duebox_target_(duebox_text base, duebox_text location) {
  for (uint32_t i = 0; i < location.length; i++) {
    unsigned char c = (unsigned char)location.at[i];
    if (c <= ' ' || c == '\\' || c == 0x7f) return DUEBOX_NONE;
  }
  location = duebox_slice(location, 0, duebox_find(location, '#'));
  base = duebox_slice(base, 0, duebox_find(base, '#'));
  duebox_text root = duebox_origin_(base);
  duebox_text path = duebox_slice(base, root.length, duebox_find(base, '?'));
  duebox_builder url = {0};
  if (duebox_has_scheme_(location)) {
    /* It is whole. */
  } else if (duebox_begins_(location, DUEBOX("//"))) {
    duebox_add(&url, duebox_slice(root, 0, duebox_find(root, ':') + 1));
  } else if (location.length == 0) {
    duebox_add(&url, base);
  } else {
    duebox_add(&url, root);
    if (location.at[0] == '?') duebox_add(&url, path);
    else if (location.at[0] != '/') duebox_add(&url, path.length > 0 ? duebox_slice(path, 0, duebox_folder_(path)) : DUEBOX("/"));
  }
  duebox_add(&url, location);
  return duebox_origin_(duebox_built(&url)).length > 0 ? duebox_built(&url) : DUEBOX_NONE;
}

#endif
