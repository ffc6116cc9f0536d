package cassandra

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/gocql/gocql"
)

// Bounds of a Config, and the driver's settings that nobody has to choose.
const (
	slotsMax       = 256
	replicationMax = 9
	timeoutMin     = 100 * time.Millisecond
	timeoutMax     = time.Minute

	protoVersion      = 4 // the newest that the driver speaks
	connectionsOfHost = 2
	reconnectEvery    = 500 * time.Millisecond // between two tries to reach a host that is down
	connectTries      = 2                      // for one connection, connectPause apart
	connectPause      = 200 * time.Millisecond
	schemaAgreeMax    = 30 * time.Second // until all Cassandra nodes know the same tables
	schemaTimeout     = 30 * time.Second // of one statement that changes the schema, at least
)

// Config says where a board is kept and how. Get one from DefaultConfig.
type Config struct {
	Hosts    []string // contact points, as "host" or "host:port" (9042); the others are found through them
	Keyspace string   // one board's; lower-case letters, digits and _, at most 48

	// DataCentre is the local data centre: only its hosts are used. It may be empty when the cluster has only one.
	DataCentre string
	// Replication is how many copies the data centre keeps, used by CreateSchema alone; 0 means 3, or the number of its
	// nodes if there are fewer.
	Replication int

	Consistency       string        // of plain statements and of the last step of conditional ones: LOCAL_QUORUM, QUORUM, EACH_QUORUM, ALL
	SerialConsistency string        // of conditional statements and of reads of guarded tables: LOCAL_SERIAL, SERIAL
	Timeout           time.Duration // of one request; keep it above the server's own timeouts (2 s for writes)
	Slots             int           // conditional writes in flight, 1 to 256

	Username string // empty: no sign-in
	Password string

	TLSCAFile   string // PEM; turns TLS on
	TLSCertFile string // PEM, with TLSKeyFile: our own certificate, when the server asks for one
	TLSKeyFile  string

	Log *slog.Logger // nil: silence

	requestTimeout time.Duration // of requests other than connecting, if longer than Timeout
}

// DefaultConfig returns the settings for a cluster on this machine.
func DefaultConfig() Config {
	return Config{
		Hosts:             []string{"127.0.0.1:9042"},
		Keyspace:          "placed",
		Consistency:       "LOCAL_QUORUM",
		SerialConsistency: "LOCAL_SERIAL",
		Timeout:           3 * time.Second,
		Slots:             32,
	}
}

var (
	keyspaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

	// Below a quorum an acknowledged commit could be lost with one host (I2).
	consistencies = map[string]gocql.Consistency{
		"LOCAL_QUORUM": gocql.LocalQuorum, "QUORUM": gocql.Quorum, "EACH_QUORUM": gocql.EachQuorum, "ALL": gocql.All,
	}
	serialConsistencies = map[string]gocql.SerialConsistency{"LOCAL_SERIAL": gocql.LocalSerial, "SERIAL": gocql.Serial}
)

// Validate returns one line that names the first impossible setting. It looks at no file and no host.
func (c *Config) Validate() error {
	if fault := c.fault(); fault != "" {
		return errors.New("cassandra: " + fault)
	}
	return nil
}

func (c *Config) fault() string {
	if slices.Contains(c.Hosts, "") {
		return "a host name is empty"
	}
	switch {
	case len(c.Hosts) == 0:
		return "no hosts given"
	case !keyspaceName.MatchString(c.Keyspace):
		return fmt.Sprintf("keyspace %q: use a lower-case letter, then letters, digits and _, at most 48 in all", c.Keyspace)
	case c.Replication < 0 || c.Replication > replicationMax:
		return fmt.Sprintf("replication %d: use 1 to %d, or 0 to let it be chosen", c.Replication, replicationMax)
	case c.Slots < 1 || c.Slots > slotsMax:
		return fmt.Sprintf("%d slots: use 1 to %d", c.Slots, slotsMax)
	case c.Timeout < timeoutMin || c.Timeout > timeoutMax:
		return fmt.Sprintf("timeout %v: use %v to %v", c.Timeout, timeoutMin, timeoutMax)
	case c.Username == "" && c.Password != "":
		return "a password without a user name"
	case (c.TLSCertFile == "") != (c.TLSKeyFile == ""):
		return "a TLS certificate and its key belong together"
	case c.TLSCertFile != "" && c.TLSCAFile == "":
		return "a TLS certificate without the file of the certificate authority"
	}
	if _, ok := consistencies[c.Consistency]; !ok {
		return fmt.Sprintf("consistency %q: use LOCAL_QUORUM, QUORUM, EACH_QUORUM or ALL", c.Consistency)
	}
	if _, ok := serialConsistencies[c.SerialConsistency]; !ok {
		return fmt.Sprintf("serial consistency %q: use LOCAL_SERIAL or SERIAL", c.SerialConsistency)
	}
	return ""
}

// cluster makes the driver's settings. There is no retry policy and no speculative execution: the driver would send a
// conditional write twice and report only what became of the second.
func (c *Config) cluster(keyspace, dataCentre string) (*gocql.ClusterConfig, error) {
	cl := gocql.NewCluster(c.Hosts...)
	cl.ProtoVersion = protoVersion
	cl.Keyspace = keyspace
	cl.Consistency = consistencies[c.Consistency]
	cl.SerialConsistency = serialConsistencies[c.SerialConsistency]
	cl.Timeout = max(c.Timeout, c.requestTimeout)
	cl.ConnectTimeout = c.Timeout
	cl.WriteTimeout = c.Timeout
	cl.NumConns = connectionsOfHost
	cl.DefaultTimestamp = false
	cl.ReconnectInterval = reconnectEvery
	cl.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: connectTries, Interval: connectPause}
	cl.MaxWaitSchemaAgreement = schemaAgreeMax
	cl.Logger = driverLog{c.Log}
	if dataCentre != "" {
		cl.HostFilter = gocql.DataCentreHostFilter(dataCentre)
		cl.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(dataCentre))
	}
	if c.Username != "" {
		cl.Authenticator = gocql.PasswordAuthenticator{Username: c.Username, Password: c.Password}
	}
	if c.TLSCAFile != "" {
		for _, file := range []string{c.TLSCAFile, c.TLSCertFile, c.TLSKeyFile} {
			if file == "" {
				continue
			}
			if _, err := os.ReadFile(file); err != nil {
				return nil, fmt.Errorf("cassandra: TLS: %w", err)
			}
		}
		cl.SslOpts = &gocql.SslOptions{
			CaPath: c.TLSCAFile, CertPath: c.TLSCertFile, KeyPath: c.TLSKeyFile, EnableHostVerification: true,
		}
	}
	return cl, nil
}

// driverLog passes on what the driver has to say. It is all about connections, and what matters of it shows as errors and
// in Health, so it is for those who debug.
type driverLog struct{ to *slog.Logger }

func (l driverLog) Print(v ...any)                 { l.say(fmt.Sprint(v...)) }
func (l driverLog) Printf(format string, v ...any) { l.say(fmt.Sprintf(format, v...)) }
func (l driverLog) Println(v ...any)               { l.say(fmt.Sprintln(v...)) }

func (l driverLog) say(text string) {
	if l.to != nil {
		l.to.Debug("cassandra driver", "says", oneLine(text))
	}
}
