package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// parse reads a YAML file into a value; fields that the value lacks are left out.
func parse(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	parse(t, "prometheus/alerts.yml", &file)
	var list []rule
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) < 15 {
		t.Fatalf("%d rules", len(list))
	}
	return list
}

func ruleExpressions(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, r := range rules(t) {
		list = append(list, r.Expr)
	}
	return list
}

// dashboardExpressions returns every query of the dashboard, variables and annotations included.
func dashboardExpressions(t *testing.T) []string {
	t.Helper()
	var dashboard any
	if err := json.Unmarshal([]byte(read(t, "grafana/placed.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var list []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, e := range v {
				if text, ok := e.(string); ok && (key == "expr" || key == "query") {
					list = append(list, text)
				}
				walk(e)
			}
		}
	}
	walk(dashboard)
	return list
}

// TestEveryAlertHasAPage, and every page an alert: what it means, what to look at, what to do.
func TestEveryAlertHasAPage(t *testing.T) {
	_, chapter, ok := strings.Cut(read(t, "../docs/operations.md"), "\n## Alerts\n")
	if !ok {
		t.Fatal("docs/operations.md has no chapter Alerts")
	}
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	pages := map[string]string{}
	for _, page := range strings.Split(chapter, "\n### ")[1:] {
		name, text, _ := strings.Cut(page, "\n")
		pages[name] = text
	}
	for _, r := range rules(t) {
		for _, part := range []string{"- **Means:** ", "- **Look at:** ", "- **Do:** "} {
			if !strings.Contains(pages[r.Alert], part) {
				t.Errorf("the page of %s in docs/operations.md lacks %q", r.Alert, part)
			}
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", r.Alert, s, r.Annotations["summary"])
		}
		delete(pages, r.Alert)
	}
	for name := range pages {
		t.Errorf("docs/operations.md has a page of %s, and there is no such alert", name)
	}
}

// TestRules lets promtool check the rules and run their tests.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not here: make deps")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "config", "--syntax-only", "prometheus.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = "prometheus"
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var file struct {
		Tests []struct {
			Cases []struct{ Alertname string } `yaml:"alert_rule_test"`
		}
	}
	parse(t, "prometheus/alerts_test.yml", &file)
	tested := map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			tested[c.Alertname] = true
		}
	}
	for _, r := range rules(t) {
		delete(tested, r.Alert) // a test of an alert that does not exist expects nothing and passes
	}
	if len(tested) != 0 {
		t.Errorf("tests of alerts that do not exist: %v", tested)
	}
}

type service struct {
	Image, Build string
	Command      any
	Volumes      []string
	Environment  map[string]string
	DependsOn    any `yaml:"depends_on"`
	Networks     any // a list of names, or a map
}

// listensAt reports whether a node's gossip and messages are on its address of the network "nodes", and others join it there.
func (s service) listensAt(command string) bool {
	networks, _ := s.Networks.(map[string]any)
	nodes, _ := networks["nodes"].(map[string]any)
	address, _ := nodes["ipv4_address"].(string)
	return address != "" && strings.Contains(command, "--gossip-listen="+address+":7946") && strings.Contains(command, "--remote-listen="+address+":7947") &&
		strings.Contains(s.Environment["PLACED_JOIN"], address+":7946")
}

// TestCompose: what the compose file mounts exists, images have plain names and versions, and Prometheus asks the nodes that
// there are.
func TestCompose(t *testing.T) {
	var file struct {
		Services map[string]service
		Networks map[string]struct{ Internal bool }
		Volumes  map[string]any
	}
	parse(t, "compose.yaml", &file)
	scraped := read(t, "prometheus/prometheus.yml")
	nodes := 0
	for name, s := range file.Services {
		if s.Image == "placed" {
			nodes++
			if !strings.Contains(scraped, `"`+name+s.Environment["PLACED_ADMIN_LISTEN"]+`"`) {
				t.Errorf("Prometheus does not ask %s at %s", name, s.Environment["PLACED_ADMIN_LISTEN"])
			}
			if !file.Networks["nodes"].Internal || !s.listensAt(fmt.Sprint(s.Command)) {
				t.Errorf("%s: has no keys, so it must listen on the network of the nodes alone", name)
			}
		} else if !regexp.MustCompile(`^[a-z]+(/[a-z]+)?:v?\d+\.\d+[0-9a-z.-]*$`).MatchString(s.Image) {
			t.Errorf("%s: image %q", name, s.Image)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, named := file.Volumes[from]
			if _, err := os.Stat(from); err != nil && !named {
				t.Errorf("%s mounts %s: %v", name, from, err)
			}
		}
	}
	if nodes != 3 || len(file.Services) != 7 {
		t.Errorf("%d nodes among %d services", nodes, len(file.Services))
	}
	for _, path := range []string{"grafana/provisioning/datasources/prometheus.yaml", "grafana/provisioning/dashboards/placed.yaml"} {
		var whatever map[string]any
		parse(t, path, &whatever)
	}
}

