package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// receiverName is the only actor that other nodes may address, and packetType the only type that they may send. protoactor
// itself asks nobody who he is, and an unknown type ends the process that receives it.
const (
	receiverName = "gate"
	packetType   = "google.protobuf.BytesValue"
)

// startRemote listens for messages of other nodes and sets the node's address.
func (c *Cluster) startRemote() (err error) {
	defer func() {
		if r := recover(); r != nil { // protoactor's way to say that it cannot listen
			err = fmt.Errorf("cluster: listen for messages on %s: %v", c.config.RemoteListen, r)
		}
	}()
	host, portText, err := net.SplitHostPort(c.config.RemoteListen)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	if port == 0 { // the address has to be known before protoactor starts
		if port, err = freePort(host); err != nil {
			return err
		}
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	if c.config.Advertise != "" {
		address = net.JoinHostPort(c.config.Advertise, strconv.Itoa(port))
	}
	if len(address) > addressBytesMax {
		return fmt.Errorf("cluster: address %s is longer than %d bytes", address, addressBytesMax)
	}
	c.address = address
	// A system of its own: whoever gets in reaches the gate and nothing else.
	log := slog.New(quiet{c.config.Logger.Handler()})
	c.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	if _, err := c.system.Root.SpawnNamed(actor.PropsFromFunc(c.receive), receiverName); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	c.system.EventStream.Subscribe(func(event any) {
		if ended, ok := event.(*remote.EndpointTerminatedEvent); ok {
			c.gate.disconnected(ended.Address)
		}
	})
	config := remote.Configure(hostOf(host), port,
		remote.WithAdvertisedHost(address), remote.WithEndpointWriterQueueSize(writerQueue), remote.WithEndpointWriterBatchSize(writerBatch),
		remote.WithEndpointManagerQueueSize(writerQueue), remote.WithServerOptions(c.serverOptions()...), remote.WithDialOptions(c.dialOptions()...))
	config.MaxRetryCount = 1 // more leak a connection each
	c.remote = remote.NewRemote(c.system, config)
	c.remote.Start()
	return nil
}

// hostOf returns the host of a listener as protoactor wants it.
func hostOf(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return "[" + host + "]"
	}
	return host
}

func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (c *Cluster) serverOptions() []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveEvery, Timeout: keepaliveWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveEvery / 2, PermitWithoutStream: true}),
		grpc.StreamInterceptor(c.checkStream), grpc.UnaryInterceptor(c.checkCall),
	}
	if c.config.TLS != nil {
		options = append(options, grpc.Creds(c.countRefused(c.config.TLS.server())))
	}
	return options
}

func (c *Cluster) dialOptions() []grpc.DialOption {
	creds := insecure.NewCredentials()
	if c.config.TLS != nil {
		creds = c.config.TLS.client()
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveWait}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: redialMin, Multiplier: 2, MaxDelay: redialMax}, MinConnectTimeout: joinTimeout,
		}),
	}
}

// checkStream lets through only what a node of ours sends; whatever else panics in protoactor ends the stream alone.
func (c *Cluster) checkStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			c.stranger("message", fmt.Errorf("%v", r))
			err = status.Error(codes.Internal, "the message could not be handled")
		}
	}()
	return next(srv, &checkedStream{ServerStream: stream, cluster: c})
}

// checkCall refuses protoactor's other calls, which it has not written yet.
func (c *Cluster) checkCall(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	c.metrics.refused.WithLabelValues("message").Inc()
	return nil, status.Error(codes.Unimplemented, "not served here")
}

type checkedStream struct {
	grpc.ServerStream
	cluster *Cluster
}

// RecvMsg implements grpc.ServerStream.
func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	message, ok := m.(*remote.RemoteMessage)
	if !ok {
		return nil
	}
	if err := s.cluster.checkBatch(message.GetMessageBatch()); err != nil {
		s.cluster.stranger("message", err)
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// checkBatch returns what no node of ours would send.
func (c *Cluster) checkBatch(batch *remote.MessageBatch) error {
	if batch == nil {
		return nil
	}
	for _, name := range batch.TypeNames {
		if name != packetType {
			return fmt.Errorf("a message of type %q", name)
		}
	}
	for _, target := range batch.Targets {
		if target == nil || target.Id != receiverName || target.Address != c.address || target.RequestId != 0 {
			return fmt.Errorf("a message for %v", target)
		}
	}
	for _, e := range batch.Envelopes {
		if e == nil || e.TypeId < 0 || int(e.TypeId) >= len(batch.TypeNames) || e.Target < 0 || int(e.Target) >= len(batch.Targets) ||
			e.Sender != 0 || e.SerializerId != 0 || e.MessageHeader != nil || e.TargetRequestId != 0 {
			return errors.New("an impossible envelope")
		}
	}
	return nil
}

// receive is the actor that gets packets.
func (c *Cluster) receive(ctx actor.Context) {
	value, ok := ctx.Message().(*wrapperspb.BytesValue)
	if !ok {
		return
	}
	drop := func(reason string) { c.metrics.dropped.WithLabelValues(reason).Inc() }
	p, err := decodePacket(value.Value)
	if err != nil {
		drop(dropMalformed)
		return
	}
	from := c.View().Member(p.from)
	switch {
	case p.board != c.config.Board:
		drop(dropBoard)
	case p.protocol != c.config.Protocol:
		drop(dropProtocol)
	case p.toRun != c.config.Incarnation || from != nil && from.Incarnation != p.fromRun:
		drop(dropIncarnation)
	default:
		if err := p.each(func(message []byte) {
			c.metrics.received.Inc()
			c.config.Receive(p.from, message)
		}); err != nil {
			drop(dropMalformed)
		}
	}
}
