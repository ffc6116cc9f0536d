package transport

// The sessions of a server: how many there may be, and who waits until none is left.

// addSession takes the session in unless there are SessionsMax already.
func (s *Server) addSession(session *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.cfg.SessionsMax {
		return false
	}
	s.sessions[session] = struct{}{}
	return true
}

func (s *Server) removeSession(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
	if len(s.sessions) == 0 && s.sessionsReady != nil {
		close(s.sessionsReady)
		s.sessionsReady = nil
	}
}

func (s *Server) sessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *Server) sessionList() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*session, 0, len(s.sessions))
	for session := range s.sessions {
		list = append(list, session)
	}
	return list
}

// sessionsGone returns a channel that closes when no session is left.
func (s *Server) sessionsGone() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make(chan struct{})
	if len(s.sessions) == 0 {
		close(gone)
		return gone
	}
	s.sessionsReady = gone
	return gone
}
