package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/wire"
)

// A listener that hears of every placement and keeps no board.
func ExampleDial_listener() {
	url, stop := client.StartExampleNode()
	defer stop()
	ctx := context.Background()

	seen := make(chan wire.Tile, 1)
	s, err := client.Dial(ctx, url, client.Options{Whole: true, Hooks: client.Hooks{
		OnSection: func(_ client.FrameInfo, s *wire.Section) {
			for _, t := range s.Tiles {
				seen <- t // a listener with more to do hands over to another goroutine
			}
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := s.Live(ctx); err != nil {
		log.Fatal(err)
	}

	other, err := client.Dial(ctx, url, client.Options{Anonymous: true})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Place(ctx, board.Point{X: 2, Y: 1}, 7); err != nil {
		log.Fatal(err)
	}
	t := <-seen
	fmt.Println(board.ChunkID(0).Point(int(t.Index)), "got colour", t.Colour)
	// Output: (2,1) got colour 7
}

// The whole board by HTTP.
func ExampleAPI_Board() {
	url, stop := client.StartExampleNode()
	defer stop()
	ctx := context.Background()

	s, err := client.Dial(ctx, url, client.Options{Name: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Place(ctx, board.Point{X: 60, Y: 0}, 7); err != nil {
		log.Fatal(err)
	}
	api := client.API{URL: url}
	b, err := api.Board(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range b.Chunks {
		fmt.Printf("chunk in column %d, row %d: %d placements\n", c.Chunk.Col(), c.Chunk.Row(), c.Sequence)
	}
	// Output: chunk in column 1, row 0: 1 placements
}

// Settings are changed from the version that was read, so that nobody undoes another's change unseen.
func ExampleAdmin_ChangeSettings() {
	url, stop := client.StartExampleNode()
	defer stop()
	ctx := context.Background()

	admin := client.Admin{URL: url, Token: "from data-dir/admin-token", By: "ada"}
	now, err := admin.Settings(ctx)
	if err != nil {
		log.Fatal(err)
	}
	cooldownMs := int64(60_000)
	patch := client.SettingsPatch{CooldownMs: &cooldownMs}
	next, err := admin.ChangeSettings(ctx, now.Version, patch, "a quiet night")
	fmt.Println(next.Version, next.CooldownMs, next.By, err)
	_, err = admin.ChangeSettings(ctx, now.Version, patch, "again")
	fmt.Println(errors.Is(err, board.ErrConflict))
	// Output:
	// 2 60000 ada <nil>
	// true
}
