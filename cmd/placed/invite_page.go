package main

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	goqr "github.com/piglig/go-qr"

	"github.com/placed-board/placed/client"
)

// invitePage is a page to print and cut up: it asks nobody for anything.
var invitePage = template.Must(template.New("invites").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<title>Invites</title>
<style>
body { font: 11pt/1.3 sans-serif; margin: 8mm; }
main { display: grid; grid-template-columns: repeat(3, 1fr); }
section { border: 1px dashed #999; padding: 4mm; text-align: center; break-inside: avoid; }
svg { width: 38mm; height: 38mm; }
b { display: block; min-height: 1.3em; }
small { display: block; font-size: 7pt; overflow-wrap: anywhere; }
</style>
</head>
<body>
<main>
{{range .}}<section>{{.Code}}<b>{{.Name}}</b>Scan it, or open the link. It is yours alone.<small>{{.Link}}</small></section>
{{end}}</main>
</body>
</html>
`))

// writeInvitePage writes a page with a QR code for each invite.
func writeInvitePage(w io.Writer, invites []client.Invitation) error {
	type card struct {
		Name, Link string
		Code       template.HTML
	}
	cards := make([]card, 0, len(invites))
	for _, i := range invites {
		code, err := svgOf(i.Link)
		if err != nil {
			return fmt.Errorf("QR code of invite %s: %w", i.ID, err)
		}
		cards = append(cards, card{Name: string(i.Name), Link: i.Link, Code: template.HTML(code)}) // numbers and fixed text
	}
	return invitePage.Execute(w, cards)
}

// quietModules is the white border that scanners need.
const quietModules = 4

// svgOf draws the text as a QR code.
func svgOf(text string) (string, error) {
	code, err := goqr.EncodeText(text, goqr.Medium)
	if err != nil {
		return "", err
	}
	var path strings.Builder
	for y := range code.Size() {
		for x := range code.Size() {
			if code.Module(x, y) {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+quietModules, y+quietModules)
			}
		}
	}
	side := code.Size() + 2*quietModules
	return fmt.Sprintf(`<svg viewBox="0 0 %d %d" role="img" aria-label="QR code"><rect width="%d" height="%d" fill="#fff"/><path d="%s"/></svg>`,
		side, side, side, side, path.String()), nil
}
