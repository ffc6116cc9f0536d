package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

func TestHistory(t *testing.T) {
	s, _ := answers(t, map[string]string{
		"GET /api/v1/tiles/3/4/history":                       `{"items":[{"x":3,"y":4,"colour":5,"user":"bob","at_ms":9,"kind":"user","sequence":2}],"next":"P1"}`,
		"GET /api/v1/users/ada%20l%2F/history?limit=7&page=P": `{"items":[]}`,
	})
	ctx, api := context.Background(), &API{URL: s.URL}
	page, err := api.TileHistory(ctx, 3, 4, "", 0)
	want := board.HistoryItem{X: 3, Y: 4, Colour: 5, User: "bob", AtMs: 9, Kind: "user", Sequence: 2}
	if err != nil || page.Next != "P1" || len(page.Items) != 1 || page.Items[0] != want {
		t.Errorf("tile: %+v, %v", page, err)
	}
	if page, err = api.UserHistory(ctx, "ada l/", "P", 7); err != nil || page.Next != "" || len(page.Items) != 0 {
		t.Errorf("user: %+v, %v", page, err)
	}
}

func TestPast(t *testing.T) {
	body := wire.AppendBoard(nil, &wire.BoardBody{Epoch: 9, Width: 60, Height: 60, ColourWidth: board.Width4})
	s, _ := answers(t, map[string]string{
		"GET /api/v1/past/00ff/board?at_ms=5000":     string(body),
		"GET /api/v1/past/00ff/board.png?at_ms=5000": "picture",
		"GET /api/v1/past/00ff/board?at_ms=6000":     `503 problem {"code":"busy","retry_after_ms":2000}`,
		"GET /api/v1/heat.png?minutes=5":             "heat",
	})
	ctx, api := context.Background(), &API{URL: s.URL}
	if b, err := api.BoardAt(ctx, "00ff", 5000); err != nil || b.Epoch != 9 || b.Width != 60 {
		t.Errorf("board: %+v, %v", b, err)
	}
	_, err := api.BoardAt(ctx, "00ff", 6000)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != "busy" || p.RetryAfter() != 2*time.Second {
		t.Errorf("busy: %v", err)
	}
	if b, err := api.BoardPNGAt(ctx, "00ff", 5000); err != nil || string(b) != "picture" {
		t.Errorf("picture: %q, %v", b, err)
	}
	if b, err := api.HeatPNG(ctx, 5); err != nil || string(b) != "heat" {
		t.Errorf("heat: %q, %v", b, err)
	}
}
