package main

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/placed-board/placed/actors"
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/transport"
)

// announce prints every address that works, and how to let the phones in the room in.
func (c *serveCommand) announce(s *streams, server *transport.Server, system *actors.System) {
	settings := system.Settings()
	fmt.Fprintf(s.out, "placed %s: a board of %dx%d tiles, cooldown %v, kept in %s\n", version(), settings.Width, settings.Height,
		time.Duration(settings.CooldownMs)*time.Millisecond, c.where())
	c.warnOfBoard(s, settings.Settings)
	host, port, err := net.SplitHostPort(server.Addr().String())
	if err != nil {
		return
	}
	address, err := netip.ParseAddr(host)
	loopback := err == nil && address.IsLoopback()
	fmt.Fprintf(s.out, "  board      %slocalhost:%s%s\n", c.scheme(), port, c.BasePath)
	if !loopback {
		for _, a := range lanAddresses(address) {
			fmt.Fprintf(s.out, "             %s%s%s\n", c.scheme(), net.JoinHostPort(a, port), c.BasePath)
		}
	}
	if a := server.AdminAddr(); a != nil {
		fmt.Fprintf(s.out, "  operators  http://%s   (placed ctl status; token in %s)\n", a, filepath.Join(c.DataDir, adminTokenFile))
	}
	if loopback {
		fmt.Fprintf(s.out, "Only this machine reaches it. For the phones in the room: placed --listen :%s\n", port)
		return
	}
	if c.Auth != string(transport.AuthOpen) {
		return
	}
	fmt.Fprintf(s.err, "WARNING: --auth=open on an address that others reach: anybody who takes a new identity sheds the cooldown. "+
		"New identities are rationed to %d an hour and network.\n", c.SignInsPerHour)
}

// warnOfBoard says that flags for a new board change nothing of one that exists. Who says the default says nothing.
func (c *serveCommand) warnOfBoard(s *streams, is board.Settings) {
	var differ []string
	usual := board.DefaultSettings() // the flags' defaults
	cooldown, cooldownUsual := milliseconds(is.CooldownMs), milliseconds(usual.CooldownMs)
	for _, f := range []struct {
		name          string
		given, differ bool
	}{
		{"--width", c.Width != usual.Width, c.Width != is.Width},
		{"--height", c.Height != usual.Height, c.Height != is.Height},
		{"--cooldown", c.Cooldown != cooldownUsual, c.Cooldown != cooldown},
		{"--region-size", c.RegionSize != usual.RegionSize, c.RegionSize != is.RegionSize},
	} {
		if f.given && f.differ {
			differ = append(differ, f.name)
		}
	}
	if len(differ) > 0 {
		fmt.Fprintf(s.err, "WARNING: %s changed nothing: this board exists and keeps its settings. placed ctl settings set changes them.\n",
			strings.Join(differ, ", "))
	}
}

func (c *serveCommand) where() string {
	switch c.Store {
	case "mem":
		return "memory: it is lost at the end"
	case "cassandra":
		return "cassandra " + strings.Join(c.CassandraHosts, ",")
	}
	return c.DataDir
}

// lanAddresses returns the addresses under which others reach a listener on address.
func lanAddresses(address netip.Addr) []string {
	if address.IsValid() && !address.IsUnspecified() {
		return []string{address.String()}
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}
