package duebox

import (
	"maps"
	"strings"
	"unicode"
)

// redirected is the request that a redirect leads to (RFC 9110, 15.4), and whether the response is a redirect
// that can be followed. Credentials are sent on only if scheme, host and port are written as before, except
// for case. A doubtful target counts as another origin or is not followed. The host checks each hop against
// the grant anew.
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

// target resolves a Location against base into an absolute URL without fragment, and reports whether it
// could. It does not use net/url, whose initialisation would slow the start of every handler. The host
// resolves dot segments in the path.
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

// hasScheme reports whether it begins with a scheme of any kind.
func hasScheme(location string) bool {
	scheme, _, found := strings.Cut(location, ":")
	isLetter := func(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	foreign := func(c rune) bool { return !isLetter(c) && !strings.ContainsRune("0123456789+-.", c) }
	return found && scheme != "" && isLetter(rune(scheme[0])) && !strings.ContainsFunc(scheme, foreign)
}

// origin is scheme, host and port of an absolute http or https URL as they are written; empty for anything
// else, such as a URL without a host.
func origin(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return ""
	}
	host := strings.IndexAny(rest, "/?#\\")
	if host < 0 {
		host = len(rest)
	}
	name := rest[strings.LastIndex(rest[:host], "@")+1 : host]
	if name == "" || name[0] == ':' {
		return ""
	}
	return url[:len(url)-len(rest)+host]
}
