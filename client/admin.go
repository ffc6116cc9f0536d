package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/placed-board/placed/board"
)

// Admin is a node's operators' API, on its admin listener. Errors of the node are *Problem, wrapped.
type Admin struct {
	URL        string // of the admin listener, as "http://localhost:8081"
	Token      string // sent as a bearer token
	By         string // who asks, for the audit
	HTTPClient *http.Client
}

// SettingsPatch names the settings to change; nil fields stay as they are. Lists are replaced as a whole.
type SettingsPatch = board.SettingsPatch

// PlannedChange is a change of settings for a time to come.
type PlannedChange struct {
	AtMs  int64         `json:"at_ms"` // Unix milliseconds
	Patch SettingsPatch `json:"patch"`
}

// SettingsChange is what makes the next version of the settings.
type SettingsChange struct {
	Base       uint64          `json:"base"`            // the version that it is made from
	Patch      *SettingsPatch  `json:"patch,omitempty"` // at once; nil: nothing
	PlanAdd    []PlannedChange `json:"plan_add,omitempty"`
	PlanRemove []string        `json:"plan_remove,omitempty"` // by board.PlannedChange.ID
	By         string          `json:"by,omitempty"`          // set by Change
	Why        string          `json:"why"`
}

// Settings returns the newest version of the settings.
func (a *Admin) Settings(ctx context.Context) (board.SettingsRecord, error) {
	var out board.SettingsRecord
	err := a.json(ctx, http.MethodGet, "/admin/v1/settings", nil, &out)
	return out, err
}

// SettingsHistory returns every version of the settings, with who, when and why.
func (a *Admin) SettingsHistory(ctx context.Context) ([]board.SettingsRecord, error) {
	var out []board.SettingsRecord
	err := a.json(ctx, http.MethodGet, "/admin/v1/settings/history", nil, &out)
	return out, err
}

// ChangeSettings makes the next version out of version base and the patch. It returns board.ErrConflict, wrapped, when base is
// not the newest any more: read the settings again. Impossible values are a *Problem whose Detail names them all.
func (a *Admin) ChangeSettings(ctx context.Context, base uint64, patch SettingsPatch, why string) (board.SettingsRecord, error) {
	return a.Change(ctx, SettingsChange{Base: base, Patch: &patch, Why: why})
}

// Change does the same with changes of the plan. What is planned and would be impossible by then is refused like impossible
// values.
func (a *Admin) Change(ctx context.Context, change SettingsChange) (board.SettingsRecord, error) {
	var out board.SettingsRecord
	change.By = a.By
	err := a.json(ctx, http.MethodPut, "/admin/v1/settings", change, &out)
	return out, conflict(err)
}

// Ban keeps a user from placing until a time in Unix milliseconds; board.BannedForever has no end. Placements that are
// charged already still land. A user that the board has never seen is refused; the short name of an anonymous one, "anon xk67", is
// taken for the one user whose name begins so. The one who is banned is returned.
func (a *Admin) Ban(ctx context.Context, user board.UserID, untilMs int64, why string) (board.UserID, error) {
	return a.ban(ctx, user, untilMs, why, false)
}

// BanUnseen does the same in advance, with a user that the board may never have seen.
func (a *Admin) BanUnseen(ctx context.Context, user board.UserID, untilMs int64, why string) (board.UserID, error) {
	return a.ban(ctx, user, untilMs, why, true)
}

// banSet is the answer to a ban, and to lifting one.
type banSet struct {
	User board.UserID `json:"user"`
}

func (a *Admin) ban(ctx context.Context, user board.UserID, untilMs int64, why string, unseen bool) (board.UserID, error) {
	var out banSet
	err := a.json(ctx, http.MethodPost, "/admin/v1/bans", struct {
		User    board.UserID `json:"user"`
		UntilMs int64        `json:"until_ms"`
		By      string       `json:"by,omitempty"`
		Why     string       `json:"why"`
		Unseen  bool         `json:"unseen,omitempty"`
	}{user, untilMs, a.By, why, unseen}, &out)
	return out.User, err
}

// Unban lifts a ban, of a user that is named as for Ban.
func (a *Admin) Unban(ctx context.Context, user board.UserID, why string) (board.UserID, error) {
	query := url.Values{"why": {why}}
	if a.By != "" {
		query.Set("by", a.By)
	}
	var out banSet
	err := a.json(ctx, http.MethodDelete, "/admin/v1/bans/"+url.PathEscape(string(user))+"?"+query.Encode(), nil, &out)
	return out.User, err
}

// Bans returns the newest ban of each user, lifted and ended ones included, the newest first.
func (a *Admin) Bans(ctx context.Context) ([]board.Ban, error) {
	var out []board.Ban
	err := a.json(ctx, http.MethodGet, "/admin/v1/bans", nil, &out)
	return out, err
}

// Clear starts a job that gives every tile of a rectangle colour 0; Jobs tells how far it is.
func (a *Admin) Clear(ctx context.Context, rect board.Rect, why string) (board.Job, error) {
	var out board.Job
	err := a.json(ctx, http.MethodPost, "/admin/v1/clear", struct {
		Rect board.Rect `json:"rect"`
		By   string     `json:"by,omitempty"`
		Why  string     `json:"why"`
	}{rect, a.By, why}, &out)
	return out, err
}

// Cluster returns the nodes of the board as the asked one sees them.
func (a *Admin) Cluster(ctx context.Context) (board.ClusterReport, error) {
	var out board.ClusterReport
	err := a.json(ctx, http.MethodGet, "/admin/v1/cluster", nil, &out)
	return out, err
}

