package main

import (
	"fmt"
	"strings"
)

// A message in the format of the platform's API.
type message struct {
	Recipient string `json:"recipient"`
	Locale    string `json:"locale"`
	Subject   string `json:"subject"`
	Text      string `json:"text"`
}

// A wording of the message. The subject contains the shop's name. The text contains the owner, the shop and
// the days since it opened, in this order or by index.
type wording struct{ subject, owner, text string }

var wordings = map[string]wording{
	"en": {
		subject: "%s is open, and waiting for its first goods",
		owner:   "shop owner",
		text: "Dear %[1]s,\n\n%[2]s has been open for %[3]s, and has no goods yet. The first one " +
			"takes five minutes: a name, a price, a picture.\n\nIf anything is in the way, reply to " +
			"this message.",
	},
	"de": {
		subject: "%s ist offen und wartet auf die ersten Waren",
		owner:   "Inhaberin, lieber Inhaber",
		text: "Guten Tag %[1]s,\n\n%[2]s ist seit %[3]s offen und hat noch keine Waren. Die erste " +
			"ist in fünf Minuten angelegt: ein Name, ein Preis, ein Bild.\n\nFalls etwas im Weg " +
			"steht, antworten Sie auf diese Nachricht.",
	},
	"zh": {
		subject: "%s 已开业，等待上架第一件商品",
		owner:   "店主",
		text: "%[1]s，您好：\n\n%[2]s 已开业%[3]s，还没有商品。上架第一件商品只需五分钟：名称、价格、" +
			"图片。\n\n如有任何问题，请直接回复此邮件。",
	},
}

// compose writes the message in the shop's language, or in English if there is no wording in that language.
func compose(shop *shop, days int64) message {
	language, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(shop.Locale), "_", "-"), "-")
	words, known := wordings[language]
	if !known {
		language, words = "en", wordings["en"]
	}
	owner := shop.Owner.Name
	if owner == "" {
		owner = words.owner
	}
	return message{
		Recipient: shop.Owner.Email,
		Locale:    language,
		Subject:   fmt.Sprintf(words.subject, shop.Name),
		Text:      fmt.Sprintf(words.text, owner, shop.Name, span(language, days)),
	}
}

// span is a number of days, at least one, as text.
func span(language string, days int64) string {
	days = max(1, days)
	switch {
	case language == "zh":
		return fmt.Sprintf(" %d 天", days)
	case language == "de" && days == 1:
		return "einem Tag"
	case language == "de":
		return fmt.Sprintf("%d Tagen", days)
	case days == 1:
		return "a day"
	default:
		return fmt.Sprintf("%d days", days)
	}
}
