package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocql/gocql"
)

// createHint ends the errors that creating the schema would cure.
const createHint = "create it by starting placed once with --create-schema"

// replicationDefault is the number of copies when the data centre has as many nodes.
const replicationDefault = 3

// table is one table of the schema; the columns are checked at Open.
type table struct {
	name    string
	columns string // as CQL
	options string
}

// The guarded tables (shards, journals, board) see nothing but conditional writes: a plain write, a delete or a TTL there
// takes its timestamp from a clock and not from the ballot, and could undo or shadow a commit. Their partitions carry the
// head in static columns, so that one batch in one partition moves the head and writes the rows, or does nothing.
//
// The other tables are derived or idempotent and see plain writes only, with timestamps made from versions.
var tables = []table{
	{
		name:    "board", // one row
		columns: "id text, format int, epoch bigint, shards int, data_centre text, created_at_ms bigint, PRIMARY KEY (id)",
	},
	{
		name:    "shards", // a row for each user or job, replaced in place
		columns: "shard int, key text, head_version bigint static, head blob static, value blob, PRIMARY KEY (shard, key)",
	},
	{
		name: "journals", // a row for each commit; journal is a partition's name, bucket is (version-1)/4096
		columns: "journal text, bucket int, version bigint, head_version bigint static, head blob static, value blob, " +
			"PRIMARY KEY ((journal, bucket), version)",
		options: "CLUSTERING ORDER BY (version ASC)",
	},
	{
		name:    "blocks", // the blocks that were ever about to get a first commit; seen: it is known to have been applied
		columns: "board text, block int, seen boolean, PRIMARY KEY (board, block)",
	},
	{
		name:    "snapshots", // of a block (row*256 + column); the slots are overwritten in turn
		columns: "block int, slot int, version bigint, data blob, PRIMARY KEY (block, slot)",
	},
}

// boardID is the key of the only row of the table board, and of the only partition of the table blocks.
const boardID = "board"

// CreateSchema creates the keyspace and the tables where they do not exist yet, and changes nothing that exists. Run it
// from one process at a time: Cassandra does not order concurrent changes of a schema. It is never called by Open.
func CreateSchema(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.requestTimeout = schemaTimeout
	session, dc, err := firstSession(ctx, &cfg)
	if err != nil {
		return err
	}
	defer session.Close()
	copies := cfg.Replication
	if copies == 0 {
		copies = min(replicationDefault, dc.nodes)
	}
	statements := []string{fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy', '%s': %d}",
		cfg.Keyspace, strings.ReplaceAll(dc.name, "'", "''"), copies)}
	for _, t := range tables {
		s := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s)", cfg.Keyspace, t.name, t.columns)
		if t.options != "" {
			s += " WITH " + t.options
		}
		statements = append(statements, s)
	}
	for _, s := range statements {
		if err := session.Query(s).WithContext(ctx).Exec(); err != nil {
			return fmt.Errorf("cassandra: create the schema of keyspace %s: %s", cfg.Keyspace, oneLine(err.Error()))
		}
		if err := session.AwaitSchemaAgreement(ctx); err != nil {
			return fmt.Errorf("cassandra: create the schema of keyspace %s: the nodes do not agree: %s", cfg.Keyspace, oneLine(err.Error()))
		}
	}
	return nil
}

// checkSchema compares what exists with what is needed.
func checkSchema(ctx context.Context, session *gocql.Session, keyspace string) error {
	var name string
	err := session.Query("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace).WithContext(ctx).Consistency(gocql.One).Scan(&name)
	if errors.Is(err, gocql.ErrNotFound) {
		return fmt.Errorf("cassandra: keyspace %s does not exist: %s", keyspace, createHint)
	}
	if err != nil {
		return fmt.Errorf("cassandra: look for keyspace %s: %s", keyspace, oneLine(err.Error()))
	}
	found := map[string][]string{}
	it := session.Query("SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = ?", keyspace).WithContext(ctx).Consistency(gocql.One).Iter()
	for t, c := "", ""; it.Scan(&t, &c); {
		found[t] = append(found[t], c)
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("cassandra: look for the tables of keyspace %s: %s", keyspace, oneLine(err.Error()))
	}
	for _, t := range tables {
		if found[t.name] == nil {
			return fmt.Errorf("cassandra: table %s.%s does not exist: %s", keyspace, t.name, createHint)
		}
		for _, c := range t.columnNames() {
			if !slices.Contains(found[t.name], c) {
				return fmt.Errorf("cassandra: table %s.%s has no column %s: it was made by another version of placed, or by somebody else", keyspace, t.name, c)
			}
		}
	}
	return nil
}

func (t *table) columnNames() []string {
	var names []string
	columns, _, _ := strings.Cut(t.columns, ", PRIMARY KEY")
	for c := range strings.SplitSeq(columns, ", ") {
		name, _, _ := strings.Cut(c, " ")
		names = append(names, name)
	}
	return names
}
