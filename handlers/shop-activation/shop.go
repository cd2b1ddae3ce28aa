package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"duebox.dev/duebox"
)

// A shop as the platform's event describes it. A shop that readShop returned has names that are safe in a log
// line, a valid address, and an opening time.
//
//	{"shop":{"id":"s-7","name":"Bramble & Co","locale":"de-AT","status":"open","goods":0,
//	 "opened_at":"2026-11-14T09:00:00Z","owner":{"name":"Ada","email":"ada@bramble.example"}}}
type shop struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Locale   string    `json:"locale"` // "de", "de-AT", "zh_CN" …; empty is English
	Status   string    `json:"status"` // "open" or "closed"
	Goods    *int64    `json:"goods"`
	OpenedAt time.Time `json:"opened_at"`
	Owner    struct {
		Name  string `json:"name"`
		Email string `json:"email"`
	} `json:"owner"`
}

func readShop(job *duebox.Job) (*shop, error) {
	var event struct {
		Shop *shop `json:"shop"`
	}
	if err := job.JSON(&event); err != nil {
		return nil, err
	}
	if event.Shop == nil {
		return nil, errors.New(`the field "shop" is missing`)
	}
	return event.Shop, event.Shop.check()
}

func (s *shop) check() error {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/#", r)
	}
	switch {
	case s.ID == "" || len(s.ID) > 64 || strings.ContainsFunc(s.ID, odd):
		return fmt.Errorf("the shop's id %q is not a name of 1 to 64 letters, digits or -_.:/#", s.ID)
	case !isLine(s.Name):
		return fmt.Errorf("the shop's name %q is not a line of 1 to 200 bytes", s.Name)
	case s.Status != "open" && s.Status != "closed":
		return fmt.Errorf("the shop's status %q is neither open nor closed", s.Status)
	case s.Goods == nil:
		return errors.New(`the field "shop.goods" is missing`)
	case *s.Goods < 0:
		return fmt.Errorf("the shop has %d goods; it must be 0 or more", *s.Goods)
	case s.OpenedAt.IsZero():
		return errors.New(`the field "shop.opened_at" is missing`)
	case s.Owner.Name != "" && !isLine(s.Owner.Name):
		return fmt.Errorf("the owner's name %q is not a line of 1 to 200 bytes", s.Owner.Name)
	case !isAddress(s.Owner.Email):
		return fmt.Errorf("the owner's address %q is not an e-mail address", s.Owner.Email)
	}
	return nil
}

// isLine reports whether a text may be in a header of a message.
func isLine(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= 200 && !strings.ContainsFunc(text, unicode.IsControl)
}

// isAddress reports whether a text looks like an e-mail address. Only sending mail shows whether it is one.
func isAddress(text string) bool {
	name, domain, found := strings.Cut(text, "@")
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`@<>(),;:"\[]`, r)
	}
	return found && name != "" && strings.Contains(strings.Trim(domain, "."), ".") &&
		len(text) <= 254 && !strings.ContainsFunc(name, odd) && !strings.ContainsFunc(domain, odd)
}
