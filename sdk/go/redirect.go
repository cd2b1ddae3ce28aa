package duebox

import (
	"maps"
	"strings"
	"unicode"
)

// redirected is the request that a redirect asks for (RFC 9110, 15.4), and whether the answer is one that
// can be followed. Credentials go along only where scheme, host and port are written as before, but for
// case; whatever is doubtful counts as another origin, or is not followed at all. Whether a hop is allowed
// is the host's to say, which checks each anew.
func (r Request) redirected(response Response) (next Request, found bool) {
	switch response.Status {
	case 301, 302, 303, 307, 308:
	default:
		return r, false
	}
	locations := response.Headers["location"]
	if len(locations) == 0 {
		return r, false
	}
	next = r
	if next.URL, found = target(r.URL, locations[0]); !found {
		return r, false
	}
	next.Headers = maps.Clone(r.Headers)
	without := func(drop func(name string) bool) {
		maps.DeleteFunc(next.Headers, func(name, _ string) bool { return drop(strings.ToLower(name)) })
	}
	method := r.method()
	if response.Status == 303 && method != "HEAD" || response.Status < 303 && method == "POST" {
		next.Method, next.Body = "GET", nil
		without(func(name string) bool { return strings.HasPrefix(name, "content-") })
	}
	if !strings.EqualFold(origin(r.URL), origin(next.URL)) {
		without(func(name string) bool { return name == "authorization" || name == "cookie" })
	}
	return next, true
}

// target is the absolute URL of a Location as seen from base, without the part behind #, and whether there
// is one. It is not net/url's, whose setup would cost every handler time at its start. Dots in a path are
// left to the host.
func target(base, location string) (url string, found bool) {
	doubtful := func(c rune) bool { return c == '\\' || unicode.IsControl(c) || unicode.IsSpace(c) }
	if strings.ContainsFunc(location, doubtful) {
		return "", false
	}
	location, _, _ = strings.Cut(location, "#")
	base, _, _ = strings.Cut(base, "#")
	root := origin(base)
	path, _, _ := strings.Cut(base[len(root):], "?")
	switch {
	case hasScheme(location):
		url = location
	case strings.HasPrefix(location, "//"):
		scheme, _, _ := strings.Cut(root, ":")
		url = scheme + ":" + location
	case strings.HasPrefix(location, "/"):
		url = root + location
	case location == "":
		url = base
	case strings.HasPrefix(location, "?"):
		url = root + path + location
	default:
		url = root + "/" + strings.TrimPrefix(path[:strings.LastIndex(path, "/")+1], "/") + location
	}
	return url, origin(url) != ""
}

// hasScheme is whether it begins with a scheme, of whatever kind.
func hasScheme(location string) bool {
	scheme, _, found := strings.Cut(location, ":")
	isLetter := func(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	foreign := func(c rune) bool { return !isLetter(c) && !strings.ContainsRune("0123456789+-.", c) }
	return found && scheme != "" && isLetter(rune(scheme[0])) && !strings.ContainsFunc(scheme, foreign)
}

// origin is scheme, host and port of an absolute URL of http or https, as they are written; empty if it is
// none.
func origin(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return ""
	}
	host := strings.IndexAny(rest, "/?#\\")
	if host < 0 {
		host = len(rest)
	}
	if host == 0 {
		return ""
	}
	return url[:len(url)-len(rest)+host]
}
