package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// A bot that draws a picture, one tile a turn, and mends what others paint over.
func Example_bot() {
	url, stop := client.StartExampleNode()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	s, err := client.Dial(ctx, url, client.Options{Name: "heart-bot", Whole: true, Mirror: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := s.Live(ctx); err != nil { // until the mirror is the board
		log.Fatal(err)
	}
	const red = 5
	picture := []string{".X.X.", "XXXXX", "XXXXX", ".XXX.", "..X.."}
	placed := 0
	for y, row := range picture {
		for x, c := range row {
			at := board.Point{X: 100 + x, Y: 100 + y}
			if have, _ := s.Tile(at); c != 'X' || have == red {
				continue
			}
			if err := s.WaitReady(ctx); err != nil { // the cooldown
				log.Fatal(err)
			}
			outcome, err := s.Place(ctx, at, red) // with retries; a lost connection costs nothing
			if err != nil {
				log.Fatal(err)
			}
			if outcome.Verdict == board.VerdictRefused {
				log.Printf("%s: %s", at, outcome.Code.Refusal().Sentence)
				continue
			}
			placed++
		}
	}
	fmt.Println(placed, "tiles")
	// Output: 16 tiles
}
