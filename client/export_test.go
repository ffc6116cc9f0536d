package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"

	"github.com/placed-board/placed/board"
)

// StartExampleNode starts a node for the examples, on loopback: every placement is published at once, and its admin API
// knows settings. The examples would say "http://localhost:8080" instead.
func StartExampleNode() (url string, stop func()) {
	n := newFakeNode(nil)
	n.instant = true
	mux := n.handler()
	record := board.SettingsRecord{Settings: n.b.settings}
	mux.HandleFunc("GET /admin/v1/settings", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(record) })
	mux.HandleFunc("PUT /admin/v1/settings", func(w http.ResponseWriter, r *http.Request) {
		in := struct {
			Base    uint64
			Patch   SettingsPatch
			By, Why string
		}{}
		_ = json.NewDecoder(r.Body).Decode(&in)
		if in.Base != record.Version {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(Problem{Title: "The settings were changed since: read them again.", Code: "conflict"})
			return
		}
		record.Version++
		record.CooldownMs, record.By, record.Why = *in.Patch.CooldownMs, in.By, in.Why
		_ = json.NewEncoder(w).Encode(record)
	})
	s := httptest.NewServer(mux)
	return s.URL, s.Close
}
