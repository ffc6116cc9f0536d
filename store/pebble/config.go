package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config says where and how a Store keeps its data.
type Config struct {
	Dir           string       // the store's own directory; made when it is missing
	FS            vfs.FS       // the file system; vfs.Default outside of tests
	CacheBytes    int64        // of the engine's block cache
	MemTableBytes int64        // written data held in memory before it goes to a table; up to memTables of them
	LowWaterBytes int64        // with less free space than this Health says Tight and the engine tidies up no more
	Logger        *slog.Logger // gets the engine's events at level debug, and its troubles
	Exit          func(int)    // called with 1 when the store cannot go on; os.Exit outside of tests
}

// DefaultConfig returns the settings for a store in the directory.
func DefaultConfig(dir string) Config {
	return Config{
		Dir: dir, FS: vfs.Default, CacheBytes: 64 << 20, MemTableBytes: 64 << 20, LowWaterBytes: 256 << 20,
		Logger: slog.Default(), Exit: os.Exit,
	}
}

// Bounds of a Config.
const (
	memTableBytesMin = 256 << 10
	memTableBytesMax = 1 << 30
	cacheBytesMax    = 1 << 40
)

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	fault := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Dir == "", "Dir is empty")
	fault(c.FS == nil, "FS is missing")
	fault(c.Logger == nil, "Logger is missing")
	fault(c.Exit == nil, "Exit is missing")
	fault(c.CacheBytes < 0 || c.CacheBytes > cacheBytesMax, "CacheBytes is %d, 0 to %d", c.CacheBytes, int64(cacheBytesMax))
	fault(c.MemTableBytes < memTableBytesMin || c.MemTableBytes > memTableBytesMax, "MemTableBytes is %d, %d to %d", c.MemTableBytes, memTableBytesMin, memTableBytesMax)
	fault(c.LowWaterBytes < 0, "LowWaterBytes is %d", c.LowWaterBytes)
	if len(errs) > 0 {
		return fmt.Errorf("store/pebble: config: %w", errors.Join(errs...))
	}
	return nil
}
