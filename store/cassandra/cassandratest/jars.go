package cassandratest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	fetchWaitMax  = 10 * time.Minute // for all jars; about 35 s on a good line
	lockPoll      = 200 * time.Millisecond
	progressEvery = 2 * time.Second
	mavenTail     = 20 // lines of Maven's output in an error
)

// Fetch makes sure that Cassandra's jars are on this machine and returns their folder, below the user's cache folder
// and named after the hash of the pom, so that another version gets another folder. Only the first call downloads;
// of several processes at once one does, and the others wait for it. Progress goes to log as it comes.
func Fetch(ctx context.Context, log *slog.Logger) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cassandratest: jar cache: %w", err)
	}
	lib, err := fetchInto(ctx, filepath.Join(cache, "placed"), log)
	if err != nil {
		return "", fmt.Errorf("cassandratest: jars: %w", err)
	}
	return lib, nil
}

func fetchInto(ctx context.Context, cache string, log *slog.Logger) (string, error) {
	pom, err := confFiles.ReadFile("conf/pom.xml")
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(pom)
	final := filepath.Join(cache, "cassandra-"+hex.EncodeToString(hash[:6]))
	lib := filepath.Join(final, "lib")
	if there, err := exists(lib); there || err != nil {
		return lib, err
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("maven is missing and Cassandra is not in %s yet: run `make deps` (%w)", cache, err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchWaitMax, fmt.Errorf("not done after %v", fetchWaitMax))
	defer cancel()
	unlock, err := waitLock(ctx, final+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if there, err := exists(lib); there || err != nil {
		return lib, err // another process was faster
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	if err := runMaven(ctx, mvn, work, log); err != nil {
		return "", err
	}
	// Only a whole download gets the final name.
	return lib, os.Rename(work, final)
}

// runMaven fills work/lib with the jars that work/pom.xml asks for.
func runMaven(ctx context.Context, mvn, work string, log *slog.Logger) error {
	cmd := exec.CommandContext(ctx, mvn, "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime")
	cmd.Dir = work
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	began := time.Now()
	log.Info("downloading Cassandra from Maven, once (67 MB)")
	if err := cmd.Start(); err != nil {
		return err
	}
	tail := watchMaven(out, log)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("mvn: %w; its last lines:\n%s", err, strings.Join(tail, "\n"))
	}
	log.Info("Cassandra is downloaded", "took", time.Since(began).Round(time.Second))
	return nil
}

// watchMaven reads Maven's output to its end, tells how far it is, and returns the last lines.
func watchMaven(out io.Reader, log *slog.Logger) (tail []string) {
	jars, told := 0, time.Now()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		tail = append(tail, line)
		tail = tail[max(0, len(tail)-mavenTail):]
		if !strings.Contains(line, "Downloaded from") || !strings.Contains(line, ".jar ") {
			continue
		}
		jars++
		if now := time.Now(); now.Sub(told) >= progressEvery {
			told = now
			log.Info("downloading Cassandra", "jars", jars)
		}
	}
	return tail
}

// waitLock takes the lock file, waiting for whoever holds it until ctx ends.
func waitLock(ctx context.Context, path string) (unlock func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		unlock, ok, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if ok {
			return unlock, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another download (%s): %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
