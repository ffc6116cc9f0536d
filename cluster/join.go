package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// rejoin goes on trying to reach those who should be members and are not: after a full stop in any order, after a cut.
func (c *Cluster) rejoin() {
	again := time.NewTicker(c.config.RejoinEvery)
	defer again.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-again.C:
		}
		if err := c.joinMissing(c.ctx); errors.Is(err, ErrOtherBoard) || errors.Is(err, ErrOtherProtocol) {
			c.stranger("gossip", err)
		}
	}
}

// joinMissing joins every address that is no member's, and returns what went wrong.
func (c *Cluster) joinMissing(ctx context.Context) error {
	var errs []error
	for _, address := range c.missing(ctx) {
		if ctx.Err() != nil || c.ctx.Err() != nil {
			break
		}
		if _, err := c.list.Join([]string{address}); err != nil {
			c.config.Logger.Debug("nobody to join", "address", address, "error", err)
			errs = append(errs, asRefusal(address, err))
		}
	}
	return errors.Join(errs...)
}

// missing returns the addresses to join at which no member is: those of Config.Join, and those where one was seen.
func (c *Cluster) missing(ctx context.Context) []string {
	present := map[string]bool{}
	for _, m := range c.View().Members {
		present[m.Gossip] = true
	}
	present[c.gossip] = true
	var addresses []string
	add := func(address string) {
		if !present[address] {
			present[address] = true
			addresses = append(addresses, address)
		}
	}
	for _, name := range c.config.Join {
		for _, address := range lookUp(ctx, name) {
			add(address)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for address := range c.seen {
		add(address)
	}
	return addresses
}

// lookUp returns every host:port that a host:port stands for.
func lookUp(ctx context.Context, name string) []string {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil // Validate has looked
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil // not yet
	}
	addresses := make([]string, len(found))
	for i, ip := range found {
		addresses[i] = net.JoinHostPort(ip, port)
	}
	return addresses
}

// alive notes a member, and keeps its gossip address for later.
func (c *Cluster) alive(n *memberlist.Node) {
	m, err := decodeMeta(n.Meta)
	if err != nil || n.Name == c.address {
		return
	}
	address := n.Address()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[n.Name] = Member{Address: n.Name, Gossip: address, Incarnation: m.Incarnation, State: m.State}
	if len(c.seen) < seenMax {
		c.seen[address] = true
	}
}

// dead forgets a member.
func (c *Cluster) dead(n *memberlist.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.others, n.Name)
}

// asRefusal finds the reason of a refusal again: memberlist passes errors on as text.
func asRefusal(address string, err error) error {
	for _, reason := range []error{ErrOtherBoard, ErrOtherProtocol} {
		if strings.Contains(err.Error(), reason.Error()) {
			return fmt.Errorf("cluster: join %s: %w (%w)", address, reason, err)
		}
	}
	return fmt.Errorf("cluster: join %s: %w", address, err)
}

// delegate is what memberlist asks and tells.
type delegate struct{ c *Cluster }

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte { return d.c.ownMeta().encode() }

// NotifyMsg implements memberlist.Delegate.
func (delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (delegate) MergeRemoteState([]byte, bool) {}

// NotifyJoin implements memberlist.EventDelegate. It runs under memberlist's lock.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	d.c.alive(n)
	d.changed()
}

// NotifyLeave implements memberlist.EventDelegate.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.c.dead(n)
	d.changed()
}

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(n *memberlist.Node) {
	d.c.alive(n)
	d.changed()
}

func (d delegate) changed() {
	select {
	case d.c.kick <- struct{}{}:
	default:
	}
}

// NotifyAlive implements memberlist.AliveDelegate: who serves another board is no member.
func (d delegate) NotifyAlive(n *memberlist.Node) error { return d.c.check(n) }

// NotifyMerge implements memberlist.MergeDelegate: a join that would mix two boards is refused on both sides.
func (d delegate) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if n.State == memberlist.StateDead || n.State == memberlist.StateLeft {
			continue
		}
		if err := d.c.check(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.c.stranger("gossip", fmt.Errorf("%s and %s both say that their messages go to %s", existing.Address(), other.Address(), existing.Name))
}

// check returns why a node cannot be a member.
func (c *Cluster) check(n *memberlist.Node) error {
	m, err := decodeMeta(n.Meta)
	if err == nil {
		err = m.fits(c.ownMeta())
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", n.Address(), err)
		c.stranger("gossip", err)
	}
	return err
}
