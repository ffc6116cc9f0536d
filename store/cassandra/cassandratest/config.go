package cassandratest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"text/template"
	"time"
)

const (
	javaMajor    = 17 // Cassandra 5.0 runs on 11 and 17 only; one of them is enough to support
	javaAskMax   = 10 * time.Second
	heap         = "512m"
	directMemory = "256m"

	// Free ports are looked for below those that the system gives to outgoing connections, so that a node that is down
	// finds its port still free when it comes back.
	freePortMin   = 20_000
	freePortMax   = 32_000
	freePortTries = 100
)

//go:embed conf
var confFiles embed.FS

var yamlTemplate = template.Must(template.ParseFS(confFiles, "conf/cassandra.yaml.tmpl"))

// Path is the place of one of the node's folders or files, for the template.
func (o Options) Path(name string) string { return filepath.Join(o.Dir, name) }

// writeConfig renders cassandra.yaml and logback.xml into Dir/conf and makes the folders that the JVM needs.
func writeConfig(o Options) error {
	for _, dir := range []string{"conf", "tmp"} {
		if err := os.MkdirAll(o.Path(dir), 0o755); err != nil {
			return err
		}
	}
	yaml, err := os.Create(o.Path("conf/cassandra.yaml"))
	if err != nil {
		return err
	}
	if err := errors.Join(yamlTemplate.Execute(yaml, o), yaml.Close()); err != nil {
		return fmt.Errorf("write cassandra.yaml: %w", err)
	}
	logback, err := confFiles.ReadFile("conf/logback.xml")
	if err != nil {
		return err
	}
	return os.WriteFile(o.Path("conf/logback.xml"), logback, 0o644)
}

// Cassandra reaches into these packages of the JDK by reflection; without them the daemon does not start.
var (
	javaExports = []string{
		"java.base/jdk.internal.misc", "java.base/java.lang.ref",
		"java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.management/com.sun.jmx.remote.security",
		"java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.sql/java.sql", "jdk.unsupported/sun.misc",
		"jdk.compiler/com.sun.tools.javac.file", "jdk.attach/sun.tools.attach",
	}
	javaOpens = []string{
		"java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect", "java.base/java.util",
		"java.base/java.io", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.loader",
		"java.base/jdk.internal.ref", "java.base/jdk.internal.reflect", "java.base/jdk.internal.math",
		"java.base/jdk.internal.module", "java.base/jdk.internal.util.jar",
		"jdk.management/com.sun.management.internal", "jdk.compiler/com.sun.tools.javac",
	}
)

// javaArgs is the command line of the JVM, without java itself.
func javaArgs(o Options, lib string) ([]string, error) {
	agents, err := filepath.Glob(filepath.Join(lib, "jamm-*.jar"))
	if err != nil || len(agents) != 1 {
		return nil, fmt.Errorf("%s holds %d jamm-*.jar, want one", lib, len(agents))
	}
	args := []string{
		"-Xms" + heap, "-Xmx" + heap, "-XX:MaxDirectMemorySize=" + directMemory, "-Xss512k",
		"-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData",
		"-javaagent:" + agents[0],
		"-Djdk.attach.allowAttachSelf=true", "-Dio.netty.tryReflectionSetAccessible=true",
		"-Djava.io.tmpdir=" + o.Path("tmp"), "-Djna.tmpdir=" + o.Path("tmp"),
		"-Dcassandra.config=file://" + o.Path("conf/cassandra.yaml"),
		"-Dlogback.configurationFile=" + o.Path("conf/logback.xml"),
		"-Dcassandra.storagedir=" + o.Dir,
		"-Dcassandra-foreground=yes",
		// Nobody else is in the ring: do not wait for them.
		"-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=1000",
		"-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.load_ring_state=false",
	}
	if o.JMXPort != 0 {
		args = append(args, "-Dcassandra.jmx.local.port="+strconv.Itoa(o.JMXPort))
	}
	for _, p := range javaExports {
		args = append(args, "--add-exports", p+"=ALL-UNNAMED")
	}
	for _, p := range javaOpens {
		args = append(args, "--add-opens", p+"=ALL-UNNAMED")
	}
	classPath := o.Path("conf") + string(os.PathListSeparator) + filepath.Join(lib, "*")
	return append(args, "-cp", classPath, "org.apache.cassandra.service.CassandraDaemon"), nil
}

// javaCandidates lists where a java may be: what JAVA_HOME says, the one on the PATH, and the usual homes of a JDK.
func javaCandidates() []string {
	var found []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		found = append(found, filepath.Join(home, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil {
		found = append(found, path)
	}
	homes := "/usr/lib/jvm/*17*"
	if runtime.GOOS == "darwin" {
		homes = "/Library/Java/JavaVirtualMachines/*17*/Contents/Home"
	}
	more, _ := filepath.Glob(filepath.Join(homes, "bin", "java"))
	return append(found, more...)
}

var javaVersionLine = regexp.MustCompile(`version "(\d+)`)

// findJava returns the first candidate that is a JDK 17.
func findJava(ctx context.Context, candidates []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, javaAskMax)
	defer cancel()
	var seen []string
	for _, java := range candidates {
		out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
		if err != nil {
			seen = append(seen, fmt.Sprintf("; %s: %v", java, err))
			continue
		}
		m := javaVersionLine.FindSubmatch(out)
		if m != nil && string(m[1]) == strconv.Itoa(javaMajor) {
			return java, nil
		}
		if m != nil {
			seen = append(seen, fmt.Sprintf("; %s is version %s", java, m[1]))
		}
	}
	return "", fmt.Errorf("no JDK %d found: run `make deps`, or let JAVA_HOME point to one%s", javaMajor, strings.Join(seen, ""))
}

// takePorts listens on each port, so that nobody else gets it, until release is called. A port of 0 is replaced by a
// free one. One that is in use is an error.
func takePorts(host string, ports ...*int) (release func(), err error) {
	var held []net.Listener
	release = func() {
		for _, l := range held {
			_ = l.Close()
		}
		held = nil
	}
	for _, port := range ports {
		l, err := listen(host, *port)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, l)
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return release, nil
}

func listen(host string, port int) (net.Listener, error) {
	if port != 0 {
		return net.Listen("tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	var l net.Listener
	var err error
	for range freePortTries {
		port := freePortMin + rand.IntN(freePortMax-freePortMin)
		if l, err = net.Listen("tcp4", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no free port on %s: %w", host, err)
}
