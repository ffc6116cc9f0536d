package client

import (
	"context"
	"testing"

	"github.com/placed-board/placed/board"
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
