package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// result is what one command line leads to.
type result struct {
	code           int
	stdout, stderr string
}

// call runs a command line in this process.
func callLine(ctx context.Context, args ...string) result {
	var out, errs lockedBuffer
	code := run(ctx, args, &out, &errs)
	return result{code, out.String(), errs.String()}
}

// oneLineOnly reports whether text is exactly one line with words in it.
func oneLineOnly(text string) bool {
	return len(strings.TrimSpace(text)) > 10 && strings.Count(text, "\n") == 1 && strings.HasSuffix(text, "\n")
}

// TestWrongUsage: an unknown flag or an impossible value is answered by one line that names it, with exit code 2, and has
// done nothing.
func TestWrongUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		args  string
		names string // what the line must name
	}{
		{"--unknown", "--unknown"},
		{"serve --unknown", "--unknown"},
		{"serve --with 5", "--with"},
		{"paint", "paint"},
		{"serve paint", "paint"},
		{"serve --width 0", "width 0"},
		{"--width 0", "width 0"},
		{"serve --width -5", "width"},
		{"serve --width 10001", "width 10001"},
		{"serve --width wide", "--width"},
		{"serve --width 1e3", "--width"},
		{"serve --width 99999999999999999999", "--width"},
		{"serve --height 0", "height 0"},
		{"serve --height 10001", "height 10001"},
		{"serve --width 0 --height 0", "height 0"},
		{"serve --cooldown 8760h", "cooldown"},
		{"serve --cooldown 24h1ms", "cooldown"},
		{"serve --cooldown -1s", "cooldown"},
		{"serve --cooldown 5", "--cooldown"},
		{"serve --cooldown soon", "--cooldown"},
		{"serve --cooldown 1us", "cooldown"},
		{"serve --region-size 150", "region size 150"},
		{"serve --region-size 0", "region size 0"},
		{"serve --region-size 10100", "region size 10100"},
		{"serve --store foo", "--store"},
		{"serve --auth password", "--auth"},
		{"serve --log-level loud", "--log-level"},
		{"serve --unlimited everybody", "--unlimited"},
		{"serve --unlimited 10.0.0.1/33", "--unlimited"},
		{"serve --connections-per-address 0", "connections per address"},
		{"serve --requests-per-second 0", "requests per second"},
		{"serve --sign-ins-per-hour=-1", "sign-ins per hour"},
		{"serve --messages-per-second 0", "messages per second"},
		{"serve --sessions-max 0", "sessions"},
		{"serve --allowed-origins example.org", "example.org"},
		{"serve --embed-origins example.org", "example.org"},
		{"serve --base-path board/", "board/"},
		{"ctl", "settings"},
		{"ctl dance", "dance"},
		{"ctl status --unknown", "--unknown"},
		{"ctl -o yaml status", "--output"},
		{"ctl --timeout 5 status", "--timeout"},
		{"ctl settings", "get"},
		{"ctl settings set", "nothing to change"},
		{"ctl settings set --width wide", "--width"},
		{"ctl settings set --frozen --no-frozen", "--no-frozen"},
		{"ctl settings set --frozen --frozen-until +1h", "--frozen-until"},
		{"ctl settings set --frozen-from soon", "soon"},
		{"ctl settings plan", "list"},
		{"ctl settings plan add --cooldown 5s", "--at"},
		{"ctl settings plan add --at +1h", "nothing to change"},
		{"ctl settings plan add --at +1h --frozen --no-frozen", "--no-frozen"},
		{"ctl settings plan remove", "<id>"},
		{"ctl settings set --protect 1,2,3", "1,2,3"},
		{"ctl settings set --protect 1,2,3,4,5", "1,2,3,4,5"},
		{"ctl settings set --protect 1,2,0,4", "1,2,0,4"},
		{"ctl settings set --palette-file /nowhere/palette.json", "/nowhere/palette.json"},
		{"ctl ban", "<user>"},
		{"ctl ban somebody --for tomorrow", "--for"},
		{"ctl ban somebody --for -1h", "--for"},
		{"ctl ban " + strings.Repeat("n", 49), "48"},
		{"ctl clear", "<rect>"},
		{"ctl clear everything", "everything"},
		{"ctl clear 1,2,3,-4", "1,2,3,-4"},
		{"ctl rollback", "--user"},
		{"ctl rollback --user ann", "--since"},
		{"ctl rollback --user ann --since yesterday", "yesterday"},
		{"ctl rollback --user ann --since -5m", "--since"},
		{"ctl rollback --user ann --since 2999-01-01T00:00:00Z", "past"},
		{"ctl rollback --rect 1,2,3 --since 5m", "1,2,3"},
		{"ctl rollback --user " + strings.Repeat("n", 49) + " --since 5m", "48"},
		{"ctl rollback --undo 17 --user ann", "--undo"},
		{"ctl verify thoroughly", "thoroughly"},
		{"restore", "<file>"},
		{"backup one two", "two"},
		{"ctl board", "reset"},
		{"version 2", "2"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			if strings.HasPrefix(c.args, "serve") || strings.HasPrefix(c.args, "--") {
				args = append(args, "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "")
			}
			r := callLine(canceled(t), args...)
			if r.code != 2 || r.stdout != "" || !oneLineOnly(r.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q; want code 2 and one line on stderr", r.code, r.stdout, r.stderr)
			}
			if !strings.HasPrefix(r.stderr, "placed: ") || !strings.Contains(r.stderr, c.names) {
				t.Errorf("%q does not name %q", r.stderr, c.names)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the data directory was made: %v", err)
				_ = os.RemoveAll(dir)
			}
		})
	}
}

