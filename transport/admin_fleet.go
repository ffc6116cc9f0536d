package transport

import (
	"errors"
	"net/http"

	"github.com/placed-board/placed/board"
)

// refusesPlaces reports whether placements are refused because the node drains and no other can place them.
func (s *Server) refusesPlaces() bool { return s.draining.Load() && !s.deps.Fleet.OthersServe() }

func (s *Server) adminCluster(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, "no-store", s.deps.Fleet.Cluster(r.Context()))
}

// errFeed says that the node's feed does not tell of the regions.
var errFeed = errors.New("the regions are not known now: try again")

func (s *Server) adminRegions(w http.ResponseWriter, r *http.Request) {
	regions := s.deps.Fleet.Regions(r.Context())
	if regions == nil {
		s.storeFailed(w, r, errFeed)
		return
	}
	writeJSON(w, http.StatusOK, "no-store", regions)
}

// adminDrain asks the process to give up what it owns, to part from its sessions and to end.
func (s *Server) adminDrain(w http.ResponseWriter, r *http.Request) {
	if s.deps.Drain == nil {
		s.askFailed(w, r, board.ErrRefused)
		return
	}
	s.log.Info("an operator asks for a drain", "operator", r.Header.Get(operatorHeader))
	s.deps.Drain()
	writeJSON(w, http.StatusAccepted, "no-store", struct {
		Draining bool `json:"draining"`
	}{true})
}
