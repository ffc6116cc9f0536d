package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// HistoryPage is a part of a history, the newest placement first.
type HistoryPage struct {
	Items []board.HistoryItem `json:"items"`
	Next  string              `json:"next"` // names the next older page; "" when these were the last
}

// TileHistory returns a page of a tile's placements: the newest one for page "", else the one that Next named. limit is 1 to
// 100, or 0 for the node's default. A page that is not one of this history is a *Problem with code "page".
func (a *API) TileHistory(ctx context.Context, x, y int, page string, limit int) (HistoryPage, error) {
	return a.history(ctx, fmt.Sprintf("/api/v1/tiles/%d/%d/history", x, y), page, limit)
}

// UserHistory does the same for a user's own placements. A placement of a moment ago may be missing for a second.
func (a *API) UserHistory(ctx context.Context, user board.UserID, page string, limit int) (HistoryPage, error) {
	return a.history(ctx, "/api/v1/users/"+url.PathEscape(string(user))+"/history", page, limit)
}

func (a *API) history(ctx context.Context, path, page string, limit int) (HistoryPage, error) {
	query := url.Values{}
	if page != "" {
		query.Set("page", page)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var out HistoryPage
	err := a.json(ctx, http.MethodGet, path, nil, nil, &out)
	return out, err
}

// BoardAt returns the board of an epoch (Config.Epoch) as it was at a time in Unix milliseconds, a multiple of 1,000. While
// the node makes another one it answers with a *Problem of code "busy" that says when to try again.
func (a *API) BoardAt(ctx context.Context, epoch string, atMs int64) (*wire.BoardBody, error) {
	b, err := a.bytes(ctx, fmt.Sprintf("/api/v1/past/%s/board?at_ms=%d", epoch, atMs))
	if err != nil {
		return nil, err
	}
	body, err := wire.DecodeBoard(b)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return body, nil
}

// BoardPNGAt returns the same as a picture.
func (a *API) BoardPNGAt(ctx context.Context, epoch string, atMs int64) ([]byte, error) {
	return a.bytes(ctx, fmt.Sprintf("/api/v1/past/%s/board.png?at_ms=%d", epoch, atMs))
}

// HeatPNG returns a picture of where people placed in the last 1 to 1,440 minutes.
func (a *API) HeatPNG(ctx context.Context, minutes int) ([]byte, error) {
	return a.bytes(ctx, fmt.Sprintf("/api/v1/heat.png?minutes=%d", minutes))
}

func (a *API) bytes(ctx context.Context, path string) ([]byte, error) {
	resp, err := a.do(ctx, http.MethodGet, path, http.Header{}, nil) // without the token: the answer is everybody's
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := readAll(io.LimitReader(resp.Body, boardBytesMax), nil)
	if err != nil {
		return nil, fmt.Errorf("client: GET %s: %w", path, err)
	}
	return b, nil
}
