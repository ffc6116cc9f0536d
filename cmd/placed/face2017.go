package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/transport"
	"github.com/placed-board/placed/transport/place2017"
)

// face2017 returns how the server builds its face of 2017.
func face2017(config transport.Config, system *actors.System, registry *prometheus.Registry) func(*transport.FaceHost) (transport.Face, error) {
	return func(host *transport.FaceHost) (transport.Face, error) {
		face := place2017.DefaultConfig()
		face.Key, face.PlaceTimeout, face.ReadTimeout = config.SessionKey, config.PlaceTimeout, config.ReadTimeout
		return place2017.New(face, place2017.Deps{
			Host: host, Board: system, Placer: system, Clearer: system, Watcher: system, Registry: registry,
		})
	}
}
