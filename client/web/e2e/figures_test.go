package e2e

import (
	"os"
	"testing"
)

// TestFigures prints the page's figures when PLACED_WEB_FIGURES is set (`make web-figures`). They need a quiet machine and hold
// nothing to a limit.
func TestFigures(t *testing.T) {
	if os.Getenv("PLACED_WEB_FIGURES") == "" {
		t.Skip("make web-figures")
	}
	runScript(t, startServer(t, 0), "figures.mjs", t.ArtifactDir())
}
