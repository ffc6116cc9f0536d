package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
)

// State says what a member does at the moment. Only those that serve own keys.
type State uint8

// States of a member.
const (
	Joining  State = iota // started, not serving yet
	Serving               // owns its share
	Draining              // gives up what it owns, is about to leave
)

// String returns the state's name, as metrics and operators see it.
func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Serving:
		return "serving"
	case Draining:
		return "draining"
	}
	return "unknown"
}

// meta is what every member tells of itself by gossip, as JSON of at most memberlist.MetaMaxSize bytes.
type meta struct {
	Board       string `json:"b"`
	Protocol    uint16 `json:"p"`
	Incarnation uint64 `json:"i,string"`
	State       State  `json:"s"`
}

func (m meta) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("cluster: encode metadata: %v", err)) // plain values only
	}
	return b
}

// decodeMeta reads what another node tells of itself.
func decodeMeta(b []byte) (meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("metadata that is not of placed: %w", err)
	}
	if m.Board == "" || len(m.Board) > boardBytesMax || m.Protocol == 0 || m.Incarnation == 0 || m.State > Draining {
		return m, errors.New("metadata that is not of placed")
	}
	return m, nil
}

// ErrOtherBoard says that a node gossips for another board, and ErrOtherProtocol that it speaks another version.
var (
	ErrOtherBoard    = errors.New("it serves another board")
	ErrOtherProtocol = errors.New("it speaks another version of the protocol between nodes")
)

// fits returns why a node with this metadata cannot be a member beside one with own.
func (m meta) fits(own meta) error {
	switch {
	case m.Board != own.Board:
		return fmt.Errorf("%w: %s, this node serves %s", ErrOtherBoard, m.Board, own.Board)
	case m.Protocol != own.Protocol:
		return fmt.Errorf("%w: %d, this node %d", ErrOtherProtocol, m.Protocol, own.Protocol)
	}
	return nil
}
