package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/placed-board/placed/board"
)

// ExportQuery says what a node exports.
type ExportQuery struct {
	Format string      // csv (the shape of 2017), ndjson or png
	FromMs int64       // placements at this time or later, Unix milliseconds
	ToMs   int64       // before this time; 0: all
	Rect   *board.Rect // nil: everywhere
	Names  bool        // users keep their names; otherwise keyed hashes stand for them
	Key    []byte      // of the hashes; empty: a random one of the node
}

// Export writes what the node exports to w, as it comes, and returns how many placements there were (0 for a picture). An error
// means that w got a part of it, or nothing.
func (a *Admin) Export(ctx context.Context, ask ExportQuery, w io.Writer) (int64, error) {
	query := url.Values{"format": {ask.Format}, "from": {strconv.FormatInt(ask.FromMs, 10)}, "to": {strconv.FormatInt(ask.ToMs, 10)}}
	if r := ask.Rect; r != nil {
		query.Set("rect", fmt.Sprintf("%d,%d,%d,%d", r.X, r.Y, r.Width, r.Height))
	}
	if ask.Names {
		query.Set("names", "1")
	}
	header := a.header()
	if len(ask.Key) > 0 {
		header.Set("Placed-Pseudonym-Key", hex.EncodeToString(ask.Key))
	}
	api := a.api()
	hc := *api.HTTPClient
	hc.Timeout = 0
	api.HTTPClient = &hc
	resp, err := api.do(ctx, http.MethodGet, "/admin/v1/export?"+query.Encode(), header, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return 0, fmt.Errorf("client: export: %w", err)
	}
	n, err := strconv.ParseInt(resp.Trailer.Get("Placed-Placements"), 10, 64)
	if err != nil {
		return 0, errors.New("client: export: the answer ended early")
	}
	return n, nil
}