// canceled returns a context that is over, so that what should be refused and is not ends at once.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestWrongEnvironment: environment variables are read like flags, and judged like them.
func TestWrongEnvironment(t *testing.T) {
	for variable, value := range map[string]string{
		"PLACED_WIDTH": "0", "PLACED_COOLDOWN": "8760h", "PLACED_REGION_SIZE": "150", "PLACED_STORE": "foo", "PLACED_HEIGHT": "high",
		"PLACED_CREATE_SCHEMA": "perhaps", "PLACED_LOG_LEVEL": "loud",
	} {
		t.Run(variable, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			t.Setenv(variable, value)
			t.Setenv("PLACED_DATA_DIR", dir)
			t.Setenv("PLACED_LISTEN", "127.0.0.1:0")
			t.Setenv("PLACED_ADMIN_LISTEN", "127.0.0.1:0")
			r := callLine(canceled(t))
			if r.code != 2 || r.stdout != "" || !oneLineOnly(r.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q; want code 2 and one line on stderr", r.code, r.stdout, r.stderr)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the data directory was made: %v", err)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, words := range map[string][]string{
		"--help":              {"serve", "ctl", "version"},
		"serve --help":        {"--listen", "--admin-listen", "--store", "--width", "--cooldown", "--region-size", "--cassandra-hosts", "--data-dir", "PLACED_DATA_DIR"},
		"ctl --help":          {"settings", "ban", "unban", "clear", "status", "verify"},
		"ctl settings --help": {"get", "set", "history"},
		"version":             {"placed "},
		"--version":           {"placed "},
	} {
		r := callLine(t.Context(), strings.Fields(args)...)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: code %d, stderr %q", args, r.code, r.stderr)
		}
		for _, word := range words {
			if !strings.Contains(r.stdout, word) {
				t.Errorf("%s does not speak of %q:\n%s", args, word, r.stdout)
			}
		}
	}
	if r := callLine(t.Context(), "version"); !oneLineOnly(r.stdout) {
		t.Errorf("version prints %q", r.stdout)
	}
}

// TestUnlimitedAddresses: a bare address stands for itself alone.
func TestUnlimitedAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1/32", "::1": "::1/128", "::ffff:10.0.0.1": "10.0.0.1/32", "10.0.0.0/8": "10.0.0.0/8", "fe80::/10": "fe80::/10",
	} {
		var a addresses
		if err := a.UnmarshalText([]byte(text)); err != nil || a.String() != want {
			t.Errorf("%s is %v (%v), want %s", text, a, err, want)
		}
	}
}