// DrainNode asks the node to give up what it owns, to part from its sessions and to end; it returns at once.
func (a *Admin) DrainNode(ctx context.Context) error {
	return a.json(ctx, http.MethodPost, "/admin/v1/cluster/drain", struct{}{}, &struct{}{})
}

// Regions returns every region of the board, row by row.
func (a *Admin) Regions(ctx context.Context) ([]board.RegionReport, error) {
	var out []board.RegionReport
	err := a.json(ctx, http.MethodGet, "/admin/v1/regions", nil, &out)
	return out, err
}

// Backup returns an archive of the board as it is now; the caller closes it. One that ends without its checksums was cut short.
// It takes as long as it takes: the context bounds it.
func (a *Admin) Backup(ctx context.Context) (io.ReadCloser, error) {
	query := url.Values{}
	if a.By != "" {
		query.Set("by", a.By)
	}
	resp, err := a.patient().do(ctx, http.MethodPost, "/admin/v1/backup?"+query.Encode(), a.header(), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Reset replaces the board of an epoch (16 hexadecimal digits, as Status tells it) by an empty one under a new epoch, with the
// same settings. The node starts anew.
func (a *Admin) Reset(ctx context.Context, epoch, why string) error {
	return a.json(ctx, http.MethodPost, "/admin/v1/reset", struct {
		Epoch string `json:"epoch"`
		By    string `json:"by,omitempty"`
		Why   string `json:"why"`
	}{epoch, a.By, why}, nil)
}

// RollbackRequest says what is taken back: what a user placed, what was placed in a rectangle, or both, since a time; or what a
// job wrote.
type RollbackRequest struct {
	User    board.UserID `json:"user,omitempty"`
	Rect    *board.Rect  `json:"rect,omitempty"`
	SinceMs int64        `json:"since_ms,omitempty"` // Unix milliseconds
	Undo    string       `json:"undo,omitempty"`     // a job; then nothing else
	Why     string       `json:"why"`
}

// RollbackPlan is what a roll-back would do, with a picture of the result; none of a rectangle that is too large.
type RollbackPlan struct {
	board.RollbackPlan
	PNG []byte `json:"png"`
}

type rollbackBody struct {
	RollbackRequest
	DryRun bool   `json:"dry_run"`
	By     string `json:"by,omitempty"`
}

// PlanRollback tells what a roll-back would do, and does nothing.
func (a *Admin) PlanRollback(ctx context.Context, r RollbackRequest) (RollbackPlan, error) {
	var out RollbackPlan
	err := a.json(ctx, http.MethodPost, "/admin/v1/rollback", rollbackBody{r, true, a.By}, &out)
	return out, err
}

// Rollback starts a job that gives tiles the colours back that they had; tiles that somebody else has painted since stay.
func (a *Admin) Rollback(ctx context.Context, r RollbackRequest) (board.Job, error) {
	var out board.Job
	err := a.json(ctx, http.MethodPost, "/admin/v1/rollback", rollbackBody{r, false, a.By}, &out)
	return out, err
}

// Jobs returns the operators' writes under way and lately done.
func (a *Admin) Jobs(ctx context.Context) ([]board.Job, error) {
	var out []board.Job
	err := a.json(ctx, http.MethodGet, "/admin/v1/jobs", nil, &out)
	return out, err
}

// Status returns where the node stands.
func (a *Admin) Status(ctx context.Context) (board.Status, error) {
	var out board.Status
	err := a.json(ctx, http.MethodGet, "/admin/v1/status", nil, &out)
	return out, err
}

// verifyLineBytesMax bounds a line of verify's answer: a report keeps at most 100 violations.
const verifyLineBytesMax = 1 << 20

// Verify has the node replay its journals and check the invariants I1-I6. progress (may be nil) hears of the blocks done. It
// takes as long as it takes: the context bounds it.
func (a *Admin) Verify(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error) {
	resp, err := a.patient().do(ctx, http.MethodPost, "/admin/v1/verify", a.header(), nil)
	if err != nil {
		return board.VerifyReport{}, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, verifyLineBytesMax)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			Done   int                 `json:"done"`
			Total  int                 `json:"total"`
			Report *board.VerifyReport `json:"report"`
			Error  string              `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return board.VerifyReport{}, fmt.Errorf("client: verify: %w", err)
		}
		switch {
		case line.Error != "":
			return board.VerifyReport{}, errors.New("client: verify: " + line.Error)
		case line.Report != nil:
			// To the answer's end: only then may the next verify begin.
			_, err := io.Copy(io.Discard, resp.Body)
			return *line.Report, err
		case progress != nil:
			progress(line.Done, line.Total)
		}
	}
	if err := lines.Err(); err != nil {
		return board.VerifyReport{}, fmt.Errorf("client: verify: %w", err)
	}
	return board.VerifyReport{}, errors.New("client: verify: the answer ended without a report")
}

func (a *Admin) header() http.Header { return http.Header{"Authorization": {"Bearer " + a.Token}} }

func (a *Admin) api() *API {
	hc := a.HTTPClient
	if hc == nil {
		hc = sharedHTTP
	}
	return &API{URL: a.URL, HTTPClient: hc}
}

// patient returns an API without a timeout of its own.
func (a *Admin) patient() *API {
	api := a.api()
	hc := *api.HTTPClient
	hc.Timeout = 0
	api.HTTPClient = &hc
	return api
}

func (a *Admin) json(ctx context.Context, method, path string, in, out any) error {
	return a.api().json(ctx, method, path, a.header(), in, out)
}
