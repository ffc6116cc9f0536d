package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/placed-board/placed/board"
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