// TestCacheOfCompose changes nginx's configuration as the compose file does and sees three nodes in it.
func TestCacheOfCompose(t *testing.T) {
	expression := regexp.MustCompile(`sed '([^']+)'`).FindStringSubmatch(read(t, "compose.yaml"))
	if expression == nil {
		t.Fatal("no sed in compose.yaml")
	}
	out, err := exec.CommandContext(t.Context(), "sed", expression[1], "../docs/cache/nginx.conf").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "\tserver placed-1:8080; server placed-2:8080; server placed-3:8080;\n") || strings.Contains(string(out), "\tserver 127.0.0.1") {
		t.Errorf("nginx would ask others than the three nodes:\n%s", out)
	}
}

// TestSecrets: two calls print what compose.yaml needs, and never the same.
func TestSecrets(t *testing.T) {
	var printed [2]string
	for i := range printed {
		out, err := exec.CommandContext(t.Context(), "./secrets").Output()
		if err != nil {
			t.Fatal(err)
		}
		printed[i] = string(out)
	}
	lines := regexp.MustCompile(`(?m)^([A-Z_]+)=([0-9a-f]{64})$`).FindAllStringSubmatch(printed[0], -1)
	for _, l := range lines {
		if strings.Contains(printed[1], l[2]) || !strings.Contains(read(t, "compose.yaml"), "${"+l[1]+":?") {
			t.Errorf("%s is printed twice, or nobody needs it", l[1])
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d secrets", len(lines))
	}
}

// TestDurable changes a configuration as Cassandra ships it, twice, and refuses what is none.
func TestDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cassandra.yaml")
	const shipped = "cluster_name: 'Test Cluster'\n# commitlog_sync: group\ncommitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n" +
		"# periodic_commitlog_sync_lag_block:\ncommitlog_segment_size: 32MiB\npaxos_variant: v1\nseed_provider:\n  - class_name: x\n"
	const wanted = "cluster_name: 'Test Cluster'\n# commitlog_sync: group\n# periodic_commitlog_sync_lag_block:\ncommitlog_segment_size: 32MiB\n" +
		"seed_provider:\n  - class_name: x\ncommitlog_sync: batch\npaxos_variant: v2\n"
	if err := os.WriteFile(path, []byte(shipped), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := exec.CommandContext(t.Context(), "cassandra/durable", path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := read(t, path); got != wanted {
			t.Fatalf("got\n%s", got)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "cassandra/durable", "compose.yaml").CombinedOutput(); err == nil || !strings.Contains(string(out), "no configuration of Cassandra") {
		t.Errorf("compose.yaml was taken for Cassandra's: %v %s", err, out)
	}
}

// TestUnit lets systemd check the unit, where it is, and reads the limits that placed needs.
func TestUnit(t *testing.T) {
	unit := read(t, "systemd/placed.service")
	for _, words := range []string{"\nLimitNOFILE=1048576\n", "\nTimeoutStopSec=90s\n", "\nDynamicUser=yes\n", "\nStateDirectory=placed\n", "\nProtectSystem=strict\n"} {
		if !strings.Contains(unit, words) {
			t.Errorf("the unit lacks %q", words)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit is not checked by it")
		return
	}
	path := filepath.Join(t.TempDir(), "placed.service") // with a program that exists
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/local/bin/placed", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", path).CombinedOutput(); err != nil || strings.Contains(string(out), "placed.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
